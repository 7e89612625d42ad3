//! The controller's narration of events: a pure function of the log, the language and the verbosity
//! (agent-chat-output §5.1).
//!
//! Only recorded events are narrated: narration is made of the durable event, after the commit. Provisional events
//! (deltas, tool activity) are not narrated.

mod arguments;
mod catalogue;

use serde_json::Value;
use singletree_llm::{ChatMessage, Role};
use singletree_narration::{Locale, NarrationPurpose, NarrationSpeaker, NarrationVerbosity};
use singletree_session::{ChatEventKind, ChatTurnOutcome, ErroredTurn, SuspendedTurn};

use crate::agents::reply::truncate_text;
use crate::runtime::call_status::{CallStatus, classify_call_status};
pub use arguments::narrate_arguments;
use arguments::{abridge_text, format_arguments};
use catalogue::Sentence;

/// How many bytes of a text that somebody else wrote are told.
pub(crate) const QUOTED_BYTES: usize = 2_000;
/// How many bytes of a name.
const NAME_BYTES: usize = 200;
/// How many calls of a message are known by name when their results are narrated.
const NAMED_CALLS: usize = 64;

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

/// How the controller narrates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NarrationStyle {
    pub(crate) locale: Locale,
    pub(crate) verbosity: NarrationVerbosity,
}

/// The tools that the newest message with calls asks for, by the id of the call: the result of a call names its tool.
/// They are read from events, and are empty after a restart.
#[derive(Debug, Default)]
pub(crate) struct NarratedCalls(Vec<(String, String)>);

/// Narrates the events of a session in the order of its log.
pub(crate) struct EventNarrator<'a> {
    pub(crate) style: NarrationStyle,
    pub(crate) calls: &'a mut NarratedCalls,
    /// Takes secrets out of the arguments of calls, before they are escaped or cut (INV-16).
    pub(crate) redact: &'a dyn Fn(&str) -> String,
}

impl EventNarrator<'_> {
    /// Returns the narration of an event, if it has any.
    pub(crate) fn compose_narration(&mut self, what: &ChatEventKind) -> Option<NarrationPiece> {
        self.compose_whole_narration(what).filter(|piece| match self.style.verbosity {
            NarrationVerbosity::Quiet => {
                matches!(
                    piece.kind,
                    NarrationPurpose::Ask | NarrationPurpose::Error | NarrationPurpose::Explanation
                )
            }
            NarrationVerbosity::Normal | NarrationVerbosity::Full => true,
        })
    }

    fn compose_whole_narration(&mut self, what: &ChatEventKind) -> Option<NarrationPiece> {
        match what {
            ChatEventKind::TurnAccepted { message } => message.as_deref().and_then(echo_user_text),
            ChatEventKind::MessageAppended { message, side, .. } => match message.role {
                Role::Assistant => {
                    self.narrate_calls(message).or_else(|| narrate_summary(side.as_ref()?, self.style.locale))
                }
                Role::Tool => Some(self.narrate_result(message, side.as_ref())),
                Role::System | Role::User => None,
            },
            ChatEventKind::TurnSuspended { outcome } => match outcome.as_ref() {
                ChatTurnOutcome::Suspended(it) => Some(self.narrate_suspension(it)),
                ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => None,
            },
            ChatEventKind::SignalReceived { signal, how, .. } => {
                let (kind, sentence) = match *how {
                    "expired" => (NarrationPurpose::Explanation, Sentence::Expired),
                    "cancelled" => (NarrationPurpose::Explanation, Sentence::GivenUp),
                    "refused" => (NarrationPurpose::Explanation, Sentence::Unfit),
                    _ => (NarrationPurpose::Status, Sentence::Answered),
                };
                Some(self.say(kind, sentence, &[("signal", signal)]))
            }
            ChatEventKind::TurnCompleted { .. } => {
                Some(self.say(NarrationPurpose::Status, Sentence::Done, &[]))
            }
            ChatEventKind::TurnErrored { outcome } => match outcome.as_ref() {
                ChatTurnOutcome::Errored(it) => Some(self.narrate_failure(it)),
                ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
            },
            ChatEventKind::SessionForked { parent, .. } => {
                let values = [("session", parent.as_str())];
                Some(self.say(NarrationPurpose::Status, Sentence::Continues, &values))
            }
            ChatEventKind::TurnStarted
            | ChatEventKind::TurnRestarted
            | ChatEventKind::TurnRetrying { .. }
            | ChatEventKind::ThinkingDelta { .. }
            | ChatEventKind::MessageTaken { .. }
            | ChatEventKind::Delta { .. }
            | ChatEventKind::ToolStarted { .. }
            | ChatEventKind::ToolFinished { .. } => None,
        }
    }

    /// Says a sentence about names.
    fn say(&self, kind: NarrationPurpose, sentence: Sentence, names: &[(&str, &str)]) -> NarrationPiece {
        let names: Vec<(&str, String)> =
            names.iter().map(|(name, value)| (*name, truncate_text(value, NAME_BYTES))).collect();
        let names: Vec<(&str, &str)> = names.iter().map(|(name, value)| (*name, value.as_str())).collect();
        NarrationPiece::from_system(kind, sentence.fill_template(self.style.locale, &names))
    }

    /// Names the tools that the agent has asked for, with [`NarrationVerbosity::Full`] also the arguments: not the
    /// reason, which is the agent's to give, and not the results.
    fn narrate_calls(&mut self, message: &ChatMessage) -> Option<NarrationPiece> {
        if message.tool_calls.is_empty() {
            return None;
        }
        let named = message.tool_calls.iter().take(NAMED_CALLS);
        self.calls.0 = named.map(|call| (call.id.clone(), truncate_text(&call.name, NAME_BYTES))).collect();
        let locale = self.style.locale;
        let asked = message.tool_calls.iter().map(|call| {
            let name = truncate_text(&call.name, NAME_BYTES);
            match call.arguments.as_ref().filter(|_| self.style.verbosity == NarrationVerbosity::Full) {
                Some(arguments) => format!("{name} {}", format_arguments(arguments, self.redact)),
                None => name,
            }
        });
        let asked = asked.collect::<Vec<_>>().join(", ");
        let asked = match self.style.verbosity {
            NarrationVerbosity::Full => abridge_text(&asked, None, locale),
            NarrationVerbosity::Quiet | NarrationVerbosity::Normal => truncate_text(&asked, QUOTED_BYTES),
        };
        let content = Sentence::Calls.fill_template(locale, &[("tools", &asked)]);
        Some(NarrationPiece::from_system(NarrationPurpose::Progress, content))
    }

    /// Tells how a call ended: by its recorded result, so never before it was carried out.
    fn narrate_result(&self, message: &ChatMessage, side: Option<&Value>) -> NarrationPiece {
        let locale = self.style.locale;
        let not_done = |reason: &str| {
            let reason = truncate_text(reason, QUOTED_BYTES);
            let content = Sentence::NotDone.fill_template(locale, &[("reason", &reason)]);
            NarrationPiece::from_system(NarrationPurpose::Explanation, content)
        };
        if let Some(reason) = side.and_then(|side| side.get("denied")).and_then(Value::as_str) {
            return not_done(reason);
        }
        let id = message.tool_call_id.as_deref();
        let named = self.calls.0.iter().find(|(call, _)| Some(call.as_str()) == id);
        let tool = named.map_or(Sentence::SomeTool.select_template(locale), |(_, tool)| tool.as_str());
        let text = message.text();
        let (kind, sentence) = match classify_call_status(&text, side) {
            CallStatus::Done => (NarrationPurpose::Progress, Sentence::ToolSucceeded),
            CallStatus::Error | CallStatus::Failed => (NarrationPurpose::Progress, Sentence::ToolFailed),
            CallStatus::Unknown => (NarrationPurpose::Explanation, Sentence::ToolInDoubt),
            CallStatus::Denied | CallStatus::Cancelled => {
                let closed: Option<Value> = serde_json::from_str(&text).ok();
                let reason = closed.as_ref().and_then(|closed| closed.get("reason")).and_then(Value::as_str);
                return not_done(reason.unwrap_or_default());
            }
        };
        NarrationPiece::from_system(kind, sentence.fill_template(locale, &[("tool", tool)]))
    }

    /// Asks for an approval with the arguments that it is about, or names the awaited signal. The exact action is in
    /// the wait; this is only the question's text.
    fn narrate_suspension(&self, turn: &SuspendedTurn) -> NarrationPiece {
        let signal = turn.signal_descriptor.signal_id.as_str();
        let Some(digest) = &turn.wait.action else {
            return self.say(NarrationPurpose::Status, Sentence::Awaits, &[("signal", signal)]);
        };
        let metadata = turn.signal_descriptor.metadata.as_ref();
        let tool = metadata.and_then(|metadata| metadata.get("tool")).and_then(Value::as_str);
        let Some(tool) = tool else {
            return self.say(NarrationPurpose::Ask, Sentence::ApproveAction, &[("signal", signal)]);
        };
        let arguments = metadata.and_then(|metadata| metadata.get("arguments")).and_then(Value::as_object);
        let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) else {
            let names = [("tool", tool), ("signal", signal)];
            return self.say(NarrationPurpose::Ask, Sentence::ApproveCall, &names);
        };
        let locale = self.style.locale;
        let arguments = abridge_text(&format_arguments(arguments, self.redact), Some(digest), locale);
        let (tool, signal) = (truncate_text(tool, NAME_BYTES), truncate_text(signal, NAME_BYTES));
        let values = [("tool", tool.as_str()), ("signal", &signal), ("arguments", &arguments)];
        let content = Sentence::ApproveCallWith.fill_template(locale, &values);
        NarrationPiece::from_system(NarrationPurpose::Ask, content)
    }

    /// Tells why a turn failed, in the words that its outcome has: the operator's, in whatever language those are. One
    /// that somebody stopped has not failed.
    fn narrate_failure(&self, turn: &ErroredTurn) -> NarrationPiece {
        if turn.error_category == "chat_turn_cancelled" {
            return self.say(NarrationPurpose::Explanation, Sentence::Stopped, &[]);
        }
        NarrationPiece::from_system(NarrationPurpose::Error, turn.reply.text().into_owned())
    }
}

/// Repeats the user's text. This is a copy; the message remains the original.
fn echo_user_text(message: &ChatMessage) -> Option<NarrationPiece> {
    let text = message.text();
    let content = truncate_text(text.trim(), QUOTED_BYTES);
    let said = NarrationPiece { role: NarrationSpeaker::User, kind: NarrationPurpose::Status, content };
    (message.role == Role::User && !said.content.is_empty()).then_some(said)
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

#[cfg(test)]
mod tests;
