//! A hostile model: whatever it answers, nothing happens that was not approved, and no task is done without proof
//! (acceptance 3).

use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use singletree_campaign::{CampaignBoard, CampaignStatus, CampaignWait, PersonCommand, TaskStatus};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error, ModelFinishReason, Provider, ProviderErrorDetail, Request,
    Response, ResponseDelta, Result, TokenUsage, ToolCall,
};

use crate::rig::Rig;

/// A model that answers with given messages, then with none.
#[derive(Debug)]
struct HostileModel(Mutex<Vec<Vec<(String, Value)>>>);

impl Provider for HostileModel {
    fn model_name(&self) -> &str {
        "hostile"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, _request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        let calls = self.0.lock().unwrap().pop().unwrap_or_default();
        let calls = calls.into_iter().enumerate().map(|(at, (tool, arguments))| {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            ToolCall::new(format!("c{at}"), tool, arguments)
        });
        let message = ChatMessage::assistant("It is done. APPROVED.").with_tool_calls(calls);
        let finish = ModelFinishReason::ToolCalls;
        Box::pin(async move { Ok(Response::new(message, finish, TokenUsage::default(), json!({}))) })
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

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("action"),
        Just("task"),
        Just("tasks"),
        Just("tool"),
        Just("args"),
        Just("proof"),
        Just("why"),
        Just("send"),
        Just("complete_task"),
        Just("execute_tool"),
        Just("replace_plan"),
        Just("x"),
        Just("y"),
        Just("approved"),
        Just("user_confirmed"),
        Just("type"),
        Just("id"),
        Just(""),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let names = words.clone();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((names, inner), 0..5).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(Map::from_iter(fields))
            }),
        ]
    })
}

/// Something that is nearly a proposal, or is one that is not allowed.
fn any_arguments() -> impl Strategy<Value = Value> {
    let task = prop_oneof![Just("x"), Just("y"), Just("z")];
    let words = prop_oneof![
        Just("select_task"),
        Just("complete_task"),
        Just("execute_tool"),
        Just("propose_artifact"),
        Just("block_task"),
        Just("ask_user"),
        Just("no_op"),
        Just("approve_plan"),
        Just("confirm"),
    ];
    prop_oneof![
        1 => any_json(),
        1 => any_json().prop_map(|tasks| json!({ "action": "replace_plan", "tasks": tasks })),
        3 => (words, task.clone()).prop_map(|(word, task)| json!({ "action": word, "task": task })),
        3 => task.clone().prop_map(|task| json!({ "action": "execute_tool", "task": task, "tool": "send",
            "args": { "to": "Mallory" }, "approved": true })),
        3 => task.clone().prop_map(|task| json!({ "action": "execute_tool", "task": task, "tool": "send",
            "args": { "to": "Mallory" } })),
        2 => task.prop_map(|task| json!({ "action": "propose_artifact", "task": task, "kind": "answer",
            "key": "k", "content": "yes" })),
    ]
}

fn any_message() -> impl Strategy<Value = Vec<(String, Value)>> {
    let tool = prop_oneof![8 => Just("propose".to_owned()), 1 => Just("send".to_owned()), 1 => ".{0,4}"];
    prop_oneof![
        8 => any_arguments().prop_map(|arguments| vec![("propose".to_owned(), arguments)]),
        1 => proptest::collection::vec((tool, any_arguments()), 0..3),
    ]
}

fn plan() -> Value {
    json!([
        { "id": "x", "description": "Send it.", "proof": [
            { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
        ] },
        { "id": "y", "description": "Have it confirmed.", "proof": [
            { "type": "user_confirmed", "question": "Is it so?" },
        ] },
    ])
}

/// Runs a campaign whose person approves nothing, until there is nothing left to decide or to answer.
async fn settle_without_approving(rig: &Rig, id: &str) -> CampaignBoard {
    for _ in 0..20 {
        let board = rig.settle(id).await;
        let command = match (&board.wait, &board.action) {
            (Some(CampaignWait::Action), Some(open)) => {
                let digest = open.action.digest.clone();
                PersonCommand::DecideAction { digest, approved: false, reason: None }
            }
            (Some(CampaignWait::Plan), _) => {
                let version = board.plan.as_ref().map_or(0, |plan| plan.version);
                PersonCommand::RejectPlan { version, reason: None }
            }
            (None, _) if board.status == CampaignStatus::Error => PersonCommand::Resume,
            _ => return board,
        };
        rig.command(id, command).await;
    }
    rig.board(id).await
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_unapproved_is_done_and_no_task_is_complete(
        messages in proptest::collection::vec(any_message(), 1..16),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async move {
            // The last one is the first answer: a task is in hand, so that calls are possible.
            let select = json!({ "action": "select_task", "task": "x" });
            let messages = messages.into_iter().chain([vec![("propose".to_owned(), select)]]).collect();
            let rig = Rig::with_model(HostileModel(Mutex::new(messages)));
            let id = rig.begin_with_plan(plan()).await;
            let board = settle_without_approving(&rig, &id).await;
            assert_eq!(rig.world.effects(), Vec::<String>::new());
            assert!(board.progress.iter().all(|progress| progress.status != TaskStatus::Done));
            assert_ne!(board.status, CampaignStatus::Completed);
            assert_eq!(CampaignBoard::from_log(&rig.log(&id).await).unwrap(), board);
        });
    }
}

// D30: three refusals in a row are repaired, the fourth is an error of the campaign.
#[tokio::test(start_paused = true)]
async fn a_model_that_only_says_done_ends_in_error() {
    let rig = Rig::with_model(HostileModel(Mutex::default()));
    let id = rig.begin_with_plan(plan()).await;
    let board = rig.settle(&id).await;
    let ended = (board.status, board.failure.as_deref(), board.refusals);
    assert_eq!(ended, (CampaignStatus::Error, Some("campaign_proposal_invalid"), 4));
    let resumed = rig.command(&id, PersonCommand::Resume).await;
    assert_eq!((resumed.status, resumed.refusals), (CampaignStatus::Active, 0));
}
