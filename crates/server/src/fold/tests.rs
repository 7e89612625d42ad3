//! The fold from events to pieces.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::{InvocationId, SessionId, Timestamp};
use singletree_harness::{
    ChatEvent, ChatEventId, ChatEventKind, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn,
    FailureBucket, MessageId, TurnId,
};
use singletree_llm::{ChatMessage, ToolCall};

use super::*;

pub(super) fn turn(name: &str) -> TurnId {
    TurnId::new(InvocationId::parse(name).unwrap(), 0)
}

fn message(k: u64) -> MessageId {
    MessageId { turn: turn("t"), k }
}

pub(super) fn event(at: u64, durable: bool, turn: TurnId, what: ChatEventKind) -> ChatEvent {
    let id = durable.then(|| ChatEventId { epoch: "e".into(), seq: at });
    let session = SessionId::parse("s").unwrap();
    ChatEvent { id, session, turn, at: Timestamp::from_millis(i64::try_from(at).unwrap()), what }
}

pub(super) fn completed(turn: TurnId) -> ChatEventKind {
    let done = CompletedTurn {
        turn,
        replies: Vec::new(),
        final_state: None,
        path: DispatchPath::NewSession,
        answer: Default::default(),
    };
    ChatEventKind::TurnCompleted { outcome: Arc::new(ChatTurnOutcome::Completed(done)) }
}

pub(super) fn errored(turn: TurnId, category: &str) -> ChatEventKind {
    let errored = ErroredTurn {
        turn: Some(turn),
        error_bucket: FailureBucket::RetryableTransient,
        error_category: category.into(),
        reply: ChatMessage::system("not now"),
        diagnostic: String::new(),
        retry_safe: true,
        recorded: true,
        retry_after: None,
    };
    ChatEventKind::TurnErrored { outcome: Arc::new(ChatTurnOutcome::Errored(errored)) }
}

fn side(agent: &str) -> Option<Value> {
    (!agent.is_empty()).then(|| json!({ "agent": agent }))
}

fn call(id: &str) -> ToolCall {
    let arguments = json!({ "q": 1 }).as_object().unwrap().clone();
    ToolCall::new(id, "look", arguments)
}

/// One line for an event: `k run.n>unrecorded text` for a piece, `+k text` for a record, and the like.
fn read(line: &str) -> (bool, ChatEventKind) {
    let words: Vec<&str> = line.split(' ').collect();
    let k = |word: &str| message(word.trim_start_matches(['+', '*']).parse().unwrap());
    match words.as_slice() {
        ["begin"] => (true, ChatEventKind::TurnAccepted { message: Some(Arc::new(ChatMessage::user("hi"))) }),
        ["completed"] => (true, completed(turn("t"))),
        ["errored"] => (true, errored(turn("t"), "provider_unavailable")),
        ["start", id] => {
            let (call, name, arguments) = ((*id).to_owned(), "look".to_owned(), json!({ "q": 1 }));
            (false, ChatEventKind::ToolStarted { call, name, arguments })
        }
        ["finish", id, content] => {
            let (call, name, content) = ((*id).to_owned(), "look".to_owned(), (*content).to_owned());
            (false, ChatEventKind::ToolFinished { call, name, success: true, content })
        }
        [id, "tool", of, content] => {
            let message = Arc::new(ChatMessage::tool(*of, *content));
            (true, ChatEventKind::MessageAppended { id: k(id), message, side: None })
        }
        [id, "taken", text] => {
            let message = Arc::new(ChatMessage::user(*text));
            (false, ChatEventKind::MessageTaken { id: k(id), message, side: json!({}) })
        }
        [id, "user", text] => {
            let message = Arc::new(ChatMessage::user(*text));
            (true, ChatEventKind::MessageAppended { id: k(id), message, side: None })
        }
        [id, text, rest @ ..] if id.starts_with('+') => {
            let agent = rest.iter().find_map(|it| it.strip_prefix('@')).unwrap_or_default();
            let calls = rest.iter().filter(|it| !it.starts_with('@')).map(|it| call(it));
            let message = ChatMessage::assistant(text.trim_matches('_')).with_tool_calls(calls);
            let (message, side) = (Arc::new(message), side(agent));
            (true, ChatEventKind::MessageAppended { id: k(id), message, side })
        }
        [id, place, text, agent @ ..] => {
            let (place, unrecorded) = place.split_once('>').unwrap_or((place, "0"));
            let unrecorded = unrecorded.parse().unwrap();
            let (run, n) = place.split_once('.').unwrap();
            let (run, n) = (run.parse().unwrap(), n.parse().unwrap());
            let side = side(agent.first().map_or("", |it| &it[1..]));
            let (text, so_far) = ((*text).to_owned(), id.starts_with('*'));
            (false, ChatEventKind::Delta { id: k(id), run, n, text, so_far, side, unrecorded })
        }
        _ => panic!("{line}"),
    }
}

fn show(piece: &ProjectionPiece) -> String {
    let named = |it: &DisplayedMessageId| it.to_string().trim_start_matches("t/").to_owned();
    match piece {
        ProjectionPiece::TurnBegin { .. } => "turn".into(),
        ProjectionPiece::Begin { showing, agent: None } => format!("begin {}", named(showing)),
        ProjectionPiece::Begin { showing, agent: Some(agent) } => {
            format!("begin {} @{agent}", named(showing))
        }
        ProjectionPiece::Text { showing, delta } => format!("{} {delta}", named(showing)),
        ProjectionPiece::Call { message, id, .. } => format!("call {} {id}", message.k),
        ProjectionPiece::End { showing, .. } => format!("end {}", named(showing)),
        ProjectionPiece::Retract { showing } => format!("void {}", named(showing)),
        ProjectionPiece::Answer(it) => format!("answer {} {}", it.call, it.content),
        ProjectionPiece::Recorded(it) => format!("recorded {}", it.call),
        ProjectionPiece::User { id, .. } => format!("user {}", id.k),
        ProjectionPiece::RetractUser { id } => format!("void user {}", id.k),
        ProjectionPiece::Signal { signal, .. } => format!("signal {signal}"),
        ProjectionPiece::TurnEnd { outcome, .. } => outcome.as_str().into(),
    }
}

/// Folds lines of events, and compares the pieces; at a line `--` another stream continues.
fn check(events: &[&str], shown: &[&str]) {
    let mut fold = ChatProjection::default();
    let mut pieces = Vec::new();
    for (at, line) in (1..).zip(events) {
        if *line == "--" {
            let marks = serde_json::to_string(&fold.stream_positions()).unwrap();
            fold = ChatProjection::resume_from_positions(serde_json::from_str(&marks).unwrap());
            continue;
        }
        let (durable, what) = read(line);
        pieces.extend(fold.apply_event(&event(at, durable, turn("t"), what)));
    }
    let pieces: Vec<String> = pieces.iter().map(show).collect();
    assert_eq!(pieces, shown, "{events:?}");
}

#[test]
fn a_stream_that_was_lost_goes_on_where_it_was() {
    check(
        &["1 1.0 He", "--", "*1 1.1 Hell", "1 1.2 o", "+1 Hello"],
        &["begin 1", "1 He", "1 ll", "1 o", "end 1"],
    );
    check(&["1 1.0 He", "--", "+1 Hello c"], &["begin 1", "1 He", "1 llo", "call 1 c", "end 1"]);
    check(&["1 1.0 He", "--", "+1 Hello @a"], &["begin 1", "1 He", "1 llo", "end 1"]);
    // Another run has begun meanwhile: a shorter text, then a different one.
    check(
        &["1 1.0 Hel", "--", "*1 2.0 H", "1 2.1 i", "1 2.2 !", "+1 Hi!"],
        &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 Hi!", "end 1~2"],
    );
    check(&["1 1.0 Hel", "--", "+1 Hi"], &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 Hi", "end 1~2"]);
    check(
        &["1 1.0 Hel", "1 2.0 Ho", "--", "--", "+1 Hot"],
        &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 Ho", "1~2 t", "end 1~2"],
    );
    check(&["1 1.0 Hel", "--", "errored"], &["begin 1", "1 Hel", "void 1", "errored"]);
    check(&["+1 Hi", "--", "*3 1.1 So", "+3 So"], &["begin 1", "1 Hi", "end 1", "begin 3", "3 So", "end 3"]);
}

#[test]
fn pieces_are_told_once_and_the_record_ends_them() {
    check(
        &["begin", "1 1.0 He", "1 1.1 llo @a", "+1 Hello", "completed"],
        &["turn", "begin 1", "1 He", "1 llo", "end 1", "completed"],
    );
    // Without pieces the record shows the whole text; with pieces it shows the rest.
    check(&["+1 Hello @a", "completed"], &["begin 1 @a", "1 Hello", "end 1", "completed"]);
    check(&["1 1.0 He @a", "+1 Hello @a"], &["begin 1 @a", "1 He", "1 llo", "end 1"]);
    check(&["+1 __ c", "+2 tool c 7"], &["begin 1", "call 1 c", "end 1", "answer c 7"]);
}

#[test]
fn what_is_said_again_is_shown_again_only_where_it_differs() {
    // The same words, then more.
    check(&["1 1.0 Hel", "1 2.0 He", "1 2.1 llo", "+1 Hello"], &["begin 1", "1 Hel", "1 lo", "end 1"]);
    // Different text: shown under another name from the start.
    check(
        &["1 1.0 Hel", "1 2.0 He", "1 2.1 y!", "1 2.2 You", "+1 Hey!You"],
        &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 Hey!", "1~2 You", "end 1~2"],
    );
    // The record is another text, or a shorter one.
    check(&["1 1.0 Hel", "+1 Bye"], &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 Bye", "end 1~2"]);
    check(&["1 1.0 Hel", "+1 He"], &["begin 1", "1 Hel", "void 1", "begin 1~2", "1~2 He", "end 1~2"]);
    check(&["1 1.0 Hel", "+1 __ c"], &["begin 1", "1 Hel", "void 1", "begin 1~2", "call 1 c", "end 1~2"]);
    // The same run from its first piece on: a node that was tried again.
    check(&["1 1.0 Hel", "1 1.0 Hello", "+1 Hello"], &["begin 1", "1 Hel", "1 lo", "end 1"]);
}

#[test]
fn who_is_late_gets_the_text_so_far_in_its_place() {
    check(&["begin", "*1 1.3 Hell", "1 1.4 o", "+1 Hello"], &["turn", "begin 1", "1 Hell", "1 o", "end 1"]);
    // The piece has overtaken records: those are shown first.
    check(
        &["*3 1.3 Hell", "+1 __ c", "+2 tool c 7", "1 1.0 x", "3 1.4 o", "+3 Hello"],
        &["begin 1", "call 1 c", "end 1", "answer c 7", "begin 3", "3 Hell", "3 o", "end 3"],
    );
    // At level `turn`, after messages of which nothing was shown: those are shown first.
    check(
        &["3 1.0>2 He", "3 1.1>2 y", "+1 __ c", "+2 tool c 7", "3 1.2>2 !", "+3 Hey!"],
        &["begin 1", "call 1 c", "end 1", "answer c 7", "begin 3", "3 Hey", "3 !", "end 3"],
    );
    check(
        &["begin", "1 1.0 A", "2 1.0>1 B", "+1 A", "+2 B"],
        &["turn", "begin 1", "1 A", "begin 2", "2 B", "end 1", "end 2"],
    );
    // A steering message is recorded with its answer, and does not delay the pieces of the answer.
    check(
        &["+1 A", "3 1.0 B", "+2 user hm", "+3 B"],
        &["begin 1", "1 A", "end 1", "begin 3", "3 B", "user 2", "end 3"],
    );
    // It is shown when it is taken, once, and before the pieces of the answer.
    check(
        &["+1 A", "2 taken hm", "3 1.0 B", "2 taken hm", "+2 user hm", "2 taken hm", "+3 B"],
        &["begin 1", "1 A", "end 1", "user 2", "begin 3", "3 B", "end 3"],
    );
    // A turn that fails has not taken it.
    check(
        &["+1 A", "2 taken hm", "3 1.0 B", "errored"],
        &["begin 1", "1 A", "end 1", "user 2", "begin 3", "3 B", "void user 2", "void 3", "errored"],
    );
    // The next piece shows that no earlier message is pending.
    check(&["*3 1.3 Hell", "3 1.4 o"], &["begin 3", "3 Hell", "3 o"]);
    // A piece is missing: the record completes the text.
    check(&["1 1.0 He", "1 1.2 o", "1 1.3 !", "+1 Hello!"], &["begin 1", "1 He", "1 llo!", "end 1"]);
    check(&["1 1.0 He", "1 1.2 o", "*1 1.2 Hello"], &["begin 1", "1 He", "1 llo"]);
    // Pieces that come again, or belong to a lower run, to a recorded message, or to a turn that is over.
    check(&["1 2.0 He", "1 2.1 l", "1 2.1 l", "1 1.2 x"], &["begin 1", "1 He", "1 l"]);
    check(&["+1 Hello", "1 1.0 He", "completed", "3 1.0 x"], &["begin 1", "1 Hello", "end 1", "completed"]);
}

#[test]
fn a_call_is_told_once_and_before_what_it_gave() {
    // As at level `step`.
    check(
        &["+1 __ c d", "start c", "start d", "finish d 2", "finish c 1", "+2 tool c 1", "+3 tool d 2"],
        &["begin 1", "call 1 c", "call 1 d", "end 1", "answer d 2", "answer c 1", "recorded c", "recorded d"],
    );
    // At level `turn` records come last: the message of a call is unknown before its record.
    check(
        &["1 1.0 Hm", "start c", "finish c 1", "3 1.0>2 So", "+1 Hm c", "+2 tool c 1", "+3 So"],
        &["begin 1", "1 Hm", "call 1 c", "end 1", "answer c 1", "begin 3", "3 So", "end 3"],
    );
    // The recorded result counts; the same id in a later message is another call.
    check(
        &["+1 __ c", "finish c 1", "+2 tool c 9", "+3 __ c", "finish c 3", "+4 tool c 3"],
        &[
            "begin 1",
            "call 1 c",
            "end 1",
            "answer c 1",
            "answer c 9",
            "begin 3",
            "call 3 c",
            "end 3",
            "answer c 3",
            "recorded c",
        ],
    );
}

// A listener may hear events that are older than the last record that it has read from the log.
#[test]
fn what_the_record_has_overtaken_is_not_told() {
    let mut fold = ChatProjection::default();
    let told = [
        (1, "+1 __ c"),
        (2, "+2 tool c 9"),
        (5, "+3 __ c"),
        (2, "start c"),
        (3, "finish c 1"),
        (4, "4 1.0 x"),
    ];
    let mut seen = Vec::new();
    for (at, line) in told.into_iter().chain([(6, "finish c 3")]) {
        let (durable, what) = read(line);
        seen.extend(fold.apply_event(&event(at, durable, turn("t"), what)).iter().map(show));
    }
    let expected =
        ["begin 1", "call 1 c", "end 1", "answer c 9", "begin 3", "call 3 c", "end 3", "answer c 3"];
    assert_eq!(seen, expected);
}

#[test]
fn a_message_is_of_one_agent() {
    // spec: steerable chat, Conversational ownership
    check(
        &["1 1.0 Hi @a", "+1 Hi @b"],
        &["begin 1 @a", "1 Hi", "void 1", "begin 1~2 @b", "1~2 Hi", "end 1~2"],
    );
    check(&["1 1.0 Hi @a", "+1 Hi"], &["begin 1 @a", "1 Hi", "end 1"]);
}

#[test]
fn what_is_never_recorded_is_void_when_its_turn_ends() {
    check(&["begin", "1 1.0 He", "errored"], &["turn", "begin 1", "1 He", "void 1", "errored"]);
    check(&["+1 user hm", "2 1.0 He", "+2 Hey"], &["user 1", "begin 2", "2 He", "2 y", "end 2"]);
    // A turn whose message was taken ends during the turn that took it.
    let mut fold = ChatProjection::default();
    let mut seen = Vec::new();
    for (at, of, line) in
        [(1, "t", "1 1.0 He"), (2, "u", "completed"), (3, "t", "1 1.1 y"), (4, "t", "+1 Hey")]
    {
        let (durable, what) = read(line);
        let what = if of == "u" { completed(turn("u")) } else { what };
        seen.extend(fold.apply_event(&event(at, durable, turn(of), what)).iter().map(show));
    }
    assert_eq!(seen, ["begin 1", "1 He", "completed", "1 y", "end 1"]);
}

#[test]
fn what_a_tool_message_says_of_success() {
    let check = |content: &str, side: Option<Value>, expected: bool| {
        assert_eq!(
            has_call_succeeded(&ChatMessage::tool("c", content), side.as_ref()),
            expected,
            "{content}"
        );
    };
    check("7", None, true);
    check("7", Some(json!({ "success": false })), false);
    check(r#"{"success":false}"#, None, false);
    check(r#"{"success":false}"#, Some(json!({ "success": true })), true);
    // D8
    check(r#"{"status":"denied","reason":"no"}"#, None, false);
    check(r#"{"status":"cancelled"}"#, None, false);
    check(r#"{"status":"cancelled","order":7}"#, None, true);
    check(r#"{"status":"transferred","to":"x"}"#, None, true);
}
