//! The narration of each event, in each language.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{InvocationId, SessionId};
use singletree_engine::Descriptor;
use singletree_llm::ToolCall;

use super::*;
use crate::bucket::FailureBucket;
use crate::outcome::{CompletedTurn, DispatchPath, SuspensionTerms};
use crate::turn_id::{MessageId, TurnId};

fn turn() -> TurnId {
    TurnId::new(InvocationId::parse("i").unwrap(), 0)
}

fn appended(message: ChatMessage, side: Option<Value>) -> ChatEventKind {
    let id = MessageId { turn: turn(), k: 1 };
    ChatEventKind::MessageAppended { id, message: Arc::new(message), side }
}

fn suspended(signal: &str, action: Option<&str>, metadata: Option<Value>) -> ChatEventKind {
    let wait =
        SuspensionTerms { no: 1, action: action.map(str::to_owned), deadline: None, payload_schema: None };
    let outcome = ChatTurnOutcome::Suspended(SuspendedTurn {
        turn: turn(),
        signal_descriptor: Descriptor { signal_id: signal.into(), metadata },
        pending_messages: Vec::new(),
        invocation_id: turn().invocation,
        wait,
        path: DispatchPath::NewSession,
        resumed_by: None,
    });
    ChatEventKind::TurnSuspended { outcome: Arc::new(outcome) }
}

fn errored(category: &str, reply: &str) -> ChatEventKind {
    let outcome = ChatTurnOutcome::Errored(ErroredTurn {
        turn: Some(turn()),
        error_bucket: FailureBucket::UserCorrectable,
        error_category: category.into(),
        reply: ChatMessage::system(reply),
        diagnostic: "what happened".into(),
        retry_safe: false,
        recorded: true,
        retry_after: None,
    });
    ChatEventKind::TurnErrored { outcome: Arc::new(outcome) }
}

fn completed() -> ChatEventKind {
    let (replies, path) = (Vec::new(), DispatchPath::NewSession);
    let outcome =
        CompletedTurn { turn: turn(), replies, final_state: None, path, answer: Default::default() };
    ChatEventKind::TurnCompleted { outcome: Arc::new(ChatTurnOutcome::Completed(outcome)) }
}

fn signal(how: &'static str) -> ChatEventKind {
    ChatEventKind::SignalReceived { wait: 1, signal: "pay-1".into(), how, from: None }
}

fn accepted(message: ChatMessage) -> ChatEventKind {
    ChatEventKind::TurnAccepted { message: Some(Arc::new(message)) }
}

fn check(what: &ChatEventKind, kind: NarrationPurpose, english: &str, german: &str) {
    for (locale, content) in [(Locale::English, english), (Locale::German, german)] {
        let said = NarrationPiece { role: NarrationSpeaker::System, kind, content: content.into() };
        assert_eq!(compose_narration(what, locale), Some(said), "{what:?}");
    }
}

fn silent(what: &ChatEventKind) {
    assert_eq!(Locale::ALL.map(|it| compose_narration(what, it)), [None, None], "{what:?}");
}

// spec: agent-chat-output §3.1, §5.1
#[test]
fn what_state_things_are_in_is_status() {
    let status = NarrationPurpose::Status;
    check(&completed(), status, "Done.", "Fertig.");
    check(
        &suspended("pay-1", None, None),
        status,
        "Paused until pay-1 arrives.",
        "Angehalten, bis pay-1 eintrifft.",
    );
    check(
        &signal("consumed"),
        status,
        "pay-1 was answered; work goes on.",
        "pay-1 ist beantwortet; es geht weiter.",
    );
    let forked = ChatEventKind::SessionForked { parent: SessionId::parse("a").unwrap(), offset: 2 };
    check(&forked, status, "This conversation goes on from a.", "Dieses Gespräch setzt a fort.");
    check(
        &appended(ChatMessage::assistant("x"), Some(json!({ "summary": { "from": 0, "to": 40 } }))),
        status,
        "The model is shown a summary in place of messages 0 to 39; they are kept.",
        "Das Modell sieht eine Zusammenfassung anstelle der Nachrichten 0 bis 39; sie bleiben erhalten.",
    );
}

// spec: agent-chat-output §3.1, §9: why an action was rejected, pauses and cancellations
#[test]
fn why_something_was_not_done_is_an_explanation() {
    let explanation = NarrationPurpose::Explanation;
    check(
        &appended(ChatMessage::tool("c", "{}"), Some(json!({ "denied": "too {dear}" }))),
        explanation,
        "An action was not taken: too {dear}",
        "Eine Aktion wurde nicht ausgeführt: too {dear}",
    );
    check(
        &signal("expired"),
        explanation,
        "Nobody answered pay-1 in time.",
        "Niemand hat pay-1 rechtzeitig beantwortet.",
    );
    check(&signal("cancelled"), explanation, "pay-1 was cancelled.", "pay-1 wurde zurückgezogen.");
    check(
        &signal("refused"),
        explanation,
        "An answer to pay-1 did not fit and was not taken.",
        "Eine Antwort auf pay-1 passte nicht und wurde nicht angenommen.",
    );
    check(
        &errored("chat_turn_cancelled", "never told"),
        explanation,
        "The turn was stopped.",
        "Der Zug wurde abgebrochen.",
    );
    check(
        &appended(ChatMessage::assistant("x"), Some(json!({ "summary": { "failed": "provider_timeout" } }))),
        explanation,
        "No summary could be made (provider_timeout); nothing has changed.",
        "Es war keine Zusammenfassung möglich (provider_timeout); nichts hat sich geändert.",
    );
}

// spec: agent-chat-output §3.1, §9: asking for approval
#[test]
fn an_approval_is_asked_for() {
    let named = json!({ "tool": "send", "arguments": { "key": "secret" } });
    check(
        &suspended("apr-1", Some("digest"), Some(named)),
        NarrationPurpose::Ask,
        "Approval is needed to use send (apr-1).",
        "Freigabe nötig, um send zu verwenden (apr-1).",
    );
    check(
        &suspended("apr-1", Some("digest"), None),
        NarrationPurpose::Ask,
        "Approval is needed: apr-1.",
        "Freigabe nötig: apr-1.",
    );
}

// spec: agent-chat-output §3.1
#[test]
fn that_tools_are_asked_for_or_fail_is_progress() {
    let call = |name: &str| ToolCall::new(format!("c-{name}"), name, serde_json::Map::new());
    let asking = ChatMessage::assistant("Because.").with_tool_calls([call("look"), call("send")]);
    check(
        &appended(asking, None),
        NarrationPurpose::Progress,
        "The agent asks for look, send.",
        "Der Agent verlangt look, send.",
    );
    check(
        &appended(ChatMessage::tool("c", "boom"), Some(json!({ "success": false }))),
        NarrationPurpose::Progress,
        "A tool has failed; the agent is told.",
        "Ein Werkzeug ist gescheitert; der Agent erfährt es.",
    );
}

// spec: agent-chat-output §3.1, harness-chat §10: the reply of the outcome, in the operator's words
#[test]
fn an_error_is_told_in_the_words_of_its_outcome() {
    check(&errored("provider_timeout", "Try again."), NarrationPurpose::Error, "Try again.", "Try again.");
}

#[test]
fn what_the_person_said_is_repeated_up_to_a_length() {
    let said = |content: &str| {
        let content = content.into();
        Some(NarrationPiece { role: NarrationSpeaker::User, kind: NarrationPurpose::Status, content })
    };
    let told = |text: String| compose_narration(&accepted(ChatMessage::user(text)), Locale::German);
    assert_eq!(told(" hello\n".into()), said("hello"));
    assert_eq!(told("é".repeat(2_000)), said(&format!("{}…", "é".repeat(1_000))));
    assert_eq!(told("  ".into()), None);
}

#[test]
fn the_rest_is_silent() {
    silent(&ChatEventKind::TurnAccepted { message: None });
    silent(&accepted(ChatMessage::assistant("not a person")));
    silent(&appended(ChatMessage::assistant("a reply"), None));
    silent(&appended(ChatMessage::user("one that steers"), Some(json!({ "taken_by": "i" }))));
    silent(&appended(ChatMessage::tool("c", "a result"), Some(json!({ "agent": "a" }))));
    let id = MessageId { turn: turn(), k: 1 };
    silent(&ChatEventKind::Delta {
        id,
        run: 1,
        n: 0,
        text: "a".into(),
        so_far: false,
        side: None,
        unrecorded: 0,
    });
    let (call, name) = ("c".to_owned(), "look".to_owned());
    silent(&ChatEventKind::ToolStarted { call: call.clone(), name: name.clone(), arguments: json!({}) });
    silent(&ChatEventKind::ToolFinished { call, name, success: true, content: "a".into() });
}
