//! The UI message stream over its wire. The messages that a client builds from the streams are compared with those of
//! the server.

mod approvals;
mod library;
mod page;
mod posting;
mod reading;
mod resuming;

use serde_json::{Value, json};

use crate::support::{Client, Events};
use page::Page;

/// A user's message, as a client makes it.
fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// Reads a stream to its end.
async fn parts(mut events: Events) -> Vec<Value> {
    assert_eq!(events.status, 200, "{}", events.raw);
    assert_eq!(events.headers["x-vercel-ai-ui-message-stream"], "v1");
    assert_eq!(events.headers["content-type"], "text/event-stream");
    let mut told = events.rest().await;
    assert_eq!(told.pop().unwrap().data.as_deref(), Some("[DONE]"));
    told.iter().map(|it| it.json()).collect()
}

/// Posts a body and reads its stream.
async fn post(client: &Client, body: &Value) -> Vec<Value> {
    parts(client.post_events("/v1/ui", body).await).await
}

/// Sends a message, as a client does whose transport sends only the necessary fields, and returns the resulting
/// message.
async fn say(client: &Client, chat: &str, id: &str, text: &str) -> Value {
    let body = json!({ "sessionId": chat, "message": user(id, text) });
    Page::of(&post(client, &body).await).message
}

/// Reads the messages of a chat.
async fn messages(client: &Client, chat: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/ui/{chat}/messages")).await.json();
    page["messages"].as_array().unwrap().clone()
}

/// Returns the types of parts, those that come in a row once.
fn types(parts: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = parts.iter().map(|it| it["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}
