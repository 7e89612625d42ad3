//! The errors of decisions about a session.

use singletree_durable as durable;

/// The result of a decision.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a decision was not made. The harness reports each of these under the same category.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent does not work under the session's prompt policy (agent-chat-output §8).
    #[error("agent '{agent}' takes no commands: {why}")]
    Policy {
        /// The agent.
        agent: String,
        /// The reason.
        why: String,
    },
    /// A message is not valid (harness-chat §3.1, §10.4).
    #[error("the message is not valid: {why}")]
    MessageShape {
        /// The reason.
        why: String,
    },
    /// A signal belongs to no suspended invocation (harness §10).
    #[error("no suspended invocation awaits this signal: {why}")]
    Correlation {
        /// The reason.
        why: String,
    },
    /// An answer does not name the wait and the action that it approves (D2).
    #[error("the answer does not match what is asked: {why}")]
    SignalMismatch {
        /// The mismatch.
        why: String,
    },
    /// The signal was sent before, with another payload (D2).
    #[error("the signal '{signal}' was answered already, with another payload")]
    SignalConflict {
        /// The signal.
        signal: String,
    },
    /// The session keeps as many early signals as it may (D2).
    #[error("the mailbox is full: {limit} is {max}")]
    MailboxFull {
        /// The limit, as it is called in [`Limits`](crate::Limits).
        limit: &'static str,
        /// Its value.
        max: usize,
    },
    /// The signal's payload does not fit (suspension §9).
    #[error("the signal's payload is not valid: {why}")]
    Payload {
        /// The reason.
        why: String,
    },
    /// The wait's deadline passed (D2).
    #[error("nobody answered '{signal}' in time")]
    SignalExpired {
        /// The signal.
        signal: String,
    },
    /// A budget is used up (D13).
    #[error("the budget {budget} of {max} is exhausted: the turn came to {reached}")]
    Budget {
        /// The budget, as it is called in [`Limits`](crate::Limits) and [`Budget`](crate::Budget).
        budget: &'static str,
        /// Its value; times are in seconds.
        max: u64,
        /// The count that exceeded it, or would have.
        reached: u64,
    },
    /// The text names no turn.
    #[error("there is no turn '{turn}'")]
    TurnUnknown {
        /// The text.
        turn: String,
    },
    /// The text names no event.
    #[error("there is no event '{event}' in this log")]
    EventUnknown {
        /// The text.
        event: String,
    },
    /// There is such a session already, where a new one was to be made.
    #[error("there is a session '{session}' already")]
    SessionExists {
        /// The session.
        session: String,
    },
    /// Stored data cannot be read, or a value cannot be stored.
    #[error("the store failed")]
    Store {
        /// The store's error.
        source: durable::Error,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Policy { .. } => "chat_policy_unsupported",
            Self::MessageShape { .. } => "chat_message_shape_invalid",
            Self::Correlation { .. } => "harness_signal_correlation_failed",
            Self::SignalMismatch { .. } => "chat_signal_mismatch",
            Self::SignalConflict { .. } => "chat_signal_conflict",
            Self::MailboxFull { .. } => "chat_mailbox_full",
            Self::Payload { .. } => "suspension_resume_payload_invalid",
            Self::SignalExpired { .. } => "chat_signal_expired",
            Self::Budget { .. } => "chat_budget_exhausted",
            Self::TurnUnknown { .. } => "chat_turn_unknown",
            Self::EventUnknown { .. } => "chat_event_unknown",
            Self::SessionExists { .. } => "chat_session_exists",
            Self::Store { source } => source.category(),
        }
    }
}

impl From<durable::Error> for Error {
    fn from(source: durable::Error) -> Self {
        Self::Store { source }
    }
}
