//! What observers see (graph-engine §6).

use std::sync::Arc;

use singletree_durable::{InvocationId, Timestamp};

use super::outcome::Identity;
use super::signal::Descriptor;
use crate::plan::snapshot::Snapshot;

/// When in an attempt an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Right before the body runs.
    Started,
    /// After merge and edge, or after the failure.
    Completed,
    /// In place of completed, when the node suspended.
    Suspended,
}

impl Phase {
    /// Returns the specification's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Suspended => "suspended",
        }
    }
}

/// How an attempt ended, on events of the phase completed.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEnd {
    /// The state after the merge.
    Merged(Snapshot),
    /// The failure.
    Failed(EventError),
}

/// A failure, as events carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventError {
    /// The category of graph-engine §4.
    pub category: &'static str,
    /// The category of the cause, when it has one of its own.
    pub derived_category: String,
    /// What happened.
    pub message: String,
}

/// One event of one attempt of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEvent {
    /// Who the invocation is. Its session id is ambient, no field of the event in the specification's sense.
    pub identity: Arc<Identity>,
    /// When it happened.
    pub at: Timestamp,
    /// When in the attempt.
    pub phase: Phase,
    /// The node's name in its own graph.
    pub node_name: Arc<str>,
    /// The path to the node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The number of the node execution in the invocation.
    pub step: u64,
    /// The state that the node received.
    pub pre_state: Snapshot,
    /// How the attempt ended, on completed events.
    pub end: Option<AttemptEnd>,
    /// What is awaited, on suspended events.
    pub descriptor: Option<Descriptor>,
    /// The state of each containing graph when it was entered, outermost first; one less than the namespace.
    pub parent_states: Arc<[Snapshot]>,
    /// The attempt, from 0.
    pub attempt_index: u32,
}

impl NodeEvent {
    /// Returns the state after the merge, when the attempt succeeded.
    #[must_use]
    pub fn post_state(&self) -> Option<&Snapshot> {
        match &self.end {
            Some(AttemptEnd::Merged(state)) => Some(state),
            Some(AttemptEnd::Failed(_)) | None => None,
        }
    }

    /// Returns the failure, when the attempt failed.
    #[must_use]
    pub fn error(&self) -> Option<&EventError> {
        match &self.end {
            Some(AttemptEnd::Failed(error)) => Some(error),
            Some(AttemptEnd::Merged(_)) | None => None,
        }
    }
}

/// Everything that observers see.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A node's attempt starts or ends.
    Node(NodeEvent),
}

impl Event {
    /// Returns the invocation that the event is of.
    #[must_use]
    pub fn invocation_id(&self) -> &InvocationId {
        match self {
            Self::Node(event) => &event.identity.invocation_id,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Node(event) => event.phase,
        }
    }
}
