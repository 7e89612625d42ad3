//! Of two commands that contradict each other exactly one is carried out (acceptance 4).

use std::sync::Arc;

use futures_util::future::join;
use serde_json::{Value, json};
use singletree_campaign::{CampaignBoard, CampaignStatus, PersonCommand};
use singletree_durable::MemoryStore;

use crate::rig::{Rig, ann, approve_plan, story_model, tenant, whole_log};
use crate::slow_store::SlowStore;
use crate::world::RecordingModel;

fn one_call() -> Value {
    json!([{ "id": "send", "description": "Send it.", "proof": [
        { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
    ] }])
}

fn rig() -> Rig {
    Rig::over(Arc::new(SlowStore::over(MemoryStore::new())), story_model())
}

/// Gives two commands at the same time; returns the categories of their refusals.
async fn both(rig: &Rig, id: &str, one: PersonCommand, other: PersonCommand) -> [Option<String>; 2] {
    let (tenant, ann) = (tenant(), ann());
    let command = |command| rig.controller.command(&tenant, id, command, &ann);
    let (one, other) = join(command(one), command(other)).await;
    let refusal = |ended: Result<CampaignBoard, singletree_controller::Error>| {
        ended.err().map(|error| error.category().to_owned())
    };
    let board = rig.board(id).await;
    assert_eq!(CampaignBoard::from_log(&whole_log(&rig.controller, id).await).unwrap(), board);
    [refusal(one), refusal(other)]
}

fn one_wins(refusals: &[Option<String>; 2], category: &str) {
    let refused: Vec<&str> = refusals.iter().flatten().map(String::as_str).collect();
    assert_eq!(refused, [category], "{refusals:?}");
}

/// The model finds nothing for the third time, and while it is asked a person gives a command: it is carried out by the
/// next cycle, and the campaign does not pause before.
#[tokio::test(start_paused = true)]
async fn a_command_given_while_the_model_is_asked_is_carried_out() {
    let model = RecordingModel::proposing(&[]);
    model.hold_request(3);
    let rig = Rig::with_model(model.clone());
    let id = rig.begin_with_plan(one_call()).await;
    let meanwhile = async {
        model.is_held.notified().await;
        rig.command(&id, PersonCommand::Free { text: "Ann waits.".into() }).await;
        model.let_go.notify_one();
    };
    let (board, ()) = join(rig.settle(&id), meanwhile).await;
    assert_eq!(board.status, CampaignStatus::Paused);
    let told: Vec<bool> =
        model.request_bytes().iter().map(|bytes| bytes.contains("# Command\\nAnn waits.")).collect();
    assert_eq!(told, [false, false, false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn one_decision_about_a_call_counts() {
    for first in [true, false] {
        let rig = rig();
        let id = rig.begin_with_plan(one_call()).await;
        let board = rig.settle(&id).await;
        let digest = board.action.unwrap().action.digest;
        let decide =
            |approved| PersonCommand::DecideAction { digest: digest.clone(), approved, reason: None };
        one_wins(&both(&rig, &id, decide(first), decide(!first)).await, "campaign_changed");
        rig.settle(&id).await;
        let decided: Vec<bool> = whole_log(&rig.controller, &id)
            .await
            .iter()
            .filter_map(|entry| match &entry.event {
                singletree_campaign::CampaignEvent::ActionDecided { approved, .. } => Some(*approved),
                _ => None,
            })
            .collect();
        assert_eq!(decided.len(), 1);
        assert_eq!(rig.world.effects().len(), usize::from(decided[0]), "a rejected call is never made");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_voids_the_approval_whichever_comes_first() {
    for edit_first in [true, false] {
        let rig = rig();
        let new = singletree_controller::NewCampaign {
            tasks: serde_json::from_value(one_call()).unwrap(),
            ..singletree_controller::NewCampaign::with_goal("Tell Ann.")
        };
        let board = rig.controller.create(&tenant(), new, &ann()).await.unwrap();
        let id = board.campaign.id.clone();
        let tasks = serde_json::from_value(one_call()).unwrap();
        let (edit, approve) = (PersonCommand::EditPlan { version: 1, tasks }, approve_plan(&board));
        let refusals = match edit_first {
            true => both(&rig, &id, edit, approve).await,
            false => both(&rig, &id, approve, edit).await,
        };
        assert!(refusals.iter().flatten().all(|category| category == "campaign_changed"), "{refusals:?}");
        let board = rig.board(&id).await;
        assert_eq!(board.plan.as_ref().unwrap().version, 2);
        assert!(!board.is_plan_approved(), "nobody has approved version 2");
        rig.settle(&id).await;
        assert!(rig.world.effects().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn two_pauses_two_approvals_and_an_end_have_one_winner() {
    let rig = rig();
    let id = rig.begin_with_plan(one_call()).await;
    one_wins(&both(&rig, &id, PersonCommand::Pause, PersonCommand::Pause).await, "campaign_status_unfit");
    one_wins(&both(&rig, &id, PersonCommand::Resume, PersonCommand::Resume).await, "campaign_status_unfit");
    let board = rig.board(&id).await;
    let again = rig.controller.command(&tenant(), &id, approve_plan(&board), &ann()).await.unwrap_err();
    assert_eq!(again.category(), "campaign_changed");
    one_wins(&both(&rig, &id, PersonCommand::Cancel, PersonCommand::Cancel).await, "campaign_status_unfit");
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Cancelled);
}

// A pause acts at once for everything that has not begun: the answer of the model is not decided about.
#[tokio::test(start_paused = true)]
async fn a_pause_beside_a_cycle_stops_what_has_not_begun() {
    let rig = rig();
    let id = rig.begin_with_plan(one_call()).await;
    let (tenant, ann) = (tenant(), ann());
    for later in 0..60 {
        let pausing = async {
            for _ in 0..later {
                tokio::task::yield_now().await;
            }
            rig.controller.command(&tenant, &id, PersonCommand::Pause, &ann).await
        };
        let (_, paused) = join(rig.settle(&id), pausing).await;
        paused.unwrap();
        assert_eq!(rig.board(&id).await.status, CampaignStatus::Paused);
        let before = whole_log(&rig.controller, &id).await.len();
        rig.settle(&id).await;
        assert_eq!(
            whole_log(&rig.controller, &id).await.len(),
            before,
            "nothing happens in a paused campaign"
        );
        rig.command(&id, PersonCommand::Resume).await;
    }
    let board = rig.settle(&id).await;
    assert!(rig.world.effects().is_empty());
    let digest = board.action.unwrap().action.digest;
    rig.command(&id, PersonCommand::DecideAction { digest, approved: true, reason: None }).await;
    rig.settle(&id).await;
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Completed);
    assert_eq!(rig.world.effects().len(), 1);
}
