//! Messages as Gemini takes them (spec: llm-provider §8.3.1, §8.3.1.1, §8.3.1.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, Map, MessageContent, Role, ToolCall};

/// Which tool the call of an id names; ids are unique within a message only, so the latest counts.
type Names<'a> = BTreeMap<&'a str, &'a str>;

/// Writes a conversation without its system message. Each run of tool messages becomes one content of the user.
pub(super) fn write_contents(messages: &[Arc<ChatMessage>]) -> Vec<Value> {
    let mut names = Names::new();
    let runs = messages.chunk_by(|one, two| one.role == Role::Tool && two.role == Role::Tool);
    runs.filter_map(|it| write_message_run(it, &mut names)).collect()
}

fn write_message_run<'a>(run: &'a [Arc<ChatMessage>], names: &mut Names<'a>) -> Option<Value> {
    let first = run.first()?;
    let (role, parts) = match first.role {
        Role::System => return None,
        Role::User => ("user", write_content_parts(&first.content)),
        Role::Assistant => {
            names.extend(
                first.tool_calls.iter().map(|tool_call| (tool_call.id.as_str(), tool_call.name.as_str())),
            );
            let mut parts = write_content_parts(&first.content);
            parts.extend(first.tool_calls.iter().map(write_function_call));
            ("model", parts)
        }
        Role::Tool => ("user", run.iter().map(|it| write_function_response(it, names)).collect()),
    };
    // Of a message that was another provider's reasoning only, nothing is left to say.
    (!parts.is_empty()).then(|| json!({"role": role, "parts": parts}))
}

fn write_content_parts(content: &MessageContent) -> Vec<Value> {
    match content {
        MessageContent::Text(text) if text.is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![json!({"text": text})],
        MessageContent::Blocks(blocks) => blocks.iter().filter_map(write_block_part).collect(),
    }
}

/// Writes a block, or strips it (spec: llm-provider §3.1.7).
fn write_block_part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, signature } => {
            Some(with_signature(json!({"text": text}), signature.as_deref()))
        }
        ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, .. } => {
            Some(json!({"inlineData": {"mimeType": media_type, "data": base64_data}}))
        }
        ContentBlock::Image { source: ImageContentSource::Url { url }, media_type, .. } => {
            Some(json!({"fileData": write_file_data(url, media_type.as_deref())}))
        }
        ContentBlock::Thinking { text, signature: None } => Some(json!({"text": text, "thought": true})),
        ContentBlock::Thinking { signature: Some(_), .. } | ContentBlock::RedactedThinking { .. } => None,
    }
}

fn write_function_call(call: &ToolCall) -> Value {
    let args = call.arguments.clone().unwrap_or_default();
    let part = json!({"functionCall": {"name": call.name, "id": call.id, "args": args}});
    with_signature(part, call.signature.as_deref())
}

/// Puts a signature on a part; without one the key is absent.
fn with_signature(mut part: Value, signature: Option<&str>) -> Value {
    if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn write_function_response(message: &ChatMessage, names: &Names<'_>) -> Value {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    let name = names.get(id).copied().unwrap_or_default();
    json!({"functionResponse": {"name": name, "id": id, "response": {"result": message.text()}}})
}

/// Refers to a picture. Its media type comes from the end of its path, else from the block; else Gemini has to find
/// it.
fn write_file_data(url: &str, media_type: Option<&str>) -> Map {
    let mut file = Map::new();
    file.insert("fileUri".to_owned(), json!(url));
    if let Some(media_type) = infer_media_type(url).or(media_type) {
        file.insert("mimeType".to_owned(), json!(media_type));
    }
    file
}

fn infer_media_type(url: &str) -> Option<&'static str> {
    if let Some(data) = url.strip_prefix("data:") {
        let given = data.split([';', ',']).next()?;
        return TYPES.iter().map(|(_, it)| *it).find(|it| it.eq_ignore_ascii_case(given));
    }
    let path = url.split(['?', '#']).next()?;
    let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
    TYPES.iter().find(|(it, _)| it.eq_ignore_ascii_case(ending)).map(|(_, media_type)| *media_type)
}

/// Endings of paths, and the pictures behind them.
const TYPES: [(&str, &str); 9] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
];
