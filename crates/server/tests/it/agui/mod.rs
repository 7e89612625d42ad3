//! AG-UI: runs, interrupts, the state of clients.

mod front;
mod interrupts;
mod kept;
mod random;
mod runs;
mod tamper;

use serde_json::{Value, json};
use singletree_harness::Chat;
use singletree_llm::Role;

pub(crate) use front::{Front, Reader};

/// Returns a session's transcript from the harness, in the form that front ends hold.
async fn transcript(chat: &Chat, session: &str) -> Vec<Value> {
    let Ok(read) = chat.transcript(session, 0, 1000).await else { return Vec::new() };
    let entries = read.items.iter().filter(|it| it.message.role != Role::System).map(|it| {
        let mut message = json!({ "role": it.message.role });
        let theirs = it.side.as_ref().and_then(|it| it["client_id"].as_str().map(str::to_owned));
        let ours = it.id.as_ref().map(ToString::to_string);
        message["id"] = theirs.or(ours).unwrap().into();
        let text = it.message.text();
        if !text.is_empty() || it.message.tool_calls.is_empty() {
            message["content"] = text.into();
        }
        if let Some(call) = &it.message.tool_call_id {
            message["toolCallId"] = call.as_str().into();
        }
        if !it.message.tool_calls.is_empty() {
            message["toolCalls"] = it
                .message
                .tool_calls
                .iter()
                .map(|it| {
                    json!({
                        "id": it.id, "type": "function",
                        "function": { "name": it.name, "arguments": json!(it.arguments).to_string() },
                    })
                })
                .collect();
        }
        message
    });
    entries.collect()
}

/// Asserts that the front end has the transcript, and nothing else but messages of its own: its instructions, its
/// reasoning.
async fn in_step(front: &Front, chat: &Chat) {
    let ours = |it: &&Value| matches!(it["role"].as_str(), Some("user" | "assistant" | "tool"));
    let has: Vec<_> = front.messages.iter().filter(ours).cloned().collect();
    assert_eq!(has, transcript(chat, &front.thread).await);
}
