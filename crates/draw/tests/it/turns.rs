//! Timelines to draw.

use serde_json::{Value, json};
use singletree_durable::Timestamp;
use singletree_harness::{
    CallSpan, CallStatus, FailureBucket, InvocationPosition, KeptEvents, NodeProvenance, OpenCall,
    OpenCallState, SpanStatus, Timeline, TimelineEntry, TimelineEntryKind, TurnCause, TurnError, TurnSpan,
    WaitSpan,
};

/// 2026-01-05 09:30:00 UTC.
const BEGIN: i64 = 1_767_605_400_000;
const DAY: i64 = 86_400_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(BEGIN + millis)
}

fn turn(ordinal: u32, status: SpanStatus, (accepted, ended): (i64, Option<i64>)) -> TurnSpan {
    let name = "0b9f6a52-7d13-4c55-9a2e-3f1f0f6f2c11";
    let id = if ordinal == 0 { name.to_owned() } else { format!("{name}.{ordinal}") };
    TurnSpan {
        turn: id.parse().unwrap(),
        answers: if ordinal == 0 { TurnCause::Message } else { TurnCause::Signal },
        status,
        accepted_at: at(accepted),
        ended_at: ended.map(at),
        deaths: 0,
        kept: KeptEvents::Whole,
        entries: Vec::new(),
        ended_in: None,
        error: None,
    }
}

fn timeline(turns: Vec<TurnSpan>) -> Timeline {
    Timeline {
        session: "chat-1a2b3c4d".into(),
        agent: "demo".into(),
        invocation: turns[0].turn.invocation.clone(),
        turns,
        waits: Vec::new(),
        stands: None,
    }
}

fn made(node: &str) -> Option<NodeProvenance> {
    Some(NodeProvenance { node: node.into(), attempt: None })
}

fn at_attempt(node: &str, attempt: u32) -> Option<NodeProvenance> {
    Some(NodeProvenance { node: node.into(), attempt: Some(attempt) })
}

fn entry(millis: i64, made_by: Option<NodeProvenance>, what: TimelineEntryKind) -> TimelineEntry {
    TimelineEntry { at: at(millis), made_by, what }
}

fn accepted(millis: i64, text: &str) -> TimelineEntry {
    entry(millis, None, TimelineEntryKind::Accepted { text: Some(text.into()) })
}

fn message(text: &str, calls: &[&str]) -> TimelineEntryKind {
    let calls = calls.iter().map(|it| (*it).to_owned()).collect();
    TimelineEntryKind::Message { role: "assistant", text: text.into(), calls, interrupted: false }
}

fn call(tool: &str, arguments: Value, asked: i64) -> CallSpan {
    let arguments = arguments.as_object().unwrap().clone();
    CallSpan { call: format!("call-{tool}"), tool: tool.into(), arguments, asked_at: Some(at(asked)) }
}

fn gave(call: CallSpan, status: CallStatus, text: &str) -> TimelineEntryKind {
    TimelineEntryKind::ToolResult { call, status, text: text.into() }
}

/// A turn of an agent that is committed once.
pub(crate) fn plain() -> Timeline {
    let mut turn = turn(0, SpanStatus::Completed, (0, Some(1_240)));
    turn.entries = vec![
        accepted(0, "hello"),
        entry(1_240, None, message("Hello! I am a demo agent. I have a clock, a calculator and notes.", &[])),
    ];
    timeline(vec![turn])
}

/// A turn with tools and an approval that came after days.
pub(crate) fn waited() -> Timeline {
    let back = 2 * DAY + 4 * 3_600_000;
    let send = || call("send_message", json!({ "to": "Bob", "body": "hello" }), 1_410);
    let mut first = turn(0, SpanStatus::Suspended, (0, Some(1_422)));
    first.entries = vec![
        accepted(0, "look up what 6*7 is, and send it to Bob"),
        entry(612, made("model"), message("", &["calculator", "clock"])),
        entry(
            655,
            made("tools"),
            gave(call("calculator", json!({ "expression": "6*7" }), 612), CallStatus::Done, "42"),
        ),
        entry(
            655,
            made("tools"),
            gave(call("clock", json!({}), 612), CallStatus::Error, "error: the clock stands still"),
        ),
        entry(1_410, made("model"), message("I will send it.", &["send_message"])),
    ];
    first.ended_in = at_attempt("gate", 0);
    let mut second = turn(1, SpanStatus::Completed, (back, Some(back + 903)));
    second.entries = vec![
        entry(
            back,
            None,
            TimelineEntryKind::Signal {
                wait: 0,
                signal: "apr-5f0c3d9a11".into(),
                how: "consumed",
                from: Some("Ann".into()),
            },
        ),
        entry(back + 118, made("tools"), gave(send(), CallStatus::Done, "Sent to Bob.")),
        entry(back + 903, made("model"), message("Done. Sent to Bob.", &[])),
    ];
    let mut waited = timeline(vec![first, second]);
    waited.waits.push(WaitSpan {
        wait: 0,
        signal: "apr-5f0c3d9a11".into(),
        status: "consumed",
        metadata: Some(json!({ "kind": "approval", "tool": "send_message" })),
        since: at(1_422),
        deadline: None,
        ended_at: Some(at(back)),
        answered_by: Some("Ann".into()),
    });
    waited
}

/// A turn that died once, was tried several times, and failed.
pub(crate) fn errored() -> Timeline {
    let mut turn = turn(0, SpanStatus::Errored, (0, Some(94_500)));
    turn.deaths = 1;
    turn.entries = vec![
        accepted(0, "what is the weather like in Ulm, and what will it be tomorrow?"),
        entry(2_100, made("model"), message("", &["forecast"])),
        entry(
            31_000,
            made("tools"),
            gave(
                call("forecast", json!({ "city": "Ulm" }), 2_100),
                CallStatus::Unknown,
                r#"{"reason":"the process ended while this ran","status":"unknown"}"#,
            ),
        ),
        entry(
            94_500,
            None,
            TimelineEntryKind::Discarded { role: "assistant", text: "I cannot say".into(), calls: vec![] },
        ),
    ];
    turn.ended_in = at_attempt("model", 2);
    turn.error = Some(TurnError {
        category: "provider_unavailable".into(),
        bucket: FailureBucket::RetryableTransient,
        diagnostic: "node 'model' failed: the provider is not available: it answered 503 three times".into(),
        retry_safe: true,
    });
    timeline(vec![turn])
}

/// A turn that runs, in the middle of its calls.
pub(crate) fn running() -> Timeline {
    let mut turn = turn(0, SpanStatus::Open, (0, None));
    turn.entries = vec![
        accepted(0, "note: buy milk"),
        entry(480, made("model"), message("", &["notes_add", "send_message"])),
    ];
    let mut running = timeline(vec![turn]);
    let open = |tool, state| OpenCall { call: call(tool, json!({ "text": "milk" }), 480), state };
    running.stands = Some(InvocationPosition {
        at: vec![NodeProvenance { node: "tools".into(), attempt: Some(0) }],
        place: "before",
        open_calls: vec![open("notes_add", OpenCallState::Begun), open("send_message", OpenCallState::Asked)],
    });
    running
}

/// A turn that waits, and of which a retention has left the record.
pub(crate) fn forgotten() -> Timeline {
    let mut turn = turn(0, SpanStatus::Suspended, (0, Some(800)));
    turn.kept = KeptEvents::Nothing;
    let mut forgotten = timeline(vec![turn]);
    forgotten.waits.push(WaitSpan {
        wait: 3,
        signal: "order-17".into(),
        status: "pending",
        metadata: None,
        since: at(800),
        deadline: Some(at(7 * DAY)),
        ended_at: None,
        answered_by: None,
    });
    forgotten
}

/// Texts that would be markup or steer a terminal.
pub(crate) fn hostile() -> Timeline {
    let text = "</text><script>alert(1)</script>\u{1b}[31m\u{0}\n\u{202e}& \" '";
    let mut turn = turn(0, SpanStatus::Errored, (0, Some(5)));
    turn.entries = vec![
        accepted(0, text),
        entry(3, made(text), message(text, &[text])),
        entry(4, None, gave(call(text, json!({ text: text }), 3), CallStatus::Failed, text)),
        entry(
            5,
            None,
            TimelineEntryKind::Signal {
                wait: 1,
                signal: text.into(),
                how: "refused",
                from: Some(text.into()),
            },
        ),
        entry(
            5,
            None,
            TimelineEntryKind::Discarded { role: "tool", text: text.into(), calls: vec![text.into()] },
        ),
    ];
    turn.ended_in = at_attempt(text, 0);
    turn.error = Some(TurnError {
        category: text.into(),
        bucket: FailureBucket::UserCorrectable,
        diagnostic: text.into(),
        retry_safe: false,
    });
    let mut hostile = timeline(vec![turn]);
    hostile.session = text.into();
    hostile.agent = text.into();
    hostile.waits.push(WaitSpan {
        wait: 1,
        signal: text.into(),
        status: "cancelled",
        metadata: Some(json!({ "kind": text, "tool": text })),
        since: at(5),
        deadline: None,
        ended_at: Some(at(5)),
        answered_by: Some(text.into()),
    });
    hostile
}

/// All of them, by name.
pub(crate) fn all() -> Vec<(&'static str, Timeline)> {
    vec![
        ("plain", plain()),
        ("waited", waited()),
        ("errored", errored()),
        ("running", running()),
        ("forgotten", forgotten()),
        ("hostile", hostile()),
    ]
}
