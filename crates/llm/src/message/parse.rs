//! The strict reader of messages: every mistake is told with its path.

use serde_json::Value;

use super::{ChatMessage, Role, ToolCall};
use crate::Map;
use crate::content::{ContentBlock, ImageContentSource, ImageDetailLevel, MessageContent};
use crate::fault::InvalidField;

type Parsed<T> = Result<T, InvalidField>;

/// Reads a message.
pub(super) fn message(value: Value) -> Parsed<ChatMessage> {
    let mut fields = UnreadFields::of(value)?;
    let role = role(&fields.string("role")?)?;
    let content = match fields.take("content") {
        Some(value) => content(value).map_err(|error| error.under("content"))?,
        None if role == Role::Assistant => MessageContent::Text(String::new()),
        None => return Err(InvalidField::at("content", format!("is required on a {role} message"))),
    };
    let tool_calls = match fields.take("tool_calls") {
        Some(_) if role != Role::Assistant => {
            return Err(InvalidField::at("tool_calls", format!("must be absent on a {role} message")));
        }
        Some(value) => list(value, tool_call).map_err(|error| error.under("tool_calls"))?,
        None => Vec::new(),
    };
    let tool_call_id = fields.optional_string("tool_call_id")?;
    fields.end()?;
    Ok(ChatMessage { role, content, tool_calls, tool_call_id })
}

/// Reads a tool call.
pub(super) fn tool_call(value: Value) -> Parsed<ToolCall> {
    let mut fields = UnreadFields::of(value)?;
    let id = fields.string("id")?;
    let name = fields.string("name")?;
    let arguments = match fields.0.remove("arguments") {
        Some(Value::Object(arguments)) => Some(arguments),
        Some(Value::Null) => None,
        Some(other) => return Err(InvalidField::at("arguments", expected("an object or null", &other))),
        None => return Err(InvalidField::at("arguments", "is required (null when not readable)")),
    };
    let signature = fields.optional_string("signature")?;
    fields.end()?;
    Ok(ToolCall { id, name, arguments, signature })
}

fn role(text: &str) -> Parsed<Role> {
    match text {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        other => Err(InvalidField::at(
            "role",
            format!("must be system, user, assistant or tool, not {:?}", clip(other)),
        )),
    }
}

fn content(value: Value) -> Parsed<MessageContent> {
    match value {
        Value::String(text) => Ok(MessageContent::Text(text)),
        Value::Array(_) => Ok(MessageContent::Blocks(list(value, block)?)),
        other => Err(InvalidField::at("", expected("a string or a list of content blocks", &other))),
    }
}

fn block(value: Value) -> Parsed<ContentBlock> {
    let mut fields = UnreadFields::of(value)?;
    let kind = fields.string("type")?;
    let block = match kind.as_str() {
        "text" => ContentBlock::Text {
            text: fields.string("text")?,
            signature: fields.optional_string("signature")?,
        },
        "thinking" => ContentBlock::Thinking {
            text: fields.string("text")?,
            signature: fields.optional_string("signature")?,
        },
        "redacted_thinking" => ContentBlock::RedactedThinking { data: fields.string("data")? },
        "image" => ContentBlock::Image {
            source: source(fields.required("source")?).map_err(|error| error.under("source"))?,
            media_type: fields.optional_string("media_type")?,
            detail: fields
                .optional_string("detail")?
                .map(|optional_string| detail(&optional_string))
                .transpose()?,
        },
        other => {
            return Err(InvalidField::at(
                "type",
                format!("must be text, image, thinking or redacted_thinking, not {:?}", clip(other)),
            ));
        }
    };
    fields.end()?;
    Ok(block)
}

fn source(value: Value) -> Parsed<ImageContentSource> {
    let mut fields = UnreadFields::of(value)?;
    let kind = fields.string("type")?;
    let source = match kind.as_str() {
        "url" => ImageContentSource::Url { url: fields.string("url")? },
        "inline" => ImageContentSource::Inline { base64_data: fields.string("base64_data")? },
        other => {
            return Err(InvalidField::at("type", format!("must be url or inline, not {:?}", clip(other))));
        }
    };
    fields.end()?;
    Ok(source)
}

fn detail(text: &str) -> Parsed<ImageDetailLevel> {
    match text {
        "auto" => Ok(ImageDetailLevel::Auto),
        "low" => Ok(ImageDetailLevel::Low),
        "high" => Ok(ImageDetailLevel::High),
        other => Err(InvalidField::at("detail", format!("must be auto, low or high, not {:?}", clip(other)))),
    }
}

fn list<T>(value: Value, read: fn(Value) -> Parsed<T>) -> Parsed<Vec<T>> {
    let items = match value {
        Value::Array(items) => items,
        other => return Err(InvalidField::at("", expected("a list", &other))),
    };
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| read(item).map_err(|error| error.under(&format!("[{index}]"))))
        .collect()
}

/// The fields of an object that nobody has read yet.
struct UnreadFields(Map);

impl UnreadFields {
    fn of(value: Value) -> Parsed<Self> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(InvalidField::at("", expected("an object", &other))),
        }
    }

    /// Takes a field; null is the same as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|it| !it.is_null())
    }

    fn required(&mut self, name: &str) -> Parsed<Value> {
        self.take(name).ok_or_else(|| InvalidField::at(name, "is required"))
    }

    fn string(&mut self, name: &str) -> Parsed<String> {
        self.optional_string(name)?.ok_or_else(|| InvalidField::at(name, "is required"))
    }

    fn optional_string(&mut self, name: &str) -> Parsed<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(InvalidField::at(name, expected("a string", &other))),
        }
    }

    fn end(self) -> Parsed<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(InvalidField::at(clip(name), "is not a known field")),
        }
    }
}

fn expected(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("must be {what}, not {found}")
}

/// Keeps a diagnostic short, whatever a caller sends.
fn clip(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let mut clipped: String = text.chars().take(CHARS_MAX).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
