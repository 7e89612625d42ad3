//! A campaign goes on when whoever changed it was not told so: the answer was lost, or the caller went away.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use singletree_campaign::MissedRuns;
use singletree_campaign::{CampaignEvent, CampaignStatus, PersonCommand};
use singletree_controller::{NewCampaign, NewSchedule};
use singletree_durable::MemoryStore;

use crate::rig::{Rig, ann, approve_plan, story_model, tenant};
use crate::slow_store::{SlowStore, start_task};
use crate::world::RecordingModel;

/// How long the runner gets, of the test's paused time.
const WHILE: Duration = Duration::from_secs(30);

fn open() -> (Rig, SlowStore) {
    let store = SlowStore::over(MemoryStore::new());
    (Rig::over(Arc::new(store.clone()), story_model()), store)
}

/// Creates a campaign with a plan that waits for approval; its task notes something.
async fn create_planned(rig: &Rig) -> String {
    let tasks = json!([{ "id": "note", "description": "Note it.", "proof": [
        { "type": "tool_succeeded", "tool": "note", "args": { "to": "file" } },
    ] }]);
    let tasks = serde_json::from_value(tasks).unwrap();
    let new = NewCampaign { tasks, ..NewCampaign::with_goal("Note it.") };
    rig.controller.create(&tenant(), new, &ann()).await.unwrap().campaign.id
}

/// Polls a call so often, then drops it.
async fn poll_and_drop(call: impl Future, polls: usize) {
    let mut call = pin!(call);
    for _ in 0..polls {
        let is_over = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        if is_over {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Lets the runner run while a person does something.
async fn run_while(rig: &Rig, person: impl Future<Output = ()> + Send) {
    let person = async {
        // The runner looks first.
        tokio::time::sleep(Duration::from_secs(1)).await;
        person.await;
        tokio::time::sleep(WHILE).await;
    };
    rig.controller.run(person).await;
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_answer_was_lost_is_carried_out() {
    let (rig, store) = open();
    let id = create_planned(&rig).await;
    let board = rig.board(&id).await;
    run_while(&rig, async {
        store.lose_answer();
        let (tenant, ann) = (tenant(), ann());
        let told = rig.controller.command(&tenant, &id, approve_plan(&board), &ann).await;
        assert_eq!(told.unwrap_err().category(), "store_unavailable");
    })
    .await;
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_caller_went_away_is_carried_out_or_not_given() {
    let mut carried_out = 0;
    for polls in 1..30 {
        let (rig, _) = open();
        let id = create_planned(&rig).await;
        let board = rig.board(&id).await;
        run_while(&rig, async {
            let (tenant, ann) = (tenant(), ann());
            let call = rig.controller.command(&tenant, &id, approve_plan(&board), &ann);
            poll_and_drop(call, polls).await;
        })
        .await;
        let board = rig.board(&id).await;
        let expected =
            if board.is_plan_approved() { CampaignStatus::Completed } else { CampaignStatus::Initializing };
        assert_eq!(board.status, expected, "dropped after {polls} polls");
        carried_out += usize::from(board.is_plan_approved());
    }
    assert!((1..29).contains(&carried_out), "{carried_out} of 29 were carried out");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_whose_creation_was_answered_with_an_error_is_run() {
    let (rig, store) = open();
    let new = NewCampaign { id: Some("cmp_1".to_owned()), ..NewCampaign::with_goal("Tell Ann.") };
    run_while(&rig, async {
        store.lose_answer();
        let (tenant, ann) = (tenant(), ann());
        let told = rig.controller.create(&tenant, new, &ann).await;
        assert_eq!(told.unwrap_err().category(), "store_unavailable");
    })
    .await;
    assert!(rig.board("cmp_1").await.plan.is_some(), "the agent was asked for a plan");
}

// Found by the simulation (seed 18801).
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_ends_no_newer_pause() {
    let store = SlowStore::over(MemoryStore::new());
    let model = RecordingModel::over(story_model());
    model.hold_request(1);
    model.fail_next(1);
    let rig = Rig::over(Arc::new(store.clone()), model.clone());
    let id = rig.create().await;
    let wait_for_status = async |status| {
        while rig.board(&id).await.status != status {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    run_while(&rig, async {
        model.is_held.notified().await;
        // It is paused, and nobody is told yet; somebody else resumes it; then its cycle fails.
        store.hold_answer();
        let (controller, campaign) = (rig.controller.clone(), id.clone());
        let pausing = start_task(async move {
            controller.command(&tenant(), &campaign, PersonCommand::Pause, &ann()).await
        });
        wait_for_status(CampaignStatus::Paused).await;
        rig.command(&id, PersonCommand::Resume).await;
        model.let_go.notify_one();
        wait_for_status(CampaignStatus::Paused).await;
        store.release_answer();
        pausing.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
    })
    .await;
    let log = rig.log(&id).await;
    assert!(log.iter().any(|entry| matches!(entry.event, CampaignEvent::Resumed { by: None })), "{log:?}");
    assert!(rig.board(&id).await.plan.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_schedule_whose_answer_was_lost_fires() {
    let (rig, store) = open();
    let id = create_planned(&rig).await;
    let schedule = NewSchedule {
        expression: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: MissedRuns::Once,
        command: "Look again.".to_owned(),
    };
    run_while(&rig, async {
        store.lose_answer();
        let (tenant, ann) = (tenant(), ann());
        let told = rig.controller.add_schedule(&tenant, &id, schedule, &ann).await;
        assert_eq!(told.unwrap_err().category(), "store_unavailable");
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    let log = rig.log(&id).await;
    let is_woken = |event: &CampaignEvent| matches!(event, CampaignEvent::CommandGiven { text, .. } if text == "Look again.");
    assert!(log.iter().any(|entry| is_woken(&entry.event)));
}

#[tokio::test(start_paused = true)]
async fn a_follower_hears_of_a_deletion_whose_caller_went_away() {
    let mut deleted = 0;
    for polls in 1..8 {
        // Documents are deleted with the session where both are in one store.
        let rig = Rig::with_model(story_model());
        let id = create_planned(&rig).await;
        let last = rig.board(&id).await.seq;
        let mut entries = Box::pin(rig.controller.follow(&tenant(), &id, 0).unwrap());
        while entries.next().await.unwrap().unwrap().seq < last {}
        // It waits for the next entry.
        let follower = start_task(async move { entries.next().await });
        tokio::task::yield_now().await;
        let (tenant, ann) = (tenant(), ann());
        poll_and_drop(rig.controller.delete(&tenant, &id, &ann), polls).await;
        tokio::time::sleep(WHILE).await;
        if rig.controller.get(&tenant, &id).await.is_err() {
            deleted += 1;
            let told = tokio::time::timeout(WHILE, follower).await.expect("the follower is told");
            assert_eq!(told.unwrap().unwrap().unwrap_err().category(), "campaign_unknown", "{polls} polls");
        }
    }
    assert!(deleted > 0);
}
