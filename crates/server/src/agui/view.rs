//! The transcript as an AG-UI client has it.

use serde_json::Value;
use singletree_harness::{TranscriptEntry, TurnId};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, Role};
use singletree_protocol::agui::{Content, FunctionCall, FunctionType, Message, Part, PartSource, ToolCall};

use crate::fold::agent_from_side;

/// The key, in the side record of a message, of the id that the client gave to the message (D17).
pub(super) const CLIENT_ID: &str = "client_id";

/// Returns the id that a client gave to its message, if it gave one.
pub(super) fn client_message_id(side: Option<&Value>) -> Option<&str> {
    side?.get(CLIENT_ID)?.as_str()
}

/// Returns the id of a turn's first message: the client's own, if it gave one.
pub(super) fn first_message_id(side: Option<&Value>, turn: &TurnId) -> String {
    client_message_id(side).map_or_else(|| format!("{turn}/0"), str::to_owned)
}

/// Returns a message of the transcript; `None` for a system message, which is for models only.
pub(super) fn convert_entry(entry: &TranscriptEntry) -> Option<Message> {
    let side = entry.side.as_ref();
    let theirs = client_message_id(side).filter(|_| entry.message.role == Role::User).map(str::to_owned);
    let id = theirs.or_else(|| entry.id.as_ref().map(ToString::to_string));
    convert_message(id.unwrap_or_else(|| format!("seq_{}", entry.seq)), &entry.message, agent_from_side(side))
}

/// Returns a message under an id, without the thinking of the model (D19).
pub(super) fn convert_message(id: String, message: &ChatMessage, agent: Option<&str>) -> Option<Message> {
    match message.role {
        Role::System => None,
        Role::User => Some(Message::User { id, content: convert_user_content(message) }),
        Role::Assistant => {
            let text = message.text().into_owned();
            let tool_calls: Vec<_> = message.tool_calls.iter().map(convert_tool_call).collect();
            let name = agent.filter(|_| !text.is_empty()).map(str::to_owned);
            let content = (!text.is_empty() || tool_calls.is_empty()).then_some(text);
            Some(Message::Assistant { id, name, content, tool_calls })
        }
        Role::Tool => {
            let tool_call_id = message.tool_call_id.clone().unwrap_or_default();
            Some(Message::Tool { id, tool_call_id, content: message.text().into_owned() })
        }
    }
}

/// Returns the content of a user's message.
pub(super) fn convert_user_content(message: &ChatMessage) -> Content {
    let pictures = message.content.blocks().iter().any(|block| matches!(block, ContentBlock::Image { .. }));
    if !pictures {
        return Content::Text(message.text().into_owned());
    }
    Content::Parts(message.content.blocks().iter().filter_map(convert_block).collect())
}

fn convert_block(block: &ContentBlock) -> Option<Part> {
    match block {
        ContentBlock::Text { text, .. } => Some(Part::text(text)),
        ContentBlock::Image { source, media_type, .. } => Some(Part::image(match source {
            ImageContentSource::Url { url } => {
                PartSource::Url { value: url.clone(), mime_type: media_type.clone() }
            }
            ImageContentSource::Inline { base64_data } => {
                let mime_type = media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
                PartSource::Data { value: base64_data.clone(), mime_type }
            }
        })),
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => None,
    }
}

fn convert_tool_call(call: &singletree_llm::ToolCall) -> ToolCall {
    let arguments = Value::Object(call.arguments.clone().unwrap_or_default()).to_string();
    let function = FunctionCall { name: call.name.clone(), arguments };
    ToolCall { id: call.id.clone(), kind: FunctionType::Function, function }
}
