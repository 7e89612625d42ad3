//! OpenAI's chat completions.

mod asked;
mod sessions;
mod stateless;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Rig};

const PATH: &str = "/v1/chat/completions";

fn says(text: &str) -> Value {
    json!({ "model": "scripted", "messages": [{ "role": "user", "content": text }] })
}

async fn ask(client: &Client, body: &Value) -> Answer {
    client.post(PATH, body).await
}

fn message(answer: &Answer) -> Value {
    let body = answer.json();
    assert_eq!((answer.status, body["choices"].as_array().map(Vec::len)), (200, Some(1)), "{body}");
    body["choices"][0]["message"].clone()
}

/// The result of a stream for an OpenAI client.
#[derive(Debug, Default)]
struct Streamed {
    text: String,
    calls: Vec<Value>,
    reason: Option<String>,
    usage: Option<Value>,
    ours: Value,
    error: Option<Value>,
    done: bool,
}

async fn stream(client: &Client, body: &Value) -> Streamed {
    let mut body = body.clone();
    body["stream"] = true.into();
    let mut events = client.post_events(PATH, &body).await;
    assert_eq!(events.status, 200);
    let mut streamed = Streamed::default();
    let mut first = true;
    while let Some(event) = events.next().await {
        assert!(!streamed.done, "something comes after the end");
        if event.data.as_deref() == Some("[DONE]") {
            streamed.done = true;
            continue;
        }
        let chunk = event.json();
        if let Some(error) = chunk.get("error") {
            streamed.error = Some(error.clone());
            continue;
        }
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let wants = body["stream_options"]["include_usage"] == true;
        assert_eq!(chunk.get("usage").is_some(), wants, "{chunk}");
        let Some(choice) = chunk["choices"].get(0) else {
            streamed.usage = Some(chunk["usage"].clone());
            continue;
        };
        let delta = &choice["delta"];
        assert_eq!(delta.get("role").is_some(), first, "the first piece says whose it is");
        first = false;
        streamed.text += delta["content"].as_str().unwrap_or_default();
        streamed.calls.extend(delta["tool_calls"].as_array().into_iter().flatten().cloned());
        if let Some(reason) = choice["finish_reason"].as_str() {
            streamed.reason = Some(reason.to_owned());
            streamed.ours = chunk["singletree"].clone();
        }
    }
    streamed
}

/// Lets a stream and an answer as a whole say the same, each of its own rig.
async fn both(body: &Value) -> (Value, Streamed) {
    let rig = Rig::start().await;
    let whole = ask(&rig.client(), body).await.json();
    rig.stop().await;
    let rig = Rig::start().await;
    let streamed = stream(&rig.client(), body).await;
    rig.stop().await;
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"].as_str().unwrap_or_default(), streamed.text);
    assert_eq!(choice["finish_reason"].as_str(), streamed.reason.as_deref());
    assert!(streamed.done);
    (whole, streamed)
}
