//! Events of a server as the chat in this process has them, so that one view shows both.

use std::io;
use std::sync::Arc;

use singletree::durable::{SessionId, Timestamp};
use singletree::harness::MessageId;
use singletree::{ChatEvent, ChatEventKind, ChatMessage, TurnId};
use singletree_client::Error as ClientError;
use singletree_protocol::native::{Event, EventKind, Message, Side, SignalEnd, Time};

use crate::error::{Error, Result};

/// Reads an event that does not end its turn.
///
/// # Errors
/// `client_answer_invalid` where the event has ids or times that are none, or ends its turn.
pub(super) fn convert_event(event: &Event) -> Result<ChatEvent> {
    Ok(ChatEvent {
        id: event.id.as_deref().map(str::parse).transpose().map_err(invalid_event_error)?,
        session: SessionId::parse(&event.session).map_err(invalid_event_error)?,
        turn: event.turn.parse::<TurnId>().map_err(invalid_event_error)?,
        at: parse_time(&event.at)?,
        what: convert_event_kind(&event.what)?,
    })
}

fn convert_event_kind(kind: &EventKind) -> Result<ChatEventKind> {
    Ok(match kind.clone() {
        EventKind::TurnAccepted { message } => ChatEventKind::TurnAccepted {
            message: message.as_ref().map(convert_message).transpose()?.map(Arc::new),
        },
        EventKind::TurnStarted {} => ChatEventKind::TurnStarted,
        EventKind::TurnRestarted {} => ChatEventKind::TurnRestarted,
        EventKind::TurnRetrying { attempt, until, category } => {
            ChatEventKind::TurnRetrying { attempt, until: parse_time(&until)?, category }
        }
        EventKind::ThinkingDelta { message_id, run, n, text, so_far } => {
            ChatEventKind::ThinkingDelta { id: parse_message_id(&message_id)?, run, n, text, so_far }
        }
        EventKind::MessageTaken { message_id, message, side } => ChatEventKind::MessageTaken {
            id: parse_message_id(&message_id)?,
            message: Arc::new(convert_message(&message)?),
            side: serde_json::to_value(side).map_err(io::Error::other)?,
        },
        EventKind::MessageAppended { message_id, message, side } => ChatEventKind::MessageAppended {
            id: parse_message_id(&message_id)?,
            message: Arc::new(convert_message(&message)?),
            side: convert_side_record(side)?,
        },
        EventKind::Delta { message_id, run, n, text, so_far, side } => ChatEventKind::Delta {
            id: parse_message_id(&message_id)?,
            run,
            n,
            text,
            so_far,
            side: convert_side_record(side)?,
            unrecorded: 0,
        },
        EventKind::ToolStarted { call, name, arguments } => {
            ChatEventKind::ToolStarted { call, name, arguments }
        }
        EventKind::ToolFinished { call, name, success, content } => {
            ChatEventKind::ToolFinished { call, name, success, content }
        }
        EventKind::SignalReceived { wait, signal, how, from } => {
            ChatEventKind::SignalReceived { wait, signal, how: signal_end_name(how), from }
        }
        EventKind::SessionForked { parent, offset } => ChatEventKind::SessionForked {
            parent: SessionId::parse(&parent).map_err(invalid_event_error)?,
            offset,
        },
        EventKind::TurnSuspended { .. } | EventKind::TurnCompleted { .. } | EventKind::TurnErrored { .. } => {
            return Err(invalid_event_error("an end of a turn that is none"));
        }
    })
}

fn signal_end_name(how: SignalEnd) -> &'static str {
    match how {
        SignalEnd::Consumed => "consumed",
        SignalEnd::Expired => "expired",
        SignalEnd::Cancelled => "cancelled",
        SignalEnd::Refused => "refused",
    }
}

/// Reads a message.
pub(super) fn convert_message(message: &Message) -> Result<ChatMessage> {
    let shown = serde_json::to_value(message).map_err(io::Error::other)?;
    Ok(ChatMessage::from_json(shown).map_err(io::Error::other)?)
}

pub(super) fn convert_side_record(side: Option<Side>) -> Result<Option<serde_json::Value>> {
    Ok(side.map(serde_json::to_value).transpose().map_err(io::Error::other)?)
}

fn parse_message_id(text: &str) -> Result<MessageId> {
    let (turn, k) =
        text.rsplit_once('/').ok_or_else(|| invalid_event_error("a message id without a place"))?;
    Ok(MessageId {
        turn: turn.parse().map_err(invalid_event_error)?,
        k: k.parse().map_err(invalid_event_error)?,
    })
}

/// Reads a time.
pub(super) fn parse_time(time: &Time) -> Result<Timestamp> {
    let time = humantime::parse_rfc3339(&time.0).map_err(invalid_event_error)?;
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::from_millis(0).saturating_add(since))
}

fn invalid_event_error(problem: impl std::fmt::Display) -> Error {
    ClientError::Answer { what: format!("an event of the stream: {problem}") }.into()
}
