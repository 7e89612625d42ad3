//! The report of a harness to its transport about a turn (harness §5).

use serde_json::{Map, Value};
use singletree_durable::{InvocationId, SessionId};
use singletree_engine::{CompletedRun, StateUpdate, SuspendedRun};
use singletree_session::DispatchPath;

use super::failure::TurnFailure;

/// How the engine was called, with exactly the values that were passed (harness §3).
#[derive(Debug, Clone, PartialEq)]
pub enum EngineInvocation {
    /// From the entry (§3.0, §3.1, §3.2).
    Start {
        /// The fields that the state builder made.
        initial: StateUpdate,
        /// The session; none in stateless mode.
        session: Option<SessionId>,
        /// Whether the harness named the session, because the caller did not (§3.1).
        assigned: bool,
    },
    /// After a suspension (§3.3). No session is passed: the engine takes it from the paused record.
    Resume {
        /// The resumed invocation.
        invocation: InvocationId,
        /// The payload of the signal.
        payload: Map<String, Value>,
    },
}

/// How a turn ended (harness §5).
#[derive(Debug)]
pub enum HarnessOutcome<S> {
    /// The graph reached its end (§5.1).
    Completed(CompletedRun<S>),
    /// A node suspended, and its signal is subscribed to: this is the acknowledgement (§5.3).
    Suspended(SuspendedRun<S>),
    /// It failed, or never began (§5.2).
    Errored(TurnFailure),
}

impl<S> HarnessOutcome<S> {
    /// Returns the specification's word for the variant.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Suspended(_) => "suspended",
            Self::Errored(_) => "errored",
        }
    }
}

/// The result of a transmission.
#[derive(Debug)]
pub struct TurnReport<S> {
    /// Which way it took; none when it could not be classified (§10).
    pub path: Option<DispatchPath>,
    /// How the engine was called; none when it was not.
    pub invoked: Option<EngineInvocation>,
    /// How the turn ended.
    pub outcome: HarnessOutcome<S>,
}
