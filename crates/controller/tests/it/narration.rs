//! Narration is written and never read: over a whole campaign, whatever becomes of it, and of the transcripts, changes no
//! request, no entry of the log and no effect (acceptance 1; agent-chat-output §12; INV-9).

use std::sync::{Arc, Mutex};

use singletree_campaign::{CampaignBoard, PersonCommand};
use singletree_controller::ControllerBuilder;
use singletree_durable::{DocumentStore, MemoryStore};
use singletree_harness::Redact;
use singletree_narration::{
    Locale, NarrationMessage, NarrationOwner, NarrationSink, NarrationSpeaker, NarrationVerbosity,
};

use crate::rig::{Rig, decide_as_person, plain_log, play, story_model, tenant};
use crate::world::RecordingModel;

/// What a sink does with narration.
#[derive(Debug, Clone, Copy)]
enum SinkFault {
    /// Keeps all of it.
    None,
    /// Drops all of it at the n-th piece.
    DeleteAt(usize),
    /// Panics at every piece.
    Panic,
}

#[derive(Debug)]
struct TestSink {
    fault: SinkFault,
    seen: Mutex<usize>,
    kept: Mutex<Vec<(NarrationSpeaker, String)>>,
}

impl TestSink {
    fn new(fault: SinkFault) -> Arc<Self> {
        Arc::new(Self { fault, seen: Mutex::default(), kept: Mutex::default() })
    }

    fn texts(&self) -> Vec<String> {
        self.kept.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }
}

impl NarrationSink for TestSink {
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage) {
        assert!(whose.session.starts_with("campaign:cmp_"));
        if matches!(self.fault, SinkFault::Panic) {
            panic!("the sink fails");
        }
        let mut seen = self.seen.lock().unwrap();
        *seen += 1;
        let mut kept = self.kept.lock().unwrap();
        if matches!(self.fault, SinkFault::DeleteAt(at) if at == *seen) {
            kept.clear();
        } else {
            kept.push((narration.role, narration.content));
        }
    }

    fn forget_session(&self, _whose: NarrationOwner<'_>) {}
}

/// Everything that may be observed of a campaign but its narration.
#[derive(Debug, PartialEq)]
struct Observed {
    requests: Vec<String>,
    log: Vec<serde_json::Value>,
    effects: Vec<String>,
    board: CampaignBoard,
}

async fn observe(sink: Arc<TestSink>, verbosity: NarrationVerbosity) -> Observed {
    observe_with(|builder| builder.narration(sink).narrate_as(verbosity)).await
}

async fn observe_with(configure: impl FnOnce(ControllerBuilder) -> ControllerBuilder) -> Observed {
    let model = RecordingModel::over(story_model());
    let rig = Rig::configured(model.clone(), configure);
    let id = rig.create().await;
    play(&rig.controller, &id, || true).await;
    Observed {
        requests: model.request_bytes(),
        log: plain_log(&rig.controller, &id).await,
        effects: rig.world.effects(),
        board: rig.board(&id).await,
    }
}

#[tokio::test(start_paused = true)]
async fn narration_may_be_deleted_at_every_point_of_a_campaign() {
    let whole = TestSink::new(SinkFault::None);
    let expected = observe(whole.clone(), NarrationVerbosity::Normal).await;
    assert_eq!(expected.log.last().unwrap()["type"], "completed");
    let pieces = whole.texts().len();
    assert!(pieces > 20, "{:?}", whole.texts());
    for at in 1..=pieces {
        let found = observe(TestSink::new(SinkFault::DeleteAt(at)), NarrationVerbosity::Normal).await;
        assert_eq!(found, expected, "deleted at {at}");
    }
    let fallen = observe(TestSink::new(SinkFault::Panic), NarrationVerbosity::Full).await;
    assert_eq!(fallen, expected);
    let quiet = observe(TestSink::new(SinkFault::None), NarrationVerbosity::Quiet).await;
    assert_eq!(quiet, expected);
}

// spec: agent-chat-output §3.1, §12: code that read the words of the narration would behave differently here.
#[tokio::test(start_paused = true)]
async fn a_campaign_is_the_same_in_every_language_and_without_narration() {
    let expected = observe_with(|builder| builder).await;
    assert_eq!(expected.log.last().unwrap()["type"], "completed");
    for locale in Locale::ALL {
        let sink = TestSink::new(SinkFault::None);
        let found = observe_with(|builder| builder.narration(sink.clone()).narrate_in(locale)).await;
        assert_eq!(found, expected, "{locale:?}");
        assert!(sink.texts().len() > 20, "{locale:?}");
    }
    let redact: Redact = Arc::new(|_: &str| "***".to_owned());
    let sink = TestSink::new(SinkFault::None);
    let found = observe_with(|builder| builder.narration(sink.clone()).redacting(redact)).await;
    assert_eq!(found, expected, "redacted");
}

// spec: agent-chat-output §8, §12: the transcript of a campaign is written only, and each process begins with none.
#[tokio::test(start_paused = true)]
async fn every_transcript_may_be_deleted_between_any_two_cycles() {
    let whole = RecordingModel::over(story_model());
    let rig = Rig::with_model(whole.clone());
    let id = rig.create().await;
    play(&rig.controller, &id, || true).await;
    let expected = plain_log(&rig.controller, &id).await;
    assert_eq!(expected.last().unwrap()["type"], "completed");

    let store = MemoryStore::new();
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    let model = RecordingModel::over(story_model());
    let first = Rig::over(documents.clone(), model.clone());
    let id = first.create().await;
    for _ in 0..100 {
        // Another process over the same documents, without any session.
        let rig = Rig::over(documents.clone(), model.clone());
        let board = rig.controller.run_one_cycle(&tenant(), &id).await.unwrap();
        if board.status.is_over() {
            break;
        }
        if !board.next_step().runs() {
            decide_as_person(&rig.controller, &board).await.unwrap();
        }
    }
    assert_eq!(plain_log(&first.controller, &id).await, expected);
    assert_eq!(model.request_bytes(), whole.request_bytes());
}

// spec: agent-chat-output §3.1, §5.1, §5.2, §11; finding F5
#[tokio::test(start_paused = true)]
async fn steps_successes_approvals_and_reasons_are_told() {
    let sink = TestSink::new(SinkFault::None);
    let redact: Redact = Arc::new(|text: &str| text.replace("hunter2", "***"));
    let model = RecordingModel::proposing(&[
        serde_json::json!({ "action": "select_task", "task": "send", "why": "As we discussed, it is next." }),
        serde_json::json!({ "action": "execute_tool", "task": "send", "tool": "send",
            "args": { "to": "hunter2\u{202e}" }, "why": "It is due." }),
    ]);
    let rig = Rig::configured(model, |builder| builder.narration(sink.clone()).redacting(redact));
    let plan = serde_json::json!([{ "id": "send", "description": "Send it.", "proof": [
        { "type": "tool_succeeded", "tool": "send" },
    ] }]);
    let id = rig.begin_with_plan(plan).await;
    let board = rig.settle(&id).await;
    let digest = board.action.unwrap().action.digest;
    let decide = PersonCommand::DecideAction { digest: digest.clone(), approved: true, reason: None };
    rig.command(&id, decide).await;
    rig.settle(&id).await;
    rig.command(&id, PersonCommand::Pause).await;
    let plan_digest = rig.board(&id).await.plan.unwrap().digest;
    let told = sink.texts();
    let expected = [
        "The campaign \"Tell Ann.\" was created.".to_owned(),
        format!("Ann has edited the plan: version 1, tasks 1. It waits for approval (digest {plan_digest})."),
        "Ann has approved version 1 of the plan.".to_owned(),
        "[removed: refers to earlier chat]".to_owned(),
        "Work on the task send begins.".to_owned(),
        "It is due.".to_owned(),
        format!("Approval is needed to use send for send: {{\"to\":\"***\\u{{202e}}\"}} (digest {digest})"),
        "Ann has approved the use of send.".to_owned(),
        "send begins.".to_owned(),
        "send has succeeded.".to_owned(),
        "The agent proposes nothing for now.".to_owned(),
        "The agent proposes nothing for now.".to_owned(),
        "The agent proposes nothing for now.".to_owned(),
        "Paused: the agent had nothing to propose.".to_owned(),
        "Ann has paused the campaign.".to_owned(),
    ];
    assert_eq!(told, expected);
    let spoken = sink.kept.lock().unwrap();
    let agent: Vec<&str> = spoken
        .iter()
        .filter(|(speaker, _)| *speaker == NarrationSpeaker::Agent)
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(agent, ["[removed: refers to earlier chat]", "It is due."]);
}

#[tokio::test(start_paused = true)]
async fn a_campaign_is_told_in_the_language_of_the_operator() {
    let sink = TestSink::new(SinkFault::None);
    let rig =
        Rig::configured(story_model(), |builder| builder.narration(sink.clone()).narrate_in(Locale::German));
    rig.create().await;
    assert_eq!(sink.texts(), ["Die Kampagne „Tell Ann.“ wurde angelegt."]);
}
