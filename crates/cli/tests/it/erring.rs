//! A model that errs in every way that models and their servers are known to err, over every wire that a client may
//! use: the turn goes on or fails with words that help, effects happen once, and a client that reloads sees the
//! transcript.

mod clients;
mod cuts;
mod model;
mod rig;
mod stalls;
mod wires;

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::home::{BINARY, Home};
use crate::serving::Serving;
use model::{Failing, WAYS, Way};
use rig::{ErringRig, KEY, TIMES, agents};
use wires::{Seen, WIRES};

/// Returns the texts of the assistant in a list of messages.
fn answers(items: &Value) -> Vec<String> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let answers = items.iter().filter(|item| item["role"] == "assistant");
    answers.map(|item| wires::text_of(&item["content"])).filter(|text| !text.trim().is_empty()).collect()
}

/// Returns the fault of one turn, in which the model erred in one way; `None` if everything is as expected. `seen` is
/// the turn as its client saw it.
fn fault_of(way: &Way, text: &str, session: &str, server: &Serving, seen: &Seen) -> Option<String> {
    let asked = |path: &str| server.ask("GET", &format!("/v1/sessions/{session}/{path}"), &Value::Null);
    let turns = asked("turns");
    let Some(turn) = turns["items"].as_array().and_then(|items| items.last()).cloned() else {
        return Some(format!("there is no turn: {turns}; the client saw {seen:?}"));
    };
    let read = asked(&format!("turns/{}", turn["id"].as_str().unwrap_or_default()));
    let outcome = &read["outcome"];
    let status = outcome["status"].as_str().unwrap_or_default();
    let end = outcome["category"].as_str().unwrap_or(status);
    if !way.ends.contains(&end) {
        return Some(format!("it ended with {end}, not one of {:?}", way.ends));
    }
    let history = asked("messages");
    if status == "completed" {
        if seen.failed {
            return Some(format!("the turn completed and the client was told of a failure: {seen:?}"));
        }
        let answer = answers(&history["items"]).pop().unwrap_or_default();
        if seen.text.as_deref().is_some_and(|text| text.trim() != answer.trim()) {
            return Some(format!("the client saw {:?} and the transcript says {answer:?}", seen.text));
        }
        return None;
    }
    if !seen.failed {
        return Some(format!("the turn failed and the client was not told: {seen:?}"));
    }
    if outcome["reply"].as_str().unwrap_or_default().trim().is_empty() {
        return Some(format!("there are no words for the user: {outcome}"));
    }
    let shown = format!("{history}");
    if !shown.contains(text) {
        return Some(format!("the message is in no list after a reload: {history}"));
    }
    let listed = [answers(&history["items"]), answers(&history["failed"][0]["made"])].concat();
    let seen_text = seen.text.as_deref().unwrap_or_default().trim();
    if !seen_text.is_empty() && listed.last().map(|text| text.trim()) != Some(seen_text) {
        return Some(format!("the client saw {seen_text:?} and the lists have {listed:?} after a reload"));
    }
    shown.contains(KEY).then(|| "a list shows the key".to_owned())
}

// spec: llm-provider §7, harness-chat §10; D7, D29, D30, D32
#[test]
fn an_erring_model_is_repaired_or_told_and_acts_once_over_every_wire() {
    let rig = ErringRig::start(TIMES);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for wire in WIRES {
            let (server, wrong) = (&rig.server, &wrong);
            scope.spawn(move || {
                for way in WAYS {
                    let session = format!("{}-{}", wire.name, way.name);
                    let text = way.text(wire.name);
                    let seen = (wire.say)(&server.url, &session, &text);
                    if let Some(why) = fault_of(way, &text, &session, server, &seen) {
                        wrong.lock().unwrap().push(format!("{session}: {why}"));
                    }
                }
            });
        }
    });
    let sent = rig.stop();
    for (way, wire) in WAYS.iter().flat_map(|way| WIRES.iter().map(move |wire| (way, wire))) {
        let times = sent.iter().filter(|body| **body == way.text(wire.name)).count();
        if times != way.effects {
            let session = format!("{}-{}", wire.name, way.name);
            wrong.lock().unwrap().push(format!("{session}: it acted {times} times, not {}", way.effects));
        }
    }
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), WAYS.len() * WIRES.len(), wrong.join("\n"));
}

/// The same at a terminal, which opens the database itself.
#[test]
fn an_erring_model_is_repaired_or_told_at_a_terminal() {
    let failing = Arc::new(Failing::default());
    let url = failing.clone().serve();
    let home = Home::new();
    fs::write(home.path().join("singletree.toml"), agents(&url, TIMES)).unwrap();
    let mut wrong = Vec::new();
    for way in WAYS {
        let mut command = home.command(BINARY);
        command.current_dir(home.path()).env("ERRING_KEY", KEY);
        let ran = command.args(["send", &way.text("terminal"), "--session", way.name]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let completes = way.ends.contains(&"completed");
        let told = format!("{}: exit {:?}\n{out}{err}", way.name, ran.status.code());
        match ran.status.code() {
            Some(0) if completes => {}
            Some(1) if way.ends.iter().any(|end| *end != "completed") => {
                let words = out.lines().chain(err.lines()).any(|line| line.split(' ').count() > 4);
                if !words {
                    wrong.push(format!("no words: {told}"));
                }
            }
            _ => wrong.push(told.clone()),
        }
        if told.contains(KEY) {
            wrong.push(format!("the key is shown: {told}"));
        }
    }
    let (_, shown) = home.json(&["sessions", "show", "wrong-for-ever"]);
    assert_eq!(shown["failed"][0]["made"][1]["side"], serde_json::json!({ "success": false }), "{shown}");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), WAYS.len(), wrong.join("\n"));
}
