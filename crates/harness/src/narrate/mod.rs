//! The controller's narration of events: a pure function of the event and the language (agent-chat-output §5.1).
//!
//! Only recorded events are narrated: narration is made of the durable event, after the commit. Provisional events
//! (deltas, tool activity) are not narrated.

mod catalogue;

use serde_json::Value;
use singletree_llm::{ChatMessage, Role};
use singletree_narration::{Locale, NarrationPurpose, NarrationSpeaker};

use crate::event::ChatEventKind;
use crate::outcome::{ChatTurnOutcome, ErroredTurn, SuspendedTurn};
use crate::reply::truncate_text;
use catalogue::Sentence;

/// How many bytes of a text that somebody else wrote are told.
pub(crate) const QUOTED_BYTES: usize = 2_000;
/// How many bytes of a name.
const NAME_BYTES: usize = 200;

/// A piece of narration without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NarrationPiece {
    pub(crate) role: NarrationSpeaker,
    pub(crate) kind: NarrationPurpose,
    pub(crate) content: String,
}

impl NarrationPiece {
    fn from_system(kind: NarrationPurpose, content: String) -> Self {
        Self { role: NarrationSpeaker::System, kind, content }
    }
}

/// Returns the narration of an event, if it has any.
pub(crate) fn compose_narration(what: &ChatEventKind, locale: Locale) -> Option<NarrationPiece> {
    let say = |kind, sentence: Sentence, values: &[(&str, &str)]| {
        let values: Vec<(&str, String)> =
            values.iter().map(|(name, value)| (*name, truncate_text(value, NAME_BYTES))).collect();
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(NarrationPiece::from_system(kind, sentence.fill_template(locale, &values)))
    };
    match what {
        ChatEventKind::TurnAccepted { message } => message.as_deref().and_then(echo_user_text),
        ChatEventKind::MessageAppended { message, side, .. } => match message.role {
            Role::Assistant => {
                narrate_calls(message, locale).or_else(|| narrate_summary(side.as_ref()?, locale))
            }
            Role::Tool => narrate_result(side.as_ref()?, locale),
            Role::System | Role::User => None,
        },
        ChatEventKind::TurnSuspended { outcome } => match outcome.as_ref() {
            ChatTurnOutcome::Suspended(it) => Some(narrate_suspension(it, locale)),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
        },
        ChatEventKind::SignalReceived { signal, how, .. } => {
            let (kind, sentence) = match *how {
                "expired" => (NarrationPurpose::Explanation, Sentence::Expired),
                "cancelled" => (NarrationPurpose::Explanation, Sentence::GivenUp),
                "refused" => (NarrationPurpose::Explanation, Sentence::Unfit),
                _ => (NarrationPurpose::Status, Sentence::Answered),
            };
            say(kind, sentence, &[("signal", signal)])
        }
        ChatEventKind::TurnCompleted { .. } => say(NarrationPurpose::Status, Sentence::Done, &[]),
        ChatEventKind::TurnErrored { outcome } => match outcome.as_ref() {
            ChatTurnOutcome::Errored(it) => Some(narrate_failure(it, locale)),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
        },
        ChatEventKind::SessionForked { parent, .. } => {
            say(NarrationPurpose::Status, Sentence::Continues, &[("session", parent.as_str())])
        }
        ChatEventKind::TurnStarted
        | ChatEventKind::TurnRestarted
        | ChatEventKind::TurnRetrying { .. }
        | ChatEventKind::ThinkingDelta { .. }
        | ChatEventKind::Delta { .. }
        | ChatEventKind::ToolStarted { .. }
        | ChatEventKind::ToolFinished { .. } => None,
    }
}

/// Repeats the user's text. This is a copy; the message remains the original.
fn echo_user_text(message: &ChatMessage) -> Option<NarrationPiece> {
    let text = message.text();
    let content = truncate_text(text.trim(), QUOTED_BYTES);
    let said = NarrationPiece { role: NarrationSpeaker::User, kind: NarrationPurpose::Status, content };
    (message.role == Role::User && !said.content.is_empty()).then_some(said)
}

/// Names the tools that the agent has asked for: not the reason, which is the agent's to give, and not the results.
fn narrate_calls(message: &ChatMessage, locale: Locale) -> Option<NarrationPiece> {
    let names: Vec<String> =
        message.tool_calls.iter().map(|tool_call| truncate_text(&tool_call.name, NAME_BYTES)).collect();
    let tools = truncate_text(&names.join(", "), QUOTED_BYTES);
    let said = || {
        NarrationPiece::from_system(
            NarrationPurpose::Progress,
            Sentence::Calls.fill_template(locale, &[("tools", &tools)]),
        )
    };
    (!names.is_empty()).then(said)
}

/// Tells why a call was not made, or that its tool has failed, where the message's side record says so.
fn narrate_result(side: &Value, locale: Locale) -> Option<NarrationPiece> {
    if let Some(reason) = side.get("denied").and_then(Value::as_str) {
        let reason = truncate_text(reason, QUOTED_BYTES);
        let content = Sentence::NotDone.fill_template(locale, &[("reason", &reason)]);
        return Some(NarrationPiece::from_system(NarrationPurpose::Explanation, content));
    }
    let failed = side.get("success") == Some(&Value::Bool(false));
    failed.then(|| {
        NarrationPiece::from_system(
            NarrationPurpose::Progress,
            Sentence::ToolFailed.fill_template(locale, &[]),
        )
    })
}

/// Tells that the beginning of the conversation was summarised before this message (D27).
fn narrate_summary(side: &Value, locale: Locale) -> Option<NarrationPiece> {
    let summary = side.get("summary")?;
    if let Some(category) = summary.get("failed").and_then(Value::as_str) {
        let content = Sentence::NotSummarised
            .fill_template(locale, &[("category", &truncate_text(category, NAME_BYTES))]);
        return Some(NarrationPiece::from_system(NarrationPurpose::Explanation, content));
    }
    let (from, to) = (summary.get("from")?.as_u64()?, summary.get("to")?.as_u64()?);
    let (from, to) = (from.to_string(), to.saturating_sub(1).to_string());
    let content = Sentence::Summarised.fill_template(locale, &[("from", &from), ("to", &to)]);
    Some(NarrationPiece::from_system(NarrationPurpose::Status, content))
}

/// Asks for an approval, or names the awaited signal. The exact action is in the wait; this is only the question's
/// text.
fn narrate_suspension(turn: &SuspendedTurn, locale: Locale) -> NarrationPiece {
    let signal = truncate_text(&turn.signal_descriptor.signal_id, NAME_BYTES);
    if turn.wait.action.is_none() {
        return NarrationPiece::from_system(
            NarrationPurpose::Status,
            Sentence::Awaits.fill_template(locale, &[("signal", &signal)]),
        );
    }
    let metadata = turn.signal_descriptor.metadata.as_ref();
    let tool = metadata.and_then(|metadata| metadata.get("tool")).and_then(Value::as_str);
    let content = match tool {
        Some(tool) => {
            let tool = truncate_text(tool, NAME_BYTES);
            Sentence::ApproveCall.fill_template(locale, &[("tool", &tool), ("signal", &signal)])
        }
        None => Sentence::ApproveAction.fill_template(locale, &[("signal", &signal)]),
    };
    NarrationPiece::from_system(NarrationPurpose::Ask, content)
}

/// Tells why a turn failed, in the words that its outcome has: the operator's, in whatever language those are. One that
/// somebody stopped has not failed.
fn narrate_failure(turn: &ErroredTurn, locale: Locale) -> NarrationPiece {
    if turn.error_category == "chat_turn_cancelled" {
        return NarrationPiece::from_system(
            NarrationPurpose::Explanation,
            Sentence::Stopped.fill_template(locale, &[]),
        );
    }
    NarrationPiece::from_system(NarrationPurpose::Error, turn.reply.text().into_owned())
}

#[cfg(test)]
mod tests;
