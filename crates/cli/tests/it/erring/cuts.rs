//! Answers that are cut after any number of their bytes, head and all.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::model::{EVENT_STREAM, Way, When, chunk, number};
use super::rig::{ErringRig, TIMES};
use super::wires::WIRES;
use super::{fault_of, wires};

/// A cut answer can still be complete: if only bytes after its end are missing.
const ENDS: &[&str] = &["completed", "provider_unavailable"];

const fn cut(name: &'static str, when: When, err: fn(&mut TcpStream, &str)) -> Way {
    let ends = match when {
        When::FirstCall | When::FirstAnswer => &["completed"],
        When::Always | When::AlwaysBefore | When::AlwaysAfter => ENDS,
    };
    Way { name, when, err, ends, effects: 1 }
}

pub(crate) const CUTS: &[Way] = &[
    cut("cut-call", When::FirstCall, |out, said| send_cut(out, &call_bytes(said), said)),
    cut("cut-call-each-time", When::AlwaysBefore, |out, said| send_cut(out, &call_bytes(said), said)),
    cut("cut-answer", When::FirstAnswer, |out, said| send_cut(out, &answer_bytes(), said)),
    cut("cut-answer-each-time", When::AlwaysAfter, |out, said| send_cut(out, &answer_bytes(), said)),
];

fn send_cut(out: &mut TcpStream, answer: &[u8], said: &str) {
    out.write_all(&answer[..number(said).min(answer.len())]).unwrap_or_default();
}

fn stream_bytes(chunks: &[String]) -> Vec<u8> {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!("{EVENT_STREAM}{events}data: [DONE]\n\n").into_bytes()
}

/// A text in characters of all lengths, and a call in three pieces.
fn call_bytes(said: &str) -> Vec<u8> {
    let arguments = json!({ "to": "Bob", "body": said }).to_string();
    let (first, rest) = arguments.split_at(9);
    let (second, third) = rest.split_at(rest.len() / 2);
    let call = |function| json!({ "tool_calls": [{ "index": 0, "function": function }] });
    let named = json!({ "index": 0, "id": "c1", "type": "function", "function": { "name": "send_message", "arguments": first } });
    stream_bytes(&[
        chunk(&json!({ "content": "Grüße, " }), None).to_string(),
        chunk(&json!({ "content": "世界 😀. " }), None).to_string(),
        chunk(&json!({ "tool_calls": [named] }), None).to_string(),
        chunk(&call(json!({ "arguments": second })), None).to_string(),
        chunk(&call(json!({ "arguments": third })), None).to_string(),
        chunk(&json!({}), Some("tool_calls")).to_string(),
    ])
}

fn answer_bytes() -> Vec<u8> {
    stream_bytes(&[
        chunk(&json!({ "content": "All " }), None).to_string(),
        chunk(&json!({ "content": "dône." }), None).to_string(),
        chunk(&json!({}), Some("stop")).to_string(),
    ])
}

/// A turn with a cut: the way, the wire, and the place of the cut.
struct CutTurn {
    way: &'static Way,
    wire: &'static wires::Wire,
    cut: usize,
}

/// Every byte under `.ci/run --deep`, else every 17th; the wires take turns.
fn cut_turns() -> Vec<CutTurn> {
    const STRIDE: usize = 17;
    let step = if std::env::var_os("SINGLETREE_DEEP").is_some() { 1 } else { STRIDE };
    let mut turns = Vec::new();
    for way in CUTS {
        let is_call = matches!(way.when, When::FirstCall | When::AlwaysBefore);
        let bytes =
            if is_call { call_bytes(&way.text("native-stream at 1000")).len() } else { answer_bytes().len() };
        let cuts = (0..bytes + step).step_by(step);
        turns.extend(cuts.zip(WIRES.iter().cycle()).map(|(cut, wire)| CutTurn { way, wire, cut }));
    }
    turns
}

// spec: llm-provider §6, §7; D7, D29
#[test]
fn an_answer_cut_after_any_byte_is_made_again_or_the_turn_fails_and_acts_once() {
    // `outbox list` shows the first 1,000 messages, and a turn sends two at most.
    const TURNS_OF_A_SERVER: usize = 500;
    let turns = cut_turns();
    let (mut ends, mut wrong) = (Vec::new(), Vec::new());
    for turns in turns.chunks(TURNS_OF_A_SERVER) {
        run_cut_turns(turns, &mut ends, &mut wrong);
    }
    // Both ends are met: some cuts leave an answer whole.
    assert!(ends.iter().any(|end| end == "errored") && ends.iter().any(|end| end == "completed"), "{ends:?}");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), turns.len(), wrong.join("\n"));
}

/// Runs the turns at a server of their own. Adds how they ended, and all that is wrong.
fn run_cut_turns(turns: &[CutTurn], ends: &mut Vec<Value>, wrong: &mut Vec<String>) {
    const THREADS: usize = 6;
    let rig = ErringRig::start(TIMES);
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = |CutTurn { way, wire, cut }: &CutTurn| {
        let session = format!("{}-{}-{cut}", way.name, wire.name);
        let text = way.text(&format!("{} at {cut}", wire.name));
        let seen = (wire.say)(&rig.server.url, &session, &text);
        let fault = fault_of(way, &text, &session, &rig.server, &seen);
        fault.map(|fault| format!("{session}: {fault}"))
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(turn) = turns.get(next.fetch_add(1, Ordering::Relaxed)) {
                    faults.lock().unwrap().extend(run(turn));
                }
            });
        }
    });
    let ended = |turn: &CutTurn| {
        let path = format!("/v1/sessions/{}-{}-{}/turns", turn.way.name, turn.wire.name, turn.cut);
        rig.server.ask("GET", &path, &json!(null))["items"][0]["status"].clone()
    };
    let ended: Vec<_> = turns.iter().map(ended).collect();
    let sent = rig.stop();
    wrong.extend(faults.into_inner().unwrap());
    for (turn, end) in turns.iter().zip(&ended) {
        let text = turn.way.text(&format!("{} at {}", turn.wire.name, turn.cut));
        let times = sent.iter().filter(|body| **body == text).count();
        let expected = usize::from(end == "completed" || turn.way.when == When::AlwaysAfter);
        if times != expected {
            wrong.push(format!("{text}: it ended with {end} and acted {times} times, not {expected}"));
        }
    }
    ends.extend(ended);
}
