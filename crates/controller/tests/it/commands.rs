//! Failures that may pass, budgets, and streams of the log.

use std::time::Duration;

use futures_util::StreamExt;
use singletree_campaign::{CampaignBudget, CampaignEvent, CampaignStatus, PauseReason, PersonCommand};
use singletree_controller::{ControllerLimits, NewCampaign};

use crate::rig::{Rig, ann, play, story_model, tenant};
use crate::world::RecordingModel;

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_pauses_and_is_tried_again_later_each_time() {
    let model = RecordingModel::over(story_model());
    let rig = Rig::with_model(model.clone());
    let id = rig.create().await;
    model.fail_next(2);
    let board = rig.settle(&id).await;
    let Some(PauseReason::Transient { category, until }) = &board.pause else { panic!("{:?}", board.pause) };
    assert_eq!(category, "provider_unavailable");
    assert_eq!(until.duration_since(board.updated_at), Duration::from_secs(2));
    assert!(!board.is_cycle_open);
    play(&rig.controller, &id, || true).await;
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Completed);
    let log = rig.log(&id).await;
    let count = |is: fn(&CampaignEvent) -> bool| log.iter().filter(|entry| is(&entry.event)).count();
    assert_eq!(count(|event| matches!(event, CampaignEvent::Resumed { by: None })), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_pauses_until_it_has_room() {
    let rig = Rig::with_model(story_model());
    let budget = Some(CampaignBudget { cycles: Some(1), ..CampaignBudget::default() });
    let tasks = serde_json::from_value(crate::rig::story_plan()).unwrap();
    let new = NewCampaign { budget, tasks, ..NewCampaign::with_goal("Tell Ann.") };
    let board = rig.controller.create(&tenant(), new, &ann()).await.unwrap();
    let id = board.campaign.id.clone();
    rig.command(&id, crate::rig::approve_plan(&board)).await;
    let board = rig.settle(&id).await;
    assert_eq!(board.pause, Some(PauseReason::Budget { part: "cycles".to_owned() }));
    assert_eq!((board.usage.cycles, board.usage.tokens > 0), (1, true));
    let budget = CampaignBudget { cycles: Some(50), ..CampaignBudget::default() };
    let board = rig.command(&id, PersonCommand::EditBudget { budget }).await;
    assert_eq!(board.status, CampaignStatus::Active);
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_each_entry_once_and_ends_with_the_campaign() {
    let limits = ControllerLimits { followers: 1, ..ControllerLimits::default() };
    let rig = Rig::configured(story_model(), |builder| builder.limits(limits));
    let id = rig.create().await;
    let stream = rig.controller.follow(&tenant(), &id, 0).unwrap();
    let full = rig.controller.follow(&tenant(), &id, 0).map(drop).unwrap_err();
    assert_eq!(full.category(), "chat_subscriptions_full");
    let reading = async {
        let mut stream = std::pin::pin!(stream);
        let mut seen = Vec::new();
        while let Some(entry) = stream.next().await {
            match entry {
                Ok(entry) => seen.push(entry),
                Err(error) => return (seen, error.category().to_owned()),
            }
        }
        panic!("a stream ends with an error");
    };
    let working = async {
        play(&rig.controller, &id, || true).await;
        let log = rig.log(&id).await;
        rig.controller.delete(&tenant(), &id, &ann()).await.unwrap();
        log
    };
    let ((seen, ended), log) = futures_util::future::join(reading, working).await;
    assert_eq!((seen, ended.as_str()), (log, "campaign_unknown"));
    assert!(rig.controller.follow(&tenant(), &id, 0).is_ok(), "its place is free again");
}
