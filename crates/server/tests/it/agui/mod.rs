//! AG-UI: runs, interrupts, the state of clients.

mod front;
mod interrupts;
mod kept;
mod random;
mod runs;
mod tamper;
mod unanswered;

use serde_json::{Value, json};
use singletree_harness::Chat;
use singletree_llm::Role;

pub(crate) use front::{Front, Reader};

/// Returns a session's transcript from the harness, in the form that front ends hold.
async fn transcript(chat: &Chat, session: &str) -> Vec<Value> {
    let Ok(read) = chat.session(session).transcript(0, 1000).await else { return Vec::new() };
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

/// Returns a session's transcript with those messages of failed turns that a front end holds, in their places.
async fn transcript_with_failed(chat: &Chat, front: &Front) -> Vec<Value> {
    let mut messages = transcript(chat, &front.thread).await;
    let failed = chat.session(&front.thread).failed_turns(0..u64::MAX, 100).await.unwrap_or_default();
    for failed in failed.iter().rev() {
        let Some((message, side)) = &failed.message else { continue };
        let theirs = side.as_ref().and_then(|side| side["client_id"].as_str().map(str::to_owned));
        let id = theirs.unwrap_or_else(|| format!("{}/0", failed.turn.id));
        let is_held = front.messages.iter().any(|message| message["id"] == id);
        let is_known = messages.iter().any(|message| message["id"] == id);
        if is_held && !is_known {
            let message = json!({ "role": "user", "id": id, "content": message.text() });
            messages.insert(usize::try_from(failed.place).unwrap(), message);
        }
    }
    messages
}

/// Asserts that the front end has the transcript, and nothing else but messages of its own: its instructions, its
/// reasoning.
async fn in_step(front: &Front, chat: &Chat) {
    let ours = |it: &&Value| matches!(it["role"].as_str(), Some("user" | "assistant" | "tool"));
    let has: Vec<_> = front.messages.iter().filter(ours).cloned().collect();
    assert_eq!(has, transcript(chat, &front.thread).await);
}
