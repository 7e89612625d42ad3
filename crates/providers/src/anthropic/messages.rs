//! Messages as Anthropic takes them (spec: llm-provider §8.2.1, §8.2.1.1, §8.2.1.2).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent, Role, ToolCall};

use super::withheld;

/// Writes a conversation without its system message. Each run of tool messages becomes one user message, together with
/// a user's message of blocks behind it, which shows their pictures: the results first, as Anthropic wants them.
pub(super) fn write_messages(messages: &[Arc<ChatMessage>]) -> Vec<Value> {
    let shows = |message: &ChatMessage| message.role == Role::User && !message.content.blocks().is_empty();
    let runs = messages.chunk_by(|one, two| one.role == Role::Tool && (two.role == Role::Tool || shows(two)));
    runs.filter_map(write_message_run).collect()
}

fn write_message_run(run: &[Arc<ChatMessage>]) -> Option<Value> {
    let first = run.first()?;
    match first.role {
        Role::System => None,
        Role::User => Some(json!({"role": "user", "content": write_user_content(&first.content)})),
        Role::Assistant => Some(json!({"role": "assistant", "content": write_assistant_content(first)?})),
        Role::Tool => {
            let blocks: Vec<Value> = run.iter().flat_map(|message| write_run_blocks(message)).collect();
            Some(json!({"role": "user", "content": blocks}))
        }
    }
}

/// Writes a message of a run of tool messages, or the user's message behind it.
fn write_run_blocks(message: &ChatMessage) -> Vec<Value> {
    match (message.role, &message.content) {
        (Role::Tool, _) => vec![write_tool_result(message)],
        (_, MessageContent::Text(text)) => vec![json!({"type": "text", "text": text})],
        (_, MessageContent::Blocks(blocks)) => blocks.iter().filter_map(write_content_block).collect(),
    }
}

fn write_user_content(content: &MessageContent) -> Value {
    match content {
        MessageContent::Text(text) => json!(text),
        MessageContent::Blocks(blocks) => blocks.iter().filter_map(write_content_block).collect(),
    }
}

/// Writes a message of the model. `None` when nothing of it can be sent.
///
/// Parts that Anthropic refuses in a message of the model are left out: blank text, and thinking at the end, where
/// the budget or a cancel cut the answer off before its text began.
fn write_assistant_content(message: &ChatMessage) -> Option<Value> {
    if let (MessageContent::Text(text), true) = (&message.content, message.tool_calls.is_empty()) {
        return (!is_blank_text(text)).then(|| json!(text));
    }
    let mut all: Vec<Value> = match &message.content {
        MessageContent::Text(text) if is_blank_text(text) => Vec::new(),
        MessageContent::Text(text) => vec![json!({"type": "text", "text": text})],
        MessageContent::Blocks(blocks) => blocks
            .iter()
            .filter(|block| !block.text().is_some_and(is_blank_text))
            .filter_map(write_content_block)
            .collect(),
    };
    all.extend(message.tool_calls.iter().map(write_tool_use));
    while all.last().is_some_and(|all| all["type"] == "thinking" || all["type"] == "redacted_thinking") {
        all.pop();
    }
    (!all.is_empty()).then_some(Value::Array(all))
}

/// Writes a block, or strips it (spec: llm-provider §3.1.7). Anthropic signs thinking and nothing else: unsigned
/// thinking is another provider's, and so is every signature on text and on calls.
fn write_content_block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        ContentBlock::Image { source: ImageContentSource::Url { url }, .. } => {
            Some(json!({"type": "image", "source": {"type": "url", "url": url}}))
        }
        ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, .. } => {
            let source = json!({"type": "base64", "media_type": media_type, "data": base64_data});
            Some(json!({"type": "image", "source": source}))
        }
        ContentBlock::Thinking { text, signature: Some(signature) } => {
            Some(write_thinking_block(text, signature))
        }
        ContentBlock::Thinking { signature: None, .. } => None,
        ContentBlock::RedactedThinking { data } => Some(match withheld::signature_from_data(data) {
            Some(signature) => write_thinking_block("", signature),
            None => json!({"type": "redacted_thinking", "data": data}),
        }),
    }
}

fn write_thinking_block(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn write_tool_use(call: &ToolCall) -> Value {
    let input = call.arguments.clone().unwrap_or_default();
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn write_tool_result(message: &ChatMessage) -> Value {
    json!({"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text()})
}

fn is_blank_text(text: &str) -> bool {
    text.trim().is_empty()
}
