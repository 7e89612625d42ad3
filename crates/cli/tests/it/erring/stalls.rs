//! A model that stalls before its answer, in it, and before its end; the limits are those of the configuration.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;

use super::fault_of;
use super::model::{EVENT_STREAM, Way, When, chunk, fails, number, stall, way};
use super::rig::ErringRig;
use super::wires::WIRES;

/// Where an answer stalls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StallPlace {
    Head,
    FirstPiece,
    BetweenPieces,
    FinishReason,
    Done,
}

const UNAVAILABLE: &[&str] = &["provider_unavailable"];

/// Each takes the milliseconds of its stall from the end of the user's message.
pub(crate) const STALLS: &[Way] = &[
    way("stall-head", When::FirstAnswer, |out, said| send_stalling(out, StallPlace::Head, said)),
    way("stall-first-piece", When::FirstAnswer, |out, said| send_stalling(out, StallPlace::FirstPiece, said)),
    way("stall-between-pieces", When::FirstAnswer, |out, said| {
        send_stalling(out, StallPlace::BetweenPieces, said);
    }),
    way("stall-finish-reason", When::FirstAnswer, |out, said| {
        send_stalling(out, StallPlace::FinishReason, said);
    }),
    way("stall-done", When::FirstAnswer, |out, said| send_stalling(out, StallPlace::Done, said)),
    fails(
        "stall-head-each-time",
        When::AlwaysAfter,
        |out, said| send_stalling(out, StallPlace::Head, said),
        UNAVAILABLE,
    ),
    fails(
        "stall-between-pieces-each-time",
        When::AlwaysAfter,
        |out, said| send_stalling(out, StallPlace::BetweenPieces, said),
        UNAVAILABLE,
    ),
    fails("never-ending", When::AlwaysAfter, |out, said| send_slowly(out, number(said)), UNAVAILABLE),
];

/// Answers with one stall, for as long as the user's message says.
fn send_stalling(out: &mut TcpStream, place: StallPlace, said: &str) {
    let event = |delta, finish| format!("data: {}\n\n", chunk(&delta, finish));
    let parts = [
        (StallPlace::Head, EVENT_STREAM.to_owned()),
        (StallPlace::FirstPiece, event(json!({ "content": "All " }), None)),
        (StallPlace::BetweenPieces, event(json!({ "content": "done." }), None)),
        (StallPlace::FinishReason, event(json!({}), Some("stop"))),
        (StallPlace::Done, "data: [DONE]\n\n".to_owned()),
    ];
    for (before, text) in parts {
        if before == place {
            stall(out, Duration::from_millis(number(said) as u64));
        }
        out.write_all(text.as_bytes()).unwrap_or_default();
    }
}

/// Sends a word every `pause` milliseconds until the reader closes the connection.
fn send_slowly(out: &mut TcpStream, pause: usize) {
    let piece = format!("data: {}\n\n", chunk(&json!({ "content": "on " }), None));
    let mut sent = out.write_all(EVENT_STREAM.as_bytes());
    while sent.is_ok() {
        stall(out, Duration::from_millis(pause as u64));
        sent = out.write_all(piece.as_bytes());
    }
}

/// A turn with a stall of so many milliseconds, and how often its model is asked.
struct StalledTurn {
    way: &'static Way,
    millis: u64,
    asked: u32,
}

/// One request for the call of the tool, one for the answer.
const WITHOUT_RETRY: u32 = 2;
const ONE_RETRY: u32 = 3;
/// One request for the call of the tool, three attempts for the answer.
const ALL_RETRIES: u32 = 4;

/// Returns turns with a stall at each place that one answer can stall at.
fn stalled_once(millis: u64, asked: u32) -> Vec<StalledTurn> {
    let ways = STALLS.iter().filter(|way| way.when == When::FirstAnswer);
    ways.map(|way| StalledTurn { way, millis, asked }).collect()
}

fn named(name: &str, millis: u64, asked: u32) -> StalledTurn {
    let way = STALLS.iter().find(|way| way.name == name).unwrap();
    StalledTurn { way, millis, asked }
}

/// Runs the turns all at once, over all wires in turn.
fn check(times: &str, turns: &[StalledTurn]) {
    let rig = ErringRig::start(times);
    let wrong = Mutex::new(Vec::new());
    let texts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (turn, wire) in turns.iter().zip(WIRES.iter().cycle()) {
            let (rig, wrong, texts) = (&rig, &wrong, &texts);
            scope.spawn(move || {
                let text = turn.way.text(&format!("{} for {}", wire.name, turn.millis));
                let session = format!("{}-{}", turn.way.name, turn.millis);
                let seen = (wire.say)(&rig.server.url, &session, &text);
                let asked = rig.model.count(&text).asked;
                let fault = fault_of(turn.way, &text, &session, &rig.server, &seen);
                let fault = fault.or((asked != turn.asked)
                    .then(|| format!("the model was asked {asked} times, not {}", turn.asked)));
                wrong.lock().unwrap().extend(fault.map(|fault| format!("{text}: {fault}")));
                texts.lock().unwrap().push(text);
            });
        }
    });
    let sent = rig.stop();
    let mut wrong = wrong.into_inner().unwrap();
    for text in texts.into_inner().unwrap() {
        let times = sent.iter().filter(|body| **body == text).count();
        if times != 1 {
            wrong.push(format!("{text}: it acted {times} times"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), turns.len(), wrong.join("\n"));
}

// D20
#[test]
fn a_stall_below_the_limits_is_waited_for_and_one_above_them_is_an_attempt_that_failed() {
    let mut turns = stalled_once(600, WITHOUT_RETRY);
    turns.extend(stalled_once(4_000, ONE_RETRY));
    turns.push(named("stall-head-each-time", 4_001, ALL_RETRIES));
    turns.push(named("stall-between-pieces-each-time", 4_001, ALL_RETRIES));
    // Never silent for long, and ended by the limit of the whole answer.
    turns.push(named("never-ending", 600, WITHOUT_RETRY));
    check("first = \"2s\"\nidle = \"2s\"\nanswer = \"9s\"\n", &turns);
}

// D20
#[test]
fn stalls_of_3_to_40_seconds_are_waited_for_where_the_configuration_says_so() {
    if std::env::var_os("SINGLETREE_DEEP").is_none() {
        return eprintln!("not run: stalls of 3 to 40 s: SINGLETREE_DEEP is not set");
    }
    let patient =
        [3_000, 10_000, 25_000, 40_000].into_iter().flat_map(|millis| stalled_once(millis, WITHOUT_RETRY));
    let (patient, mut impatient) = (patient.collect::<Vec<_>>(), stalled_once(25_000, WITHOUT_RETRY));
    impatient.extend(stalled_once(40_000, ONE_RETRY));
    std::thread::scope(|scope| {
        scope.spawn(|| check("first = \"60s\"\nidle = \"60s\"\n", &patient));
        scope.spawn(|| check("first = \"32s\"\nidle = \"32s\"\n", &impatient));
    });
}
