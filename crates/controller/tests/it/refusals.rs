//! Each thing that is no proof or no approval is refused by its category (acceptance 9); sessions of campaigns take no
//! messages.

use serde_json::{Value, json};
use singletree_campaign::{CampaignEvent, CampaignStatus, PersonCommand};
use singletree_controller::{CampaignCaller, NewCampaign};
use singletree_harness::{ChatTurnOutcome, CreateOptions, ForkOptions};

use crate::rig::{Rig, ann, approve_plan, tenant};
use crate::world::RecordingModel;

fn task(proof: Value) -> Value {
    json!([{ "id": "a", "description": "Do it.", "proof": proof }])
}

/// Returns the categories with which proposals were refused.
async fn refused_categories(rig: &Rig, id: &str) -> Vec<String> {
    let log = rig.log(id).await;
    let refused = log.iter().filter_map(|entry| match &entry.event {
        CampaignEvent::ProposalRefused { category, .. } => Some(category.clone()),
        _ => None,
    });
    refused.collect()
}

/// Lets a model propose a plan, and a person put the same one; returns the category of both refusals.
async fn refuse_plan(tasks: Value) -> String {
    let rig =
        Rig::with_model(RecordingModel::proposing(&[json!({ "action": "replace_plan", "tasks": tasks })]));
    let id = rig.create().await;
    rig.settle(&id).await;
    let of_model = refused_categories(&rig, &id).await;
    let tasks = serde_json::from_value(tasks).unwrap();
    let new = NewCampaign { tasks, ..NewCampaign::with_goal("Tell Ann.") };
    let of_person = rig.controller.create(&tenant(), new, &ann()).await.unwrap_err();
    assert_eq!(of_model.len(), 1);
    // A plan without proofs does not even fit the schema of a proposal.
    assert!(
        of_model[0] == of_person.category() || of_model[0] == "campaign_proposal_invalid",
        "{of_model:?}"
    );
    of_person.category().to_owned()
}

#[tokio::test(start_paused = true)]
async fn plans_whose_proofs_prove_nothing_are_refused() {
    assert_eq!(refuse_plan(task(json!([]))).await, "campaign_plan_invalid");
    let reading = json!([{ "type": "tool_succeeded", "tool": "look" }]);
    assert_eq!(refuse_plan(task(reading)).await, "campaign_proof_invalid");
    let unlisted = json!([{ "type": "mcp_read", "server": "crm", "tool": "read", "expect": {} }]);
    assert_eq!(refuse_plan(task(unlisted)).await, "campaign_proof_invalid");
}

#[tokio::test(start_paused = true)]
async fn the_success_of_another_task_proves_nothing() {
    let proof = json!([{ "type": "tool_succeeded", "tool": "note" }]);
    let tasks = json!([
        { "id": "a", "description": "Do it.", "proof": proof },
        { "id": "b", "description": "Do it too.", "proof": proof },
    ]);
    let rig = Rig::with_model(RecordingModel::proposing(&[
        json!({ "action": "select_task", "task": "a" }),
        json!({ "action": "execute_tool", "task": "a", "tool": "note", "args": {} }),
        json!({ "action": "complete_task", "task": "a" }),
        json!({ "action": "select_task", "task": "b" }),
        json!({ "action": "complete_task", "task": "b" }),
    ]));
    let id = rig.begin_with_plan(tasks).await;
    let board = rig.settle(&id).await;
    assert_eq!(refused_categories(&rig, &id).await, ["campaign_proof_missing"]);
    assert_eq!((board.count_tasks().done, board.count_tasks().in_progress), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_listed_tool_reads_a_proof_with_the_arguments_of_the_plan() {
    for (expect, done) in [(json!({ "state": "paid" }), 1), (json!({ "state": "open" }), 0)] {
        let proof = json!([{ "type": "mcp_read", "server": "crm", "tool": "read", "expect": expect }]);
        let model = RecordingModel::proposing(&[
            json!({ "action": "select_task", "task": "a" }),
            json!({ "action": "complete_task", "task": "a" }),
        ]);
        let rig = Rig::configured(model, |builder| builder.verify_tool("crm", "read"));
        let id = rig.begin_with_plan(task(proof)).await;
        let board = rig.settle(&id).await;
        assert_eq!(board.count_tasks().done, done, "{expect}");
        assert_eq!(board.status == CampaignStatus::Completed, done == 1);
    }
}

// An agent's own call carries no scope.
#[tokio::test(start_paused = true)]
async fn a_caller_without_the_scope_approves_nothing() {
    let rig = Rig::with_model(crate::rig::story_model());
    let id = rig.create().await;
    let board = rig.settle(&id).await;
    let agent = CampaignCaller::new("writer").with_scope(singletree_campaign::CampaignScope::Write);
    let question = "Did it arrive?".to_owned();
    for command in [
        approve_plan(&board),
        PersonCommand::Confirm { task: "send".to_owned(), question },
        PersonCommand::DecideAction { digest: "d".to_owned(), approved: true, reason: None },
        PersonCommand::Cancel,
    ] {
        let refused = rig.controller.command(&tenant(), &id, command, &agent).await.unwrap_err();
        assert_eq!(refused.category(), "campaign_scope_missing");
    }
    let refused = rig.controller.delete(&tenant(), &id, &agent).await.unwrap_err();
    assert_eq!(refused.category(), "campaign_scope_missing");
    assert_eq!(rig.board(&id).await, board);
}

// spec: agent-chat-output §9: who writes "yes" into the session of a campaign approves nothing.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_campaign_takes_no_messages_forks_edits_or_imports() {
    let rig = Rig::with_model(crate::rig::story_model());
    let id = rig.create().await;
    let board = rig.settle(&id).await;
    let name = format!("campaign:{id}");
    let session = rig.chat.session(&name);
    let ChatTurnOutcome::Errored(sent) = session.send("yes").await else { panic!("it was sent") };
    assert_eq!(sent.error_category, "chat_session_reserved");
    let export = session.export().await.unwrap();
    let refusals = [
        session.fork(ForkOptions::new()).await.map(drop),
        rig.chat.session("other").fork(ForkOptions::new().session(&name)).await.map(drop),
        rig.chat.import_session(export, Some("campaign:cmp_new")).await,
        rig.chat.create_session(CreateOptions::new().session("campaign:cmp_new")).await.map(drop),
        session.delete(None).await,
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap_err().category(), "chat_session_reserved");
    }
    let edited = session.edit(0, "no").await;
    let edited = edited.unwrap_err().into_errored_turn();
    assert_eq!(edited.error_category, "chat_session_reserved");
    // The agent that runs cycles answers nowhere else, and is not listed.
    assert_eq!(rig.chat.agents().collect::<Vec<_>>(), ["writer"]);
    let other = CreateOptions::new().agent("campaign");
    assert_eq!(rig.chat.create_session(other).await.unwrap_err().category(), "chat_agent_unknown");
    assert_eq!(rig.board(&id).await, board);
}
