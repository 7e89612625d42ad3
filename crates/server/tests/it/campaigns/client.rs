//! The typed client of campaigns: everything that a command line beside a running server needs.

use std::sync::Arc;

use serde_json::json;
use singletree_client::{CampaignClient, Connection};
use singletree_http::{HttpClient, HttpLimits};
use singletree_protocol::native::{
    AddSchedule, ApproveArtifact, ApprovePlan, CampaignCommand, CampaignLogKind, CampaignPhase,
    CreateCampaign, EditPlan, MissedDueTimes, PauseCause, PendingDecision, RejectPlan,
};

use super::{World, story_plan};
use crate::support::rig::within;

fn client_of(world: &World) -> CampaignClient {
    let transport = Arc::new(HttpClient::new(HttpLimits::standard()).unwrap());
    CampaignClient::new(Connection::new(transport, &format!("http://{}", world.rig.at), None).unwrap())
}

#[tokio::test]
async fn a_campaign_is_driven_from_its_goal_to_its_end_by_the_client() {
    let world = World::start().await;
    let client = client_of(&world);
    let new = CreateCampaign { template: Some("letters".into()), ..CreateCampaign::default() };
    let id = client.create_campaign(&new).await.unwrap().id;
    assert_eq!(client.list_campaigns(None, Some(10)).await.unwrap().items[0].id, id);
    assert_eq!(client.list_templates().await.unwrap().items[0].name, "letters");
    client.reject_plan(&id, &RejectPlan { version: 1, reason: None }).await.unwrap();
    let tasks = serde_json::from_value(story_plan()).unwrap();
    let plan = client.edit_plan(&id, &EditPlan { version: 1, tasks }).await.unwrap();
    assert_eq!(client.fetch_plan(&id).await.unwrap(), plan);
    let approval = ApprovePlan { version: plan.version, digest: plan.digest };
    assert_eq!(client.approve_plan(&id, &approval).await.unwrap().status, CampaignPhase::Active);
    // Follows until the report is proposed, and approves it as it was read.
    let mut events = client.follow_campaign(&id, 0).await.unwrap();
    let (kind, key, version) = loop {
        let entry = within(events.next_entry()).await.unwrap().unwrap();
        if let CampaignLogKind::ArtifactProposed { kind, key, version, .. } = entry.event {
            break (kind, key, version);
        }
    };
    let artifact = client.fetch_campaign_artifact(&id, (&kind, &key, version)).await.unwrap();
    assert_eq!(client.list_campaign_artifacts(&id).await.unwrap().items[0].digest, artifact.digest);
    let approval = ApproveArtifact { kind, key, version, digest: artifact.digest };
    client.approve_campaign_artifact(&id, &approval).await.unwrap();
    // A new stream goes on after the last entry that was seen.
    let mut events = client.follow_campaign(&id, events.last_entry_number()).await.unwrap();
    let call = loop {
        let entry = within(events.next_entry()).await.unwrap().unwrap();
        if let CampaignLogKind::ActionProposed { action, needs_approval: true } = entry.event {
            break action;
        }
    };
    assert_eq!(client.fetch_campaign(&id).await.unwrap().waits_for, Some(PendingDecision::Action));
    let paused = client.pause_campaign(&id).await.unwrap();
    assert_eq!(paused.pause, Some(PauseCause::Person { by: "local".into() }));
    let decision = CampaignCommand::Decide { digest: call.digest, approved: true, reason: None };
    for _ in 0..2 {
        client.give_command(&id, &decision, Some("once")).await.unwrap();
    }
    client.resume_campaign(&id).await.unwrap();
    while !matches!(
        within(events.next_entry()).await.unwrap().unwrap().event,
        CampaignLogKind::ActionDone { success: true, .. }
    ) {}
    let confirm = CampaignCommand::Confirm { task: "send".into(), question: "Did it arrive?".into() };
    client.give_command(&id, &confirm, None).await.unwrap();
    while within(events.next_entry()).await.unwrap().unwrap().event != CampaignLogKind::Completed {}
    assert_eq!(client.list_tasks(&id, 1, Some(1)).await.unwrap().items[0].id, "send");
    assert_eq!(client.read_log(&id, 0, Some(1)).await.unwrap().next, Some(1));
    assert_eq!(world.rig.world.done(), ["send report"]);
    client.delete_campaign(&id).await.unwrap();
    assert_eq!(client.fetch_campaign(&id).await.unwrap_err().category(), "campaign_unknown");
    assert_eq!(within(events.next_entry()).await.unwrap_err().category(), "campaign_unknown");
}

#[tokio::test]
async fn schedules_and_refusals_reach_the_client() {
    let world = World::start().await;
    let client = client_of(&world);
    let new =
        CreateCampaign { goal: Some("x".into()), id: Some("cmp_a".into()), ..CreateCampaign::default() };
    client.create_campaign(&new).await.unwrap();
    assert_eq!(client.create_campaign(&new).await.unwrap_err().category(), "campaign_changed");
    let schedule = AddSchedule {
        expression: "0 8 * * *".into(),
        zone: None,
        missed: MissedDueTimes::Skip,
        command: "Look.".into(),
    };
    let added = client.add_schedule("cmp_a", &schedule).await.unwrap();
    assert_eq!(client.list_schedules("cmp_a").await.unwrap().items, std::slice::from_ref(&added));
    client.remove_schedule("cmp_a", &added.id).await.unwrap();
    let again = client.remove_schedule("cmp_a", &added.id).await.unwrap_err();
    assert_eq!(again.category(), "campaign_schedule_unknown");
    client.cancel_campaign("cmp_a").await.unwrap();
    let answer = CampaignCommand::Answer { question: "Why?".into(), answer: json!("so") };
    let over = client.give_command("cmp_a", &answer, None).await.unwrap_err();
    assert_eq!(over.category(), "campaign_status_unfit");
}
