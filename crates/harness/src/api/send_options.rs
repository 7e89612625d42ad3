//! The options of a send.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_engine::TraceHeaders;
use singletree_session::{TurnId, TurnPromptPolicy};

/// The options of a send, beside its message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendOptions {
    pub(crate) key: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) policy: Option<TurnPromptPolicy>,
    pub(crate) listen: bool,
    /// Whether the turn that runs may take it.
    pub(crate) steers: bool,
    pub(crate) notes: Map<String, Value>,
    /// The turn that is retried: part of the key's digest.
    pub(crate) retries: Option<String>,
    pub(crate) trace: Option<Arc<TraceHeaders>>,
}

impl SendOptions {
    /// Makes options that say nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an idempotency key (D3): the same turn for the same message, `chat_idempotency_conflict` for another one.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Listens from before the turn begins: [`Turn::events`](crate::Turn::events) then has all deltas and tool activity.
    #[must_use]
    pub fn listen(mut self) -> Self {
        self.listen = true;
        self
    }

    /// Sets the trace in which the message is sent (W3C Trace Context); that in which the caller works otherwise
    /// ([`TraceHeaders::current`]). It is stored with the turn: the calls of models and tools go out in it, and the turns
    /// that resume a wait belong to it, in any process. It is not part of an idempotency key's digest.
    #[must_use]
    pub fn trace(mut self, trace: TraceHeaders) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Sets a value beside the message, such as the client's id for it. It is stored in the message's side record, which
    /// [`Session::history`](crate::Session::history) and [`Turn::message`](crate::Turn::message) return, and no model sees it. It counts as bytes of
    /// the message, and is not part of an idempotency key's digest (D17).
    #[must_use]
    pub fn note(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.notes.insert(name.into(), value.into());
        self
    }

    /// Keeps the options that count for a retry of a turn: the key, and whether to listen.
    pub(crate) fn for_retry_of(self, turn: &TurnId) -> Self {
        Self {
            key: self.key,
            listen: self.listen,
            trace: self.trace,
            retries: Some(turn.to_string()),
            ..Self::default()
        }
    }

    /// Lets the turn that runs take the message.
    pub(crate) fn with_steering(mut self) -> Self {
        self.steers = true;
        self
    }

    /// Names the agent that answers, if the session is new. A session keeps its agent.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Says which texts reach the model, if the session is new; the policy of its agent otherwise
    /// ([`GraphAgent::prompt_policy`](crate::GraphAgent::prompt_policy)). A session keeps its policy.
    #[must_use]
    pub fn policy(mut self, policy: TurnPromptPolicy) -> Self {
        self.policy = Some(policy);
        self
    }
}
