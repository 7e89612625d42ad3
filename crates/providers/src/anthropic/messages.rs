//! Messages as Anthropic takes them (spec: llm-provider §8.2.1, §8.2.1.1, §8.2.1.2).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent, Role, ToolCall};

use super::withheld;

/// Writes a conversation without its system message. Each run of tool messages becomes one user message, together with
/// a user's message of blocks behind it, which shows their pictures: the results first, as Anthropic wants them.
pub(super) fn messages(messages: &[Arc<ChatMessage>]) -> Vec<Value> {
    let shows = |message: &ChatMessage| message.role == Role::User && !message.content.blocks().is_empty();
    let runs = messages.chunk_by(|one, two| one.role == Role::Tool && (two.role == Role::Tool || shows(two)));
    runs.filter_map(run).collect()
}

fn run(run: &[Arc<ChatMessage>]) -> Option<Value> {
    let first = run.first()?;
    match first.role {
        Role::System => None,
        Role::User => Some(json!({"role": "user", "content": user(&first.content)})),
        Role::Assistant => Some(json!({"role": "assistant", "content": assistant(first)?})),
        Role::Tool => {
            let blocks: Vec<Value> = run.iter().flat_map(|message| answered(message)).collect();
            Some(json!({"role": "user", "content": blocks}))
        }
    }
}

/// Writes a message of a run of tool messages, or the user's message behind it.
fn answered(message: &ChatMessage) -> Vec<Value> {
    match (message.role, &message.content) {
        (Role::Tool, _) => vec![result(message)],
        (_, MessageContent::Text(text)) => vec![json!({"type": "text", "text": text})],
        (_, MessageContent::Blocks(blocks)) => blocks.iter().filter_map(block).collect(),
    }
}

fn user(content: &MessageContent) -> Value {
    match content {
        MessageContent::Text(text) => json!(text),
        MessageContent::Blocks(blocks) => blocks.iter().filter_map(block).collect(),
    }
}

/// Writes a message of the model. `None` when nothing of it can be sent.
///
/// Parts that Anthropic refuses in a message of the model are left out: blank text, and thinking at the end, where
/// the budget or a cancel cut the answer off before its text began.
fn assistant(message: &ChatMessage) -> Option<Value> {
    if let (MessageContent::Text(text), true) = (&message.content, message.tool_calls.is_empty()) {
        return (!blank(text)).then(|| json!(text));
    }
    let mut all: Vec<Value> = match &message.content {
        MessageContent::Text(text) if blank(text) => Vec::new(),
        MessageContent::Text(text) => vec![json!({"type": "text", "text": text})],
        MessageContent::Blocks(blocks) => {
            blocks.iter().filter(|block| !block.text().is_some_and(blank)).filter_map(block).collect()
        }
    };
    all.extend(message.tool_calls.iter().map(call));
    while all.last().is_some_and(|all| all["type"] == "thinking" || all["type"] == "redacted_thinking") {
        all.pop();
    }
    (!all.is_empty()).then_some(Value::Array(all))
}

/// Writes a block, or strips it (spec: llm-provider §3.1.7). Anthropic signs thinking and nothing else: unsigned
/// thinking is another provider's, and so is every signature on text and on calls.
fn block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        ContentBlock::Image { source: ImageContentSource::Url { url }, .. } => {
            Some(json!({"type": "image", "source": {"type": "url", "url": url}}))
        }
        ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, .. } => {
            let source = json!({"type": "base64", "media_type": media_type, "data": base64_data});
            Some(json!({"type": "image", "source": source}))
        }
        ContentBlock::Thinking { text, signature: Some(signature) } => Some(thinking(text, signature)),
        ContentBlock::Thinking { signature: None, .. } => None,
        ContentBlock::RedactedThinking { data } => Some(match withheld::signature_of(data) {
            Some(signature) => thinking("", signature),
            None => json!({"type": "redacted_thinking", "data": data}),
        }),
    }
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn call(call: &ToolCall) -> Value {
    let input = call.arguments.clone().unwrap_or_default();
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn result(message: &ChatMessage) -> Value {
    json!({"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text()})
}

fn blank(text: &str) -> bool {
    text.trim().is_empty()
}
