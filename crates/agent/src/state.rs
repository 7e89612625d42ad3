//! The state of an agent: the conversation, and what a person has decided about the calls of its last message.

use serde::{Deserialize, Serialize};
use singletree_engine::Json;
use singletree_harness::Messages;
use singletree_macros::State;

/// The state of the agent loop.
///
/// Only `messages` is kept in the session. The other fields live as long as an invocation, and are cleared with each
/// answer of the model: no approval outlives the message that it was given for.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub struct AgentState {
    /// The conversation.
    #[state(append)]
    pub messages: Messages,
    /// The answer to the approval that is asked for: what the payload of an answer sets.
    pub approved: Option<bool>,
    /// Why, in the words of whoever answered: what the payload of an answer may set.
    pub reason: Option<String>,
    /// The answers that were given.
    pub decisions: Json<Decisions>,
}

/// What was decided about the calls of one assistant message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// The position of the message in the history.
    pub message: u64,
    /// The decisions, in call order.
    pub calls: Vec<Decision>,
}

/// What was decided about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The index of the call in its message.
    pub call: u64,
    /// Whether it may run.
    pub approved: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Decisions {
    /// Returns the decision about a call of the message at this position. Decisions about another message do not count.
    #[must_use]
    pub fn about(&self, message: u64, call: u64) -> Option<&Decision> {
        self.calls.iter().find(|it| self.message == message && it.call == call)
    }

    /// Adds a decision about a call of the message at this position, and forgets those about another message.
    #[must_use]
    pub(crate) fn with(&self, message: u64, decision: Decision) -> Self {
        let mut calls = if self.message == message { self.calls.clone() } else { Vec::new() };
        calls.push(decision);
        Self { message, calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(call: u64) -> Decision {
        Decision { call, approved: true, reason: None }
    }

    #[test]
    fn a_decision_counts_for_its_own_call_of_its_own_message() {
        let first = Decisions::default().with(3, decision(0));
        assert_eq!(first.about(3, 0), Some(&decision(0)));
        assert_eq!(first.about(3, 1), None);
        assert_eq!(first.about(5, 0), None);
        let both = first.with(3, decision(2));
        assert_eq!(both.calls, [decision(0), decision(2)]);
        assert_eq!(both.with(5, decision(1)), Decisions { message: 5, calls: vec![decision(1)] });
    }
}
