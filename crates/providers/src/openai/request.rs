//! A request as the body of a chat completion (spec: llm-provider §8.1.1).

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, Map, MessageContent, Request, Result,
    Role, RuntimeConfig, ToolCall, ToolChoicePolicy, ToolDefinition, canonical_json,
};

use super::schema;
use crate::extras::{self, ExtraFieldRule};
use crate::mapping::ComposeOptions;

/// The managed fields whose rule is not "while it is there" (spec: llm-provider §8.1.1, §8.1.6).
const RULES: &[(&str, ExtraFieldRule)] = &[
    ("model", ExtraFieldRule::Always),
    ("messages", ExtraFieldRule::Always),
    ("tools", ExtraFieldRule::Always),
    ("tool_choice", ExtraFieldRule::Always),
    ("stream", ExtraFieldRule::Switch(false)),
    ("stop", ExtraFieldRule::Merge { scalar: true }),
];

/// Writes the body.
pub(super) fn write_request_body(model: &str, request: &Request, manner: ComposeOptions) -> Result<Map> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    let mut messages: Vec<Value> = request.messages.iter().filter_map(|it| write_message(it)).collect();
    if let Some(schema) = request.response_schema.as_deref() {
        if manner.structured_output {
            body.insert("response_format".to_owned(), schema::response_format(schema.as_value()));
        } else {
            schema::add_schema_directive(&mut messages, schema.as_value());
        }
    }
    body.insert("messages".to_owned(), messages.into());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(write_tool_definition).collect());
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("tool_choice".to_owned(), write_tool_choice(choice));
    }
    write_sampling(&request.config, &mut body);
    if manner.streaming {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    extras::apply_extras(&mut body, &request.config.extras, RULES)?;
    Ok(body)
}

/// Writes the declared fields that are set; the others are left out, never null (spec: llm-provider §6).
fn write_sampling(config: &RuntimeConfig, body: &mut Map) {
    let fields = [
        ("temperature", config.temperature.map(Value::from)),
        ("max_tokens", config.max_tokens.map(Value::from)),
        ("top_p", config.top_p.map(Value::from)),
        ("seed", config.seed.map(Value::from)),
        ("frequency_penalty", config.frequency_penalty.map(Value::from)),
        ("presence_penalty", config.presence_penalty.map(Value::from)),
        ("stop", config.stop_sequences.clone().map(Value::from)),
    ];
    body.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
}

/// Writes a message. `None` where nothing is left of it without the reasoning of another provider.
fn write_message(message: &ChatMessage) -> Option<Value> {
    match message.role {
        Role::System => Some(json!({ "role": "system", "content": message.text() })),
        Role::User => Some(json!({ "role": "user", "content": write_user_content(&message.content) })),
        Role::Assistant => write_assistant_message(message),
        Role::Tool => {
            Some(json!({ "role": "tool", "content": message.text(), "tool_call_id": message.tool_call_id }))
        }
    }
}

fn write_user_content(content: &MessageContent) -> Value {
    match content {
        MessageContent::Text(text) => text.as_str().into(),
        MessageContent::Blocks(blocks) => blocks.iter().filter_map(write_content_part).collect(),
    }
}

fn write_content_part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({ "type": "text", "text": text })),
        ContentBlock::Image { source, media_type, detail } => {
            let url = match source {
                ImageContentSource::Url { url } => url.clone(),
                ImageContentSource::Inline { base64_data } => {
                    format!("data:{};base64,{base64_data}", media_type.as_deref().unwrap_or_default())
                }
            };
            let mut image = Map::from_iter([("url".to_owned(), url.into())]);
            if let Some(detail) = detail {
                image.insert("detail".to_owned(), image_detail_name(*detail).into());
            }
            Some(json!({ "type": "image_url", "image_url": image }))
        }
        // Never in a message of a user.
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => None,
    }
}

fn image_detail_name(detail: ImageDetailLevel) -> &'static str {
    match detail {
        ImageDetailLevel::Auto => "auto",
        ImageDetailLevel::Low => "low",
        ImageDetailLevel::High => "high",
    }
}

/// Writes a message of the model: text and calls. Reasoning and signatures are another provider's (spec: llm-provider
/// §3.1.7, §8.1.1).
fn write_assistant_message(message: &ChatMessage) -> Option<Value> {
    let text = message.text();
    let content = if text.is_empty() { Value::Null } else { text.into() };
    if message.tool_calls.is_empty() {
        return Some(json!({ "role": "assistant", "content": content }))
            .filter(|value| !value["content"].is_null());
    }
    let calls: Value = message.tool_calls.iter().map(write_tool_call).collect();
    Some(json!({ "role": "assistant", "content": content, "tool_calls": calls }))
}

fn write_tool_call(call: &ToolCall) -> Value {
    let arguments = call.arguments.clone().unwrap_or_default();
    let arguments = canonical_json(&Value::Object(arguments));
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

fn write_tool_definition(tool: &ToolDefinition) -> Value {
    let function =
        json!({ "name": tool.name(), "description": tool.description(), "parameters": tool.parameters() });
    json!({ "type": "function", "function": function })
}

fn write_tool_choice(choice: &ToolChoicePolicy) -> Value {
    match choice {
        ToolChoicePolicy::Auto => "auto".into(),
        ToolChoicePolicy::Required => "required".into(),
        ToolChoicePolicy::None => "none".into(),
        ToolChoicePolicy::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}
