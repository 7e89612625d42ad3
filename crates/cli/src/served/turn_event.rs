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
pub(super) fn read(event: &Event) -> Result<ChatEvent> {
    Ok(ChatEvent {
        id: event.id.as_deref().map(str::parse).transpose().map_err(strange)?,
        session: SessionId::parse(&event.session).map_err(strange)?,
        turn: event.turn.parse::<TurnId>().map_err(strange)?,
        at: time(&event.at)?,
        what: kind(&event.what)?,
    })
}

fn kind(kind: &EventKind) -> Result<ChatEventKind> {
    Ok(match kind.clone() {
        EventKind::TurnAccepted { message } => ChatEventKind::TurnAccepted {
            message: message.as_ref().map(chat_message).transpose()?.map(Arc::new),
        },
        EventKind::TurnStarted {} => ChatEventKind::TurnStarted,
        EventKind::TurnRestarted {} => ChatEventKind::TurnRestarted,
        EventKind::TurnRetrying { attempt, until, category } => {
            ChatEventKind::TurnRetrying { attempt, until: time(&until)?, category }
        }
        EventKind::ThinkingDelta { message_id, run, n, text, so_far } => {
            ChatEventKind::ThinkingDelta { id: message_name(&message_id)?, run, n, text, so_far }
        }
        EventKind::MessageAppended { message_id, message, side } => ChatEventKind::MessageAppended {
            id: message_name(&message_id)?,
            message: Arc::new(chat_message(&message)?),
            side: side_record(side)?,
        },
        EventKind::Delta { message_id, run, n, text, so_far, side } => ChatEventKind::Delta {
            id: message_name(&message_id)?,
            run,
            n,
            text,
            so_far,
            side: side_record(side)?,
            unrecorded: 0,
        },
        EventKind::ToolStarted { call, name, arguments } => {
            ChatEventKind::ToolStarted { call, name, arguments }
        }
        EventKind::ToolFinished { call, name, success, content } => {
            ChatEventKind::ToolFinished { call, name, success, content }
        }
        EventKind::SignalReceived { wait, signal, how, from } => {
            ChatEventKind::SignalReceived { wait, signal, how: how_ended(how), from }
        }
        EventKind::SessionForked { parent, offset } => {
            ChatEventKind::SessionForked { parent: SessionId::parse(&parent).map_err(strange)?, offset }
        }
        EventKind::TurnSuspended { .. } | EventKind::TurnCompleted { .. } | EventKind::TurnErrored { .. } => {
            return Err(strange("an end of a turn that is none"));
        }
    })
}

fn how_ended(how: SignalEnd) -> &'static str {
    match how {
        SignalEnd::Consumed => "consumed",
        SignalEnd::Expired => "expired",
        SignalEnd::Cancelled => "cancelled",
        SignalEnd::Refused => "refused",
    }
}

/// Reads a message.
pub(super) fn chat_message(message: &Message) -> Result<ChatMessage> {
    let shown = serde_json::to_value(message).map_err(io::Error::other)?;
    Ok(ChatMessage::from_json(shown).map_err(io::Error::other)?)
}

pub(super) fn side_record(side: Option<Side>) -> Result<Option<serde_json::Value>> {
    Ok(side.map(serde_json::to_value).transpose().map_err(io::Error::other)?)
}

fn message_name(text: &str) -> Result<MessageId> {
    let (turn, k) = text.rsplit_once('/').ok_or_else(|| strange("a message id without a place"))?;
    Ok(MessageId { turn: turn.parse().map_err(strange)?, k: k.parse().map_err(strange)? })
}

/// Reads a time.
pub(super) fn time(time: &Time) -> Result<Timestamp> {
    let time = humantime::parse_rfc3339(&time.0).map_err(strange)?;
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::from_millis(0).after(since))
}

fn strange(problem: impl std::fmt::Display) -> Error {
    ClientError::Answer { what: format!("an event of the stream: {problem}") }.into()
}
