//! Events about the units of a run that are no nodes: the invocation itself, and inner runs.
//!
//! They are beside the events of graph-engine §6, for observers that ask for them: a trace needs to know when these
//! units begin and end.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::Timestamp;
use singletree_graph::{Descriptor, Identity, NodeLineage, Snapshot};

use super::call_event::{CallerMetadata, EventSource};
use super::event::EventError;

/// An invocation begins or ends.
#[derive(Debug, Clone, PartialEq)]
pub struct InvocationEvent {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// When it happened.
    pub at: Timestamp,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// Whether it begins, or how it ended.
    pub change: InvocationChange,
}

/// Whether an invocation begins, or how it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum InvocationChange {
    /// It begins.
    Started {
        /// The entry node of the outermost graph.
        entry_node: Arc<str>,
        /// What its caller calls it ([`InvokeOptions::label`](crate::InvokeOptions::label)).
        label: Option<Arc<str>>,
        /// Whether it goes on with a suspended or failed run.
        resumed: bool,
        /// The state that it begins with; nothing where it could not be made.
        state: Option<Snapshot>,
    },
    /// It reached its end.
    Completed(Snapshot),
    /// It waits for a signal.
    Suspended(Descriptor),
    /// It failed.
    Failed {
        /// The failure.
        error: EventError,
        /// Whether it failed at the boundary of the invocation, at no node.
        at_boundary: bool,
        /// The state at that time, as far as it can be recovered.
        state: Option<Snapshot>,
    },
}

/// An inner run begins or ends: of a plain subgraph, of an instance of a fan-out, or of a branch.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitEvent {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// When it happened.
    pub at: Timestamp,
    /// The node that contains the inner run.
    pub node_name: Arc<str>,
    /// The path to that node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The boundaries to the inner run, its own last; as many as the namespace has names.
    pub lineage: NodeLineage,
    /// The node's attempt.
    pub attempt_index: u32,
    /// How many node executions the invocation had begun at this time.
    pub step: u64,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
    /// Whether it begins, or how it ended.
    pub change: UnitChange,
}

/// Whether an inner run begins, or how it ended. A run that was dropped has no end.
#[derive(Debug, Clone, PartialEq)]
pub enum UnitChange {
    /// It begins.
    Entered {
        /// The name of its graph, if that has one ([`GraphBuilder::name`](crate::GraphBuilder::name)).
        graph_name: Option<Arc<str>>,
        /// The entry node of its graph; nothing for a branch that is a function.
        entry_node: Option<Arc<str>>,
    },
    /// It reached its end.
    Completed,
    /// It failed.
    Failed(EventError),
}

/// The caller's metadata was added to (observability §3.4).
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataEvent {
    /// Where.
    pub source: EventSource,
    /// When.
    pub at: Timestamp,
    /// The added entries.
    pub entries: Map<String, Value>,
}
