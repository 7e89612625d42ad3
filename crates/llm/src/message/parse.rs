//! The strict reader of messages: every mistake is told with its path.

use serde_json::Value;

use super::{ChatMessage, Role, ToolCall};
use crate::Map;
use crate::content::{ContentBlock, ImageContentSource, ImageDetailLevel, MessageContent};
use crate::fault::InvalidField;

type Parsed<T> = Result<T, InvalidField>;

/// Reads a message.
pub(super) fn parse_message(value: Value) -> Parsed<ChatMessage> {
    let mut fields = UnreadFields::from_object(value)?;
    let role = parse_role(&fields.take_required_string("role")?)?;
    let content = match fields.take_field("content") {
        Some(value) => parse_content(value).map_err(|error| error.nest_under("content"))?,
        None if role == Role::Assistant => MessageContent::Text(String::new()),
        None => return Err(InvalidField::at_path("content", format!("is required on a {role} message"))),
    };
    let tool_calls = match fields.take_field("tool_calls") {
        Some(_) if role != Role::Assistant => {
            return Err(InvalidField::at_path("tool_calls", format!("must be absent on a {role} message")));
        }
        Some(value) => parse_list(value, parse_tool_call).map_err(|error| error.nest_under("tool_calls"))?,
        None => Vec::new(),
    };
    let tool_call_id = fields.take_optional_string("tool_call_id")?;
    fields.refuse_unread_fields()?;
    Ok(ChatMessage { role, content, tool_calls, tool_call_id })
}

/// Reads a tool call.
pub(super) fn parse_tool_call(value: Value) -> Parsed<ToolCall> {
    let mut fields = UnreadFields::from_object(value)?;
    let id = fields.take_required_string("id")?;
    let name = fields.take_required_string("name")?;
    let arguments = match fields.0.remove("arguments") {
        Some(Value::Object(arguments)) => Some(arguments),
        Some(Value::Null) => None,
        Some(other) => {
            return Err(InvalidField::at_path(
                "arguments",
                describe_type_mismatch("an object or null", &other),
            ));
        }
        None => return Err(InvalidField::at_path("arguments", "is required (null when not readable)")),
    };
    let signature = fields.take_optional_string("signature")?;
    fields.refuse_unread_fields()?;
    Ok(ToolCall { id, name, arguments, signature })
}

fn parse_role(text: &str) -> Parsed<Role> {
    match text {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        other => Err(InvalidField::at_path(
            "role",
            format!("must be system, user, assistant or tool, not {:?}", clip_text(other)),
        )),
    }
}

fn parse_content(value: Value) -> Parsed<MessageContent> {
    match value {
        Value::String(text) => Ok(MessageContent::Text(text)),
        Value::Array(_) => Ok(MessageContent::Blocks(parse_list(value, parse_content_block)?)),
        other => Err(InvalidField::at_path(
            "",
            describe_type_mismatch("a string or a list of content blocks", &other),
        )),
    }
}

fn parse_content_block(value: Value) -> Parsed<ContentBlock> {
    let mut fields = UnreadFields::from_object(value)?;
    let kind = fields.take_required_string("type")?;
    let block = match kind.as_str() {
        "text" => ContentBlock::Text {
            text: fields.take_required_string("text")?,
            signature: fields.take_optional_string("signature")?,
        },
        "thinking" => ContentBlock::Thinking {
            text: fields.take_required_string("text")?,
            signature: fields.take_optional_string("signature")?,
        },
        "redacted_thinking" => ContentBlock::RedactedThinking { data: fields.take_required_string("data")? },
        "image" => ContentBlock::Image {
            source: parse_image_source(fields.take_required_field("source")?)
                .map_err(|error| error.nest_under("source"))?,
            media_type: fields.take_optional_string("media_type")?,
            detail: fields
                .take_optional_string("detail")?
                .map(|optional_string| parse_image_detail(&optional_string))
                .transpose()?,
        },
        other => {
            return Err(InvalidField::at_path(
                "type",
                format!("must be text, image, thinking or redacted_thinking, not {:?}", clip_text(other)),
            ));
        }
    };
    fields.refuse_unread_fields()?;
    Ok(block)
}

fn parse_image_source(value: Value) -> Parsed<ImageContentSource> {
    let mut fields = UnreadFields::from_object(value)?;
    let kind = fields.take_required_string("type")?;
    let source = match kind.as_str() {
        "url" => ImageContentSource::Url { url: fields.take_required_string("url")? },
        "inline" => ImageContentSource::Inline { base64_data: fields.take_required_string("base64_data")? },
        other => {
            return Err(InvalidField::at_path(
                "type",
                format!("must be url or inline, not {:?}", clip_text(other)),
            ));
        }
    };
    fields.refuse_unread_fields()?;
    Ok(source)
}

fn parse_image_detail(text: &str) -> Parsed<ImageDetailLevel> {
    match text {
        "auto" => Ok(ImageDetailLevel::Auto),
        "low" => Ok(ImageDetailLevel::Low),
        "high" => Ok(ImageDetailLevel::High),
        other => Err(InvalidField::at_path(
            "detail",
            format!("must be auto, low or high, not {:?}", clip_text(other)),
        )),
    }
}

fn parse_list<T>(value: Value, read: fn(Value) -> Parsed<T>) -> Parsed<Vec<T>> {
    let items = match value {
        Value::Array(items) => items,
        other => return Err(InvalidField::at_path("", describe_type_mismatch("a list", &other))),
    };
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| read(item).map_err(|error| error.nest_under(&format!("[{index}]"))))
        .collect()
}

/// The fields of an object that nobody has read yet.
struct UnreadFields(Map);

impl UnreadFields {
    fn from_object(value: Value) -> Parsed<Self> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(InvalidField::at_path("", describe_type_mismatch("an object", &other))),
        }
    }

    /// Takes a field; null is the same as absent.
    fn take_field(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|it| !it.is_null())
    }

    fn take_required_field(&mut self, name: &str) -> Parsed<Value> {
        self.take_field(name).ok_or_else(|| InvalidField::at_path(name, "is required"))
    }

    fn take_required_string(&mut self, name: &str) -> Parsed<String> {
        self.take_optional_string(name)?.ok_or_else(|| InvalidField::at_path(name, "is required"))
    }

    fn take_optional_string(&mut self, name: &str) -> Parsed<Option<String>> {
        match self.take_field(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(InvalidField::at_path(name, describe_type_mismatch("a string", &other))),
        }
    }

    fn refuse_unread_fields(self) -> Parsed<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(InvalidField::at_path(clip_text(name), "is not a known field")),
        }
    }
}

fn describe_type_mismatch(what: &str, found: &Value) -> String {
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
fn clip_text(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let mut clipped: String = text.chars().take(CHARS_MAX).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
