//! Steerable chat over its wire. Whatever it says is held against the specification's schemas, where those are there.

mod agents;
mod hooks;
mod listening;
mod schemas;
mod sending;
mod sessions;

use serde_json::{Value, json};

use crate::support::{Client, Events};

/// Reads a turn's stream to its end: its events, without the last line.
async fn turn(mut events: Events) -> Vec<Value> {
    assert_eq!(events.status, 200);
    assert_eq!(events.headers["content-type"], "text/event-stream");
    assert_eq!(events.headers["cache-control"], "no-cache");
    assert_eq!(events.headers["x-accel-buffering"], "no");
    let mut told = events.rest().await;
    let last = told.pop().unwrap();
    assert_eq!(last.data.as_deref(), Some("[DONE]"));
    // Data only, on one line each.
    assert!(events.raw.lines().all(|it| it.is_empty() || it.starts_with("data: ")), "{}", events.raw);
    let told: Vec<Value> = told.iter().map(|it| it.json()).collect();
    told.iter().for_each(schemas::check_event);
    told
}

/// Sends a text and reads its turn.
async fn send(client: &Client, chat: &str, text: &str) -> Vec<Value> {
    turn(client.post_events(&format!("/v1/chats/{chat}/send"), &json!({ "content": text })).await).await
}

/// Reads all messages of a chat.
async fn messages(client: &Client, chat: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/chats/{chat}/messages")).await.json();
    let messages = page["messages"].as_array().unwrap().clone();
    messages.iter().for_each(|it| schemas::check("chat/ChatMessage", it));
    messages
}

/// Returns the text of a stream, by message.
fn said(told: &[Value]) -> Vec<(String, String)> {
    let mut said: Vec<(String, String)> = Vec::new();
    for event in told.iter().filter(|it| it["type"] == "content") {
        let id = event["messageId"].as_str().unwrap();
        if said.last().is_none_or(|it| it.0 != id) {
            said.push((id.to_owned(), String::new()));
        }
        said.last_mut().unwrap().1 += event["content"].as_str().unwrap();
    }
    said
}

/// Returns the types of events, those that come in a row once.
fn types(told: &[Value]) -> Vec<String> {
    let mut types: Vec<String> = told
        .iter()
        .map(|it| match it["event"].as_str() {
            Some(event) => format!("{}:{event}", it["type"].as_str().unwrap()),
            None => it["type"].as_str().unwrap().to_owned(),
        })
        .collect();
    types.dedup();
    types
}
