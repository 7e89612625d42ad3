//! The narration of each event, in each language.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{InvocationId, SessionId};
use singletree_engine::Descriptor;
use singletree_llm::ToolCall;
use singletree_session::{CompletedTurn, DispatchPath, FailureBucket, MessageId, SuspensionTerms, TurnId};

use super::*;

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

fn narrate_as(what: &[ChatEventKind], style: NarrationStyle) -> Vec<NarrationPiece> {
    let mut calls = NarratedCalls::default();
    let redact = |text: &str| text.replace("hunter2", "***");
    let mut narrator = EventNarrator { style, calls: &mut calls, redact: &redact };
    what.iter().filter_map(|event| narrator.compose_narration(event)).collect()
}

fn compose_narration(what: &ChatEventKind, locale: Locale) -> Option<NarrationPiece> {
    let style = NarrationStyle { locale, verbosity: NarrationVerbosity::Normal };
    narrate_as(std::slice::from_ref(what), style).pop()
}

fn check(what: &ChatEventKind, kind: NarrationPurpose, english: &str, german: &str) {
    for (locale, content) in [(Locale::English, english), (Locale::German, german)] {
        let said = NarrationPiece { role: NarrationSpeaker::System, kind, content: content.into() };
        assert_eq!(compose_narration(what, locale), Some(said), "{what:?}");
    }
}

fn silent(what: &ChatEventKind) {
    assert_eq!(Locale::ALL.map(|it| compose_narration(what, it)), [const { None }; 6], "{what:?}");
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
    let named = json!({ "tool": "send", "arguments": {} });
    check(
        &suspended("apr-1", Some("digest"), Some(named)),
        NarrationPurpose::Ask,
        "Approval is needed to use send (apr-1).",
        "Freigabe nötig, um send zu verwenden (apr-1).",
    );
    let named = json!({ "tool": "send", "arguments": { "key": "a hunter2 b\u{202e}" } });
    check(
        &suspended("apr-1", Some("digest"), Some(named)),
        NarrationPurpose::Ask,
        r#"Approval is needed to use send (apr-1): {"key":"a *** b\u{202e}"}"#,
        r#"Freigabe nötig, um send zu verwenden (apr-1): {"key":"a *** b\u{202e}"}"#,
    );
    let named = json!({ "tool": "send", "arguments": { "key": "a".repeat(5_000) } });
    let told = format!(r#"Approval is needed to use send (apr-1): {{"key":"{}"#, "a".repeat(4_088));
    let asked = compose_narration(&suspended("apr-1", Some("digest"), Some(named)), Locale::English);
    assert_eq!(asked.unwrap().content, format!("{told}… 914 bytes more, digest digest"));
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

// Finding F5; spec: agent-chat-output §5.2: "X happened" is said after X is recorded, with its name
#[test]
fn a_result_is_told_with_the_name_of_its_tool() {
    let call = |name: &str| {
        let arguments = json!({ "to": "hunter2" }).as_object().unwrap().clone();
        ToolCall::new(format!("c-{name}"), name, arguments)
    };
    let closed = |status: &str| json!({ "status": status, "reason": "no time" }).to_string();
    let events = [
        appended(ChatMessage::assistant("").with_tool_calls(["a", "b", "c", "d"].map(call)), None),
        appended(ChatMessage::tool("c-b", "boom"), Some(json!({ "success": false }))),
        appended(ChatMessage::tool("c-a", "fine"), None),
        appended(ChatMessage::tool("c-c", closed("unknown")), None),
        appended(ChatMessage::tool("c-d", closed("cancelled")), None),
        appended(ChatMessage::tool("c-e", closed("denied")), Some(json!({ "success": true }))),
        completed(),
    ];
    let told = |verbosity| {
        let style = NarrationStyle { locale: Locale::English, verbosity };
        let told = narrate_as(&events, style);
        told.into_iter().map(|piece| (piece.kind.as_str(), piece.content)).collect::<Vec<_>>()
    };
    let asked = ("progress", "The agent asks for a, b, c, d.".to_owned());
    let in_doubt = ("explanation", "c: it is not known whether this took effect.".to_owned());
    let not_taken = ("explanation", "An action was not taken: no time".to_owned());
    let rest = [
        ("progress", "b has failed; the agent is told.".to_owned()),
        ("progress", "a succeeded.".to_owned()),
        in_doubt.clone(),
        not_taken.clone(),
        ("progress", "A tool succeeded.".to_owned()),
        ("status", "Done.".to_owned()),
    ];
    assert_eq!(told(NarrationVerbosity::Normal), [[asked].as_slice(), &rest].concat());
    assert_eq!(told(NarrationVerbosity::Quiet), [in_doubt, not_taken]);
    let asked = ["a", "b", "c", "d"].map(|tool| format!(r#"{tool} {{"to":"***"}}"#)).join(", ");
    let asked = ("progress", format!("The agent asks for {asked}."));
    assert_eq!(told(NarrationVerbosity::Full), [[asked].as_slice(), &rest].concat());
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
