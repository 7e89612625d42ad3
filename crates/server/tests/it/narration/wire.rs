//! The same story over the wire: every change of narration between two requests leaves every answer the same, to the
//! byte (INV-9).

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_engine::{RandomIds, SystemClock};
use singletree_http::Redactor;
use singletree_server::{NarrationLimits, NarrationLog};

use super::agent::alone;
use super::seen::Record;
use crate::support::rig::within;
use crate::support::{Client, Rig};

/// The sessions of the story: one for each policy.
const SESSIONS: [(&str, &str); 2] = [("talk", "conversation"), ("work", "command")];

/// The requests, in order; `{session}` stands for a session, `{signal}`, `{wait}` and `{action}` for its pending wait.
const ASKED: &[(&str, &str, &str)] = &[
    ("POST", "/v1/sessions/{session}/messages", r#"{"content": "say hello"}"#),
    ("POST", "/v1/sessions/{session}/messages", r#"{"content": "fail correctable"}"#),
    ("POST", "/v1/sessions/{session}/messages", r#"{"content": "send"}"#),
    ("GET", "/v1/sessions/{session}/pending", ""),
    ("POST", "/v1/sessions/{session}/messages", r#"{"content": "yes"}"#),
    (
        "POST",
        "/v1/sessions/{session}/signals/{signal}",
        r#"{"payload": {"approved": false}, "wait": {wait}, "action": "{action}"}"#,
    ),
    (
        "POST",
        "/v1/ui",
        r#"{"id": "{session}", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "look"}]}]}"#,
    ),
    ("POST", "/v1/chats/{session}/send", r#"{"content": "act"}"#),
    (
        "POST",
        "/v1/openharness",
        r#"{"protocol_version": "1.0.0", "request_id": "r", "request": {"context": {"session_id": "{session}", "user_intent": "say on"}}}"#,
    ),
    ("GET", "/v1/sessions/{session}", ""),
    ("GET", "/v1/sessions/{session}/messages", ""),
    ("GET", "/v1/sessions/{session}/turns", ""),
    ("GET", "/v1/sessions/{session}/export", ""),
    ("GET", "/v1/chats/{session}/messages", ""),
    ("GET", "/v1/ui/{session}/messages", ""),
    ("GET", "/v1/sessions", ""),
    ("GET", "/v1/audit", ""),
];

/// An answer: status, headers, body; without the date.
type Told = (u16, Vec<(String, String)>, String);

async fn ask(client: &Client, (method, path, body): (&str, &str, &str)) -> Told {
    let client = client.clone().with("content-type", "application/json");
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let answer = within(client.send_bytes(method, path, Bytes::from(body.to_owned()))).await;
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let headers = answer.headers.iter().map(header).filter(|(name, _)| name != "date");
    (answer.status, headers.collect(), answer.text())
}

/// Goes through the story; `between` is done to the log before each request.
async fn told(log: NarrationLog, between: impl Fn(&NarrationLog)) -> Vec<Told> {
    let rig = Rig::builder().narration(log.clone()).also(|_| alone(&Record::default())).start().await;
    let client = rig.client();
    let mut told = Vec::new();
    for (session, policy) in SESSIONS {
        let made = json!({ "id": session, "agent": "a", "prompt_policy": policy }).to_string();
        told.push(ask(&client, ("POST", "/v1/sessions", &made)).await);
        let mut waits = Value::Null;
        for (method, path, body) in ASKED {
            between(&log);
            let fill = |text: &str| {
                let wait = &waits["items"][0];
                text.replace("{session}", session)
                    .replace("{signal}", wait["signal"].as_str().unwrap_or_default())
                    .replace("{action}", wait["action"].as_str().unwrap_or_default())
                    .replace("{wait}", &wait["number"].to_string())
            };
            let answer = ask(&client, (method, &fill(path), &fill(body))).await;
            if path.ends_with("/pending") {
                waits = serde_json::from_str(&answer.2).unwrap();
                assert_eq!(waits["items"].as_array().map(Vec::len), Some(1), "{waits}");
            }
            told.push(answer);
        }
    }
    rig.stop().await;
    told
}

fn held(limits: NarrationLimits) -> NarrationLog {
    NarrationLog::new(limits, Redactor::default(), std::sync::Arc::new(SystemClock), &RandomIds)
}

// INV-9
#[tokio::test]
async fn every_answer_is_the_same_whatever_becomes_of_narration() {
    let usual = NarrationLimits::default;
    let reference = told(held(usual()), |_| {}).await;
    let answered = reference.iter().filter(|(status, _, _)| *status < 300).count();
    assert!(answered >= 2 * (ASKED.len() - 2), "{reference:#?}");
    assert_eq!(told(held(usual()), NarrationLog::forget_all_sessions).await, reference, "deleted");
    assert_eq!(told(NarrationLog::new_disabled(), |_| {}).await, reference, "off");
    let none = NarrationLimits { entries: 0, ..usual() };
    assert_eq!(told(held(none), |_| {}).await, reference, "no room");
}
