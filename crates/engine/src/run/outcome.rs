//! How an invocation ends (graph-engine §3, suspension §5). Errored is `Err`.

use std::sync::Arc;

use singletree_graph::{Descriptor, Identity};

/// The end of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRun<S> {
    /// Who the invocation was.
    pub identity: Identity,
    /// The final state.
    pub state: S,
}

/// A pause (suspension §5).
#[derive(Debug, Clone, PartialEq)]
pub struct SuspendedRun<S> {
    /// Who the invocation is.
    pub identity: Identity,
    /// The state of the outermost graph at the pause.
    pub state: S,
    /// The awaited signal.
    pub descriptor: Descriptor,
    /// The node that suspended, in its own graph.
    pub node_name: Arc<str>,
    /// The path to it, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
}

impl<S> SuspendedRun<S> {
    /// Returns the node of the outermost graph that is suspended as a consequence (R15).
    #[must_use]
    pub fn outermost_node_name(&self) -> &str {
        self.namespace.first().unwrap_or(&self.node_name)
    }
}

/// How an invocation ended, unless it errored.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOutcome<S> {
    /// The graph reached its end.
    Completed(CompletedRun<S>),
    /// A node suspended.
    Suspended(SuspendedRun<S>),
}

impl<S> RunOutcome<S> {
    /// Returns who the invocation is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        match self {
            Self::Completed(it) => &it.identity,
            Self::Suspended(it) => &it.identity,
        }
    }

    /// Returns the state, final or at the pause.
    #[must_use]
    pub fn state(&self) -> &S {
        match self {
            Self::Completed(it) => &it.state,
            Self::Suspended(it) => &it.state,
        }
    }

    pub(crate) fn try_map_state<T, E>(self, map: impl FnOnce(S) -> Result<T, E>) -> Result<RunOutcome<T>, E> {
        Ok(match self {
            Self::Completed(it) => {
                RunOutcome::Completed(CompletedRun { identity: it.identity, state: map(it.state)? })
            }
            Self::Suspended(it) => RunOutcome::Suspended(SuspendedRun {
                identity: it.identity,
                state: map(it.state)?,
                descriptor: it.descriptor,
                node_name: it.node_name,
                namespace: it.namespace,
            }),
        })
    }
}
