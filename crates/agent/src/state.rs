//! The state of an agent: the conversation, its current agent, and the decisions about the calls of its last message.

use serde::{Deserialize, Serialize};
use singletree_engine::JsonField;
use singletree_harness::Messages;
use singletree_llm::ChatMessage;
use singletree_macros::State;

use crate::command::CommandActions;
use crate::summary::ConversationSummary;

/// The state of the agent loop.
///
/// The session keeps `messages`; with several agents also `agent`, with compaction also `summary`. The other fields
/// live as long as an invocation. Decisions are cleared with each answer of the model: no approval outlives the message
/// that it was given for.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub struct AgentState {
    /// The conversation.
    #[state(append)]
    pub messages: Messages,
    /// The answer to the pending approval, set by the payload of the answer.
    pub approved: Option<bool>,
    /// The reason, in the words of the person who answered; the payload of an answer may set it.
    pub reason: Option<String>,
    /// The calls that wait for a person, and the answers that were given.
    pub decisions: JsonField<CallDecisions>,
    /// How many answers of the model there are in this invocation: the next one's ordinal (D7).
    pub answers: u64,
    /// Distinguishes this run of the loop from others of the same invocation, where the loop is a subgraph.
    pub scope: Option<String>,
    /// The id of the agent that the conversation belongs to; none is the first one's.
    pub agent: Option<String>,
    /// The command that the turn carries out, in sessions of commands: set by the chat when the turn begins, and kept
    /// with it, also while it waits for a person.
    pub current_command: Option<String>,
    /// The actions for the command so far, in sessions of commands.
    pub actions: JsonField<CommandActions>,
    /// The summary of the beginning of the conversation, once there is one (D27).
    pub summary: JsonField<Option<ConversationSummary>>,
}

impl AgentStateUpdate {
    /// Adds a message to the conversation after others that the turn has taken.
    pub(crate) fn append_messages(self, taken: Vec<ChatMessage>, message: ChatMessage) -> Self {
        self.messages(taken.into_iter().chain([message]))
    }
}

/// The decisions about the calls of one assistant message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallDecisions {
    /// The position of the message in the history.
    pub message: u64,
    /// The indexes of the calls that a person has to decide about, as the policy said when the model made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<u64>,
    /// The decisions, in call order.
    pub calls: Vec<CallDecision>,
    /// The argument texts of this message's calls that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadCall>,
    /// How many answers of the model in a row have needed a repair, with this one (D30).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repairs: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The argument text of a call that is no JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadCall {
    /// The index of the call in its message.
    pub call: u64,
    /// The text, cut to length.
    pub text: String,
}

/// The decision about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallDecision {
    /// The index of the call in its message.
    pub call: u64,
    /// Whether it may run.
    pub approved: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CallDecisions {
    /// Holds these calls of the message at this position back, until somebody decides.
    pub(crate) fn with_held_calls(message: u64, held: Vec<u64>) -> Self {
        Self { message, held, ..Self::default() }
    }

    /// Returns the argument text of a call of the message at this position, if it could not be read.
    pub(crate) fn find_unread_text(&self, message: u64, call: u64) -> Option<&str> {
        let unread = self.unread.iter().filter(|_| self.message == message);
        unread.into_iter().find(|unread| unread.call == call).map(|unread| unread.text.as_str())
    }

    /// Returns the decision about a call of the message at this position. Decisions about another message do not count.
    #[must_use]
    pub fn find_decision(&self, message: u64, call: u64) -> Option<&CallDecision> {
        self.calls.iter().find(|it| self.message == message && it.call == call)
    }

    /// Returns the next call of the message at this position that is held back and not decided about.
    #[must_use]
    pub(crate) fn find_undecided_call(&self, message: u64) -> Option<u64> {
        let held = self.held.iter().filter(|_| self.message == message);
        held.copied().find(|call| self.find_decision(message, *call).is_none())
    }

    /// Returns which of the calls of the message that are held back a call is, from 1, and how many these are.
    pub(crate) fn place_among_held(&self, message: u64, call: u64) -> Option<(u64, u64)> {
        let at = self.held.iter().filter(|_| self.message == message).position(|held| *held == call)?;
        Some((at as u64 + 1, self.held.len() as u64))
    }

    /// Adds a decision about a call of the message.
    #[must_use]
    pub(crate) fn with_decision(&self, decision: CallDecision) -> Self {
        let mut decisions = self.clone();
        decisions.calls.push(decision);
        decisions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(call: u64) -> CallDecision {
        CallDecision { call, approved: true, reason: None }
    }

    #[test]
    fn a_decision_counts_for_its_own_call_of_its_own_message() {
        let held = CallDecisions::with_held_calls(3, vec![0, 2]);
        assert_eq!([held.find_undecided_call(3), held.find_undecided_call(5)], [Some(0), None]);
        let first = held.with_decision(decision(0));
        assert_eq!(first.find_decision(3, 0), Some(&decision(0)));
        assert_eq!([first.find_decision(3, 1), first.find_decision(5, 0)], [None, None]);
        assert_eq!(
            [first.place_among_held(3, 2), first.place_among_held(3, 1), first.place_among_held(5, 2)],
            [Some((2, 2)), None, None]
        );
        assert_eq!(first.find_undecided_call(3), Some(2));
        assert_eq!(first.with_decision(decision(2)).find_undecided_call(3), None);
    }
}
