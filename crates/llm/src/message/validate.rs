//! The rules of each role (spec: llm-provider §3).

use std::collections::BTreeSet;

use super::{ChatMessage, Role};
use crate::content::{ContentBlock, ImageContentSource, MessageContent};
use crate::fault::InvalidField;

type Checked = Result<(), InvalidField>;

/// Checks one message.
pub(super) fn validate_message(message: &ChatMessage) -> Checked {
    match message.role {
        Role::System => validate_system_message(message)?,
        Role::User => validate_user_message(message)?,
        Role::Assistant => validate_assistant_message(message)?,
        Role::Tool => validate_tool_message(message)?,
    }
    if message.role != Role::Assistant && !message.tool_calls.is_empty() {
        let problem = format!("must be absent on a {} message", message.role);
        return Err(InvalidField::at_path("tool_calls", problem));
    }
    if message.role != Role::Tool && message.tool_call_id.is_some() {
        let problem = format!("must be absent on a {} message", message.role);
        return Err(InvalidField::at_path("tool_call_id", problem));
    }
    Ok(())
}

fn validate_system_message(message: &ChatMessage) -> Checked {
    match &message.content {
        MessageContent::Text(text) if text.is_empty() => {
            Err(InvalidField::at_path("content", "must not be empty on a system message"))
        }
        MessageContent::Text(_) => Ok(()),
        MessageContent::Blocks(_) => {
            Err(InvalidField::at_path("content", "must be a string on a system message"))
        }
    }
}

fn validate_user_message(message: &ChatMessage) -> Checked {
    if message.content.is_empty() {
        return Err(InvalidField::at_path("content", "must not be empty on a user message"));
    }
    validate_blocks(message.content.blocks(), |block| match block {
        ContentBlock::Text { .. } | ContentBlock::Image { .. } => true,
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => false,
    })
    .map_err(|error| error.nest_under("content"))
}

fn validate_assistant_message(message: &ChatMessage) -> Checked {
    if message.content.is_empty() && message.tool_calls.is_empty() {
        return Err(InvalidField::at_path(
            "content",
            "must not be empty on an assistant message without tool calls",
        ));
    }
    validate_blocks(message.content.blocks(), |block| match block {
        ContentBlock::Text { .. } | ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {
            true
        }
        ContentBlock::Image { .. } => false,
    })
    .map_err(|error| error.nest_under("content"))?;
    let mut ids = BTreeSet::new();
    for (index, call) in message.tool_calls.iter().enumerate() {
        let fault = |field: &str, problem: String| {
            Err(InvalidField::at_path(format!("tool_calls[{index}].{field}"), problem))
        };
        if call.id.is_empty() {
            return fault("id", "must not be empty".to_owned());
        }
        if call.name.is_empty() {
            return fault("name", "must not be empty".to_owned());
        }
        if !ids.insert(call.id.as_str()) {
            return fault("id", format!("{:?} is used twice in one message", call.id));
        }
    }
    Ok(())
}

fn validate_tool_message(message: &ChatMessage) -> Checked {
    if let MessageContent::Blocks(_) = message.content {
        return Err(InvalidField::at_path("content", "must be a string on a tool message"));
    }
    match &message.tool_call_id {
        Some(id) if !id.is_empty() => Ok(()),
        Some(_) => Err(InvalidField::at_path("tool_call_id", "must not be empty")),
        None => Err(InvalidField::at_path("tool_call_id", "is required on a tool message")),
    }
}

fn validate_blocks(blocks: &[ContentBlock], allowed: fn(&ContentBlock) -> bool) -> Checked {
    for (index, it) in blocks.iter().enumerate() {
        let place = || format!("[{index}]");
        if !allowed(it) {
            let problem = format!("a {} block is not allowed here", it.wire_type_name());
            return Err(InvalidField::at_path(place(), problem));
        }
        validate_block(it).map_err(|fault| fault.nest_under(&place()))?;
    }
    Ok(())
}

fn validate_block(block: &ContentBlock) -> Checked {
    match block {
        ContentBlock::Text { text, .. } | ContentBlock::Thinking { text, .. } => {
            require_non_empty("text", text)
        }
        ContentBlock::RedactedThinking { data } => require_non_empty("data", data),
        ContentBlock::Image { source: ImageContentSource::Url { url }, .. } => {
            require_non_empty("source.url", url)
        }
        ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, .. } => {
            require_non_empty("source.base64_data", base64_data)?;
            match media_type {
                Some(media_type) => validate_image_type(media_type),
                None => Err(InvalidField::at_path("media_type", "is required for an inline image")),
            }
        }
    }
}

fn validate_image_type(media_type: &str) -> Checked {
    match media_type.strip_prefix("image/") {
        Some(kind) if !kind.is_empty() => Ok(()),
        Some(_) | None => Err(InvalidField::at_path("media_type", "must be an image type, as image/png")),
    }
}

fn require_non_empty(field: &str, text: &str) -> Checked {
    if text.is_empty() { Err(InvalidField::at_path(field, "must not be empty")) } else { Ok(()) }
}
