//! The runner: every campaign that can go on gets its cycles in turn, a paused one costs nothing, schedules wake
//! campaigns, and a restart reads documents only (acceptance 5; issue 20, point 12).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_campaign::{CampaignEvent, CampaignStatus, MissedRuns, PersonCommand};
use singletree_controller::{ControllerLimits, NewCampaign, NewSchedule};
use singletree_llm::{
    BoxFuture, BoxStream, Error, Provider, ProviderErrorDetail, Request, Response, ResponseDelta, Result,
};
use tokio::sync::Notify;

use crate::rig::{Rig, ann, approve_plan, play, story_model, tenant};
use crate::world::{RecordingModel, answer_with};

/// A model that works on its task for ever, and notes whose cycle each request is.
#[derive(Debug, Default)]
struct EndlessModel {
    asked: Mutex<Vec<String>>,
    enough: usize,
    done: Notify,
}

impl Provider for EndlessModel {
    fn model_name(&self) -> &str {
        "endless"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        let text = request.messages[1].text().into_owned();
        let state = text.strip_prefix("# State\n").and_then(|rest| rest.lines().next()).unwrap();
        let state: Value = serde_json::from_str(state).unwrap();
        let mut asked = self.asked.lock().unwrap();
        asked.push(state["campaign"]["name"].as_str().unwrap().to_owned());
        if asked.len() >= self.enough {
            self.done.notify_one();
        }
        let proposal = match state["task"].is_null() {
            true => json!({ "action": "select_task", "task": "a" }),
            false => json!({ "action": "execute_tool", "task": "a", "tool": "look", "args": {} }),
        };
        Box::pin(async move { Ok(answer_with(proposal)) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async { Err(Error::Unavailable(ProviderErrorDetail::new("it does not stream"))) })
    }
}

/// Creates so many campaigns that can go on for ever.
async fn create_endless(rig: &Rig, count: usize) -> Vec<String> {
    let tasks = json!([{ "id": "a", "description": "Go on.", "proof": [
        { "type": "user_confirmed", "question": "Enough?" },
    ] }]);
    let mut ids = Vec::new();
    for at in 0..count {
        let new = NewCampaign {
            name: Some(format!("c{at}")),
            tasks: serde_json::from_value(tasks.clone()).unwrap(),
            ..NewCampaign::with_goal("Go on.")
        };
        let board = rig.controller.create(&tenant(), new, &ann()).await.unwrap();
        rig.command(&board.campaign.id, approve_plan(&board)).await;
        ids.push(board.campaign.id);
    }
    ids
}

/// Runs campaigns until the model was asked often enough, and checks that in any ten rounds each got 10 ± 1 cycles. The
/// example `thousand_campaigns` does the same for 1,000 over a file.
async fn check_fairness(count: usize, rounds: usize) {
    let model = Arc::new(EndlessModel { enough: count * rounds, ..EndlessModel::default() });
    let rig = Rig::configured(model.clone(), |builder| {
        builder.limits(ControllerLimits { cycles_at_once: 1, ..ControllerLimits::default() })
    });
    let ids = create_endless(&rig, count).await;
    rig.controller.run(model.done.notified()).await;
    let asked = model.asked.lock().unwrap().clone();
    for window in asked.windows(count * 10).step_by(count.div_ceil(2)) {
        let mut cycles = BTreeMap::<&str, usize>::new();
        for name in window {
            *cycles.entry(name).or_default() += 1;
        }
        assert_eq!(cycles.len(), count);
        assert!(cycles.values().all(|cycles| (9..=11).contains(cycles)), "{cycles:?}");
    }
    for id in &ids {
        rig.command(id, PersonCommand::Pause).await;
    }
    // A runner that finds paused campaigns only has nothing to do, and holds no session of theirs.
    let asked = asked.len();
    rig.controller.run(tokio::time::sleep(Duration::from_secs(3_600))).await;
    assert!(model.asked.lock().unwrap().len() <= asked + 1, "the cycle that ran when the runner stopped");
}

#[tokio::test(start_paused = true)]
async fn every_campaign_gets_its_cycles_in_turn() {
    check_fairness(40, 12).await;
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_waits_has_no_loaded_session_and_a_decision_wakes_it() {
    let rig = Rig::with_model(story_model());
    let id = rig.create().await;
    let stop = Notify::new();
    let person = async {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let board = rig.board(&id).await;
            assert_eq!(rig.chat.loaded().sessions, 0, "{:?}", board.wait);
            if board.status.is_over() {
                break stop.notify_one();
            }
            assert!(!board.next_step().runs());
            crate::rig::decide_as_person(&rig.controller, &board).await.unwrap();
        }
    };
    futures_util::future::join(rig.controller.run(stop.notified()), person).await;
    assert_eq!(rig.board(&id).await.status, CampaignStatus::Completed);
}

// spec: agent-chat-output §10
#[tokio::test(start_paused = true)]
async fn the_runner_of_another_process_goes_on_from_the_documents_and_wakes_by_the_time_of_a_pause() {
    let model = RecordingModel::over(story_model());
    let rig = Rig::with_model(model.clone());
    let id = rig.create().await;
    model.fail_next(1);
    let board = rig.settle(&id).await;
    assert_eq!(board.status, CampaignStatus::Paused);
    rig.chat.shutdown(Duration::ZERO).await;
    let journal = rig.store.reopen();
    let documents = Arc::new(journal.clone());
    let agent = crate::rig::agent(model.clone(), &rig.world, singletree_tools::Recovery::Rerun);
    let env = crate::rig::env_from(1_000);
    let (controller, _chat) = crate::rig::open_with(agent, (documents, journal), env, |builder| builder);
    controller.run(tokio::time::sleep(Duration::from_secs(60))).await;
    let board = controller.get(&tenant(), &id).await.unwrap();
    assert_eq!(board.wait, Some(singletree_campaign::CampaignWait::Plan));
    play(&controller, &id, || true).await;
    assert_eq!(controller.get(&tenant(), &id).await.unwrap().status, CampaignStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_wakes_its_campaign_with_its_command_once_each_time() {
    let model = RecordingModel::proposing(&[]);
    let rig = Rig::with_model(model.clone());
    let id = rig.create().await;
    let hourly = NewSchedule {
        expression: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: MissedRuns::Once,
        command: "Look whether somebody has written.".to_owned(),
    };
    let often = NewSchedule { expression: "* * * *".to_owned(), ..hourly.clone() };
    let refused = rig.controller.add_schedule(&tenant(), &id, often, &ann()).await.unwrap_err();
    assert_eq!(refused.category(), "campaign_schedule_invalid");
    let added = rig.controller.add_schedule(&tenant(), &id, hourly, &ann()).await.unwrap();
    rig.controller.run(tokio::time::sleep(Duration::from_secs(3 * 3_600 + 1_800))).await;
    let fired = |log: &[singletree_campaign::CampaignLogEntry]| {
        let by = format!("schedule:{}", added.id);
        let is_fired = |event: &CampaignEvent| matches!(event, CampaignEvent::CommandGiven { by: who, .. } if *who == by);
        log.iter().filter(|entry| is_fired(&entry.event)).count()
    };
    assert_eq!(fired(&rig.log(&id).await), 3);
    let shown = model.request_bytes().iter().filter(|request| request.contains("Look whether")).count();
    assert!(shown >= 3, "{shown}");
    // What was missed while nothing ran is made up for by one run.
    tokio::time::sleep(Duration::from_secs(5 * 3_600)).await;
    rig.controller.run(tokio::time::sleep(Duration::from_secs(60))).await;
    assert_eq!(fired(&rig.log(&id).await), 4);
    let listed = rig.controller.schedules(&tenant(), &id).await.unwrap();
    assert_eq!(listed.len(), 1);
    rig.controller.remove_schedule(&tenant(), &id, &added.id, &ann()).await.unwrap();
    let gone = rig.controller.remove_schedule(&tenant(), &id, &added.id, &ann()).await.unwrap_err();
    assert_eq!(gone.category(), "campaign_schedule_unknown");
}
