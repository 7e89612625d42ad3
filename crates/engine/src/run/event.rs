//! Events for observers (graph-engine §6).

use std::borrow::Cow;
use std::sync::Arc;

use singletree_durable::{InvocationId, Timestamp};
use singletree_graph::{Descriptor, Identity, NodeLineage, Snapshot, StateUpdate};

use super::call_event::{
    CallerMetadata, LlmAttemptEvent, LlmCompletionEvent, LlmFailedEvent, LlmTokenEvent, ToolCallEvent,
    ToolCallFailedEvent,
};
use super::classify::Classification;
use super::lifecycle_event::{InvocationEvent, MetadataEvent, UnitEvent};
use super::retrieval_event::{EmbeddingEvent, EmbeddingFailedEvent, RerankEvent, RerankFailedEvent};
use crate::plan::policy::ErrorPolicy;

/// When in an attempt an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptPhase {
    /// Right before the body runs.
    Started,
    /// After merge and edge, or after the failure.
    Completed,
    /// In place of completed, when the node suspended.
    Suspended,
}

impl AttemptPhase {
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
    pub category: Cow<'static, str>,
    /// The category of the cause, when it has one of its own.
    pub derived_category: String,
    /// The error message.
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
    pub phase: AttemptPhase,
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
    /// The awaited signal, on suspended events.
    pub descriptor: Option<Descriptor>,
    /// The state of each containing graph when it was entered, outermost first; one less than the namespace.
    pub parent_states: Arc<[Snapshot]>,
    /// The attempt, from 0: the number that the innermost middleware that numbers attempts gave it.
    pub attempt_index: u32,
    /// The boundaries through which the node was reached, aligned with the namespace; one less than it. The scalars and
    /// chains of fan-out indexes and branch names are read off it.
    pub lineage: NodeLineage,
    /// The resolved configuration of a container, on its own events.
    pub container: Option<ContainerConfig>,
    /// The caller's metadata.
    pub caller_invocation_metadata: CallerMetadata,
}

/// The configuration of a node with several inner runs, resolved when the node was entered (graph-engine §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerConfig {
    /// A fan-out.
    FanOut(Arc<FanOutConfig>),
    /// Parallel branches.
    Branches(Arc<BranchesConfig>),
}

/// The resolved configuration of a fan-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanOutConfig {
    /// How many instances there are.
    pub item_count: u64,
    /// How many may run at once; none for all of them.
    pub concurrency: Option<u64>,
    /// The treatment of failed instances.
    pub error_policy: ErrorPolicy,
    /// The fan-out node's own name.
    pub parent_node_name: Arc<str>,
}

/// The resolved configuration of parallel branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchesConfig {
    /// All declared branches, in the order of declaration.
    pub branch_names: Arc<[Arc<str>]>,
    /// How many of them were dispatched.
    pub branch_count: u64,
    /// The treatment of failed branches.
    pub error_policy: ErrorPolicy,
    /// The node's own name.
    pub parent_node_name: Arc<str>,
}

/// A failure that a middleware caught and replaced (pipeline-utilities §6.3).
#[derive(Debug, Clone, PartialEq)]
pub struct IsolationEvent {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// When it was caught.
    pub at: Timestamp,
    /// The name that the application gave to this isolation.
    pub event_name: Arc<str>,
    /// The node that the middleware surrounds; for an instance or a branch, its container.
    pub node_name: Arc<str>,
    /// The path to that node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The boundaries to the surrounded node, instance or branch: one less than the namespace for a node; as many for
    /// an instance or a branch, whose own boundary comes last.
    pub lineage: NodeLineage,
    /// The last attempt.
    pub attempt_index: u32,
    /// The state that the failed chain began with.
    pub pre_state: Snapshot,
    /// The update that takes the place of the failed one.
    pub post_state: StateUpdate,
    /// The caught error.
    pub caught_exception: Classification,
}

/// A run was saved, or could not be (pipeline-utilities §10.8). Tracing makes the span of the save from this event.
///
/// There is one event for each call of the checkpointer and its answer, also when a checkpointer that batches has not
/// written the checkpoint yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointEvent {
    /// Who the invocation is.
    pub identity: Arc<Identity>,
    /// When the checkpointer was asked.
    pub started_at: Timestamp,
    /// When it answered.
    pub at: Timestamp,
    /// The kind of store ([`Checkpointer::backend_name`](singletree_durable::Checkpointer::backend_name)).
    pub backend: Arc<str>,
    /// The node whose execution had ended, and so was saved; for the end of an instance, its fan-out.
    pub node_name: Arc<str>,
    /// The path to that node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The boundaries to the node or instance that had ended: one less than the namespace for a node; as many for an
    /// instance, whose own boundary comes last.
    pub lineage: NodeLineage,
    /// The number of the node execution in the invocation.
    pub step: u64,
    /// Its last attempt.
    pub attempt_index: u32,
    /// How many node executions the record says are completed, without those inside of fan-outs.
    pub completed_node_count: u64,
    /// When the record says that it was saved; or why it was not, which ends the invocation (§10.10).
    pub last_saved_at: Result<Timestamp, EventError>,
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
    pub fn attempt_error(&self) -> Option<&EventError> {
        match &self.end {
            Some(AttemptEnd::Failed(error)) => Some(error),
            Some(AttemptEnd::Merged(_)) | None => None,
        }
    }

    /// Returns the index of the innermost fan-out instance that the node runs in.
    #[must_use]
    pub fn fan_out_index(&self) -> Option<u64> {
        self.lineage.fan_out_index()
    }

    /// Returns the name of the innermost parallel branch that the node runs in.
    #[must_use]
    pub fn branch_name(&self) -> Option<&str> {
        self.lineage.branch_name()
    }

    /// Returns the resolved configuration of a fan-out, on its own events.
    #[must_use]
    pub fn fan_out_config(&self) -> Option<&FanOutConfig> {
        match &self.container {
            Some(ContainerConfig::FanOut(config)) => Some(config),
            Some(ContainerConfig::Branches(_)) | None => None,
        }
    }

    /// Returns the resolved configuration of parallel branches, on their node's own events.
    #[must_use]
    pub fn parallel_branches_config(&self) -> Option<&BranchesConfig> {
        match &self.container {
            Some(ContainerConfig::Branches(config)) => Some(config),
            Some(ContainerConfig::FanOut(_)) | None => None,
        }
    }
}

/// Everything that observers see.
///
/// Only events of nodes have a phase. The others reach every observer; those about lifecycles only the observers that
/// ask for them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GraphEvent {
    /// A node's attempt starts or ends.
    Node(NodeEvent),
    /// A failure was caught and replaced.
    FailureIsolated(IsolationEvent),
    /// The run was saved at the end of a node execution, after that one's own event.
    CheckpointSaved(CheckpointEvent),
    /// The caller's metadata was added to.
    MetadataAdded(MetadataEvent),
    /// A model answered.
    LlmCompletion(LlmCompletionEvent),
    /// A model call failed.
    LlmFailed(LlmFailedEvent),
    /// A piece of a streamed answer arrived.
    LlmToken(LlmTokenEvent),
    /// A tool returned.
    ToolCall(ToolCallEvent),
    /// A tool failed.
    ToolCallFailed(ToolCallFailedEvent),
    /// Texts were embedded.
    Embedding(EmbeddingEvent),
    /// Texts could not be embedded.
    EmbeddingFailed(EmbeddingFailedEvent),
    /// Documents were ranked.
    Rerank(RerankEvent),
    /// Documents could not be ranked.
    RerankFailed(RerankFailedEvent),
    /// The invocation begins or ends: about a lifecycle.
    Invocation(InvocationEvent),
    /// An inner run begins or ends: about a lifecycle.
    Unit(UnitEvent),
    /// An attempt of a model call ended: about a lifecycle.
    LlmAttempt(LlmAttemptEvent),
}

impl GraphEvent {
    /// Returns who the invocation is that the event is of.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        match self {
            Self::Node(event) => &event.identity,
            Self::FailureIsolated(event) => &event.identity,
            Self::CheckpointSaved(event) => &event.identity,
            Self::MetadataAdded(event) => &event.source.identity,
            Self::LlmCompletion(event) => &event.call.source.identity,
            Self::LlmFailed(event) => &event.call.source.identity,
            Self::LlmToken(event) => &event.call.source.identity,
            Self::LlmAttempt(event) => &event.call.source.identity,
            Self::ToolCall(event) => &event.execution.source.identity,
            Self::ToolCallFailed(event) => &event.execution.source.identity,
            Self::Embedding(event) => &event.call.source.identity,
            Self::EmbeddingFailed(event) => &event.call.source.identity,
            Self::Rerank(event) => &event.call.source.identity,
            Self::RerankFailed(event) => &event.call.source.identity,
            Self::Invocation(event) => &event.identity,
            Self::Unit(event) => &event.identity,
        }
    }

    /// Returns the invocation that the event is of.
    #[must_use]
    pub fn invocation_id(&self) -> &InvocationId {
        &self.identity().invocation_id
    }

    pub(crate) fn attempt_phase(&self) -> Option<AttemptPhase> {
        match self {
            Self::Node(event) => Some(event.phase),
            _ => None,
        }
    }

    /// Tells whether only observers of lifecycles see it.
    pub(crate) fn is_about_lifecycle(&self) -> bool {
        matches!(self, Self::Invocation(_) | Self::Unit(_) | Self::LlmAttempt(_))
    }

    /// Returns the event as an observer sees it that did not ask for the caller's metadata, where that differs.
    pub(crate) fn without_caller_metadata(&self) -> Option<Self> {
        let mut event = self.clone();
        let metadata = match &mut event {
            Self::Node(event) => &mut event.caller_invocation_metadata,
            Self::LlmCompletion(event) => &mut event.caller_invocation_metadata,
            Self::LlmFailed(event) => &mut event.caller_invocation_metadata,
            Self::LlmToken(event) => &mut event.caller_invocation_metadata,
            Self::LlmAttempt(event) => &mut event.caller_invocation_metadata,
            Self::ToolCall(event) => &mut event.caller_invocation_metadata,
            Self::ToolCallFailed(event) => &mut event.caller_invocation_metadata,
            Self::Embedding(event) => &mut event.call.caller_invocation_metadata,
            Self::EmbeddingFailed(event) => &mut event.call.caller_invocation_metadata,
            Self::Rerank(event) => &mut event.call.caller_invocation_metadata,
            Self::RerankFailed(event) => &mut event.call.caller_invocation_metadata,
            Self::Invocation(event) => &mut event.caller_invocation_metadata,
            Self::Unit(event) => &mut event.caller_invocation_metadata,
            Self::FailureIsolated(_) | Self::CheckpointSaved(_) | Self::MetadataAdded(_) => return None,
        };
        metadata.take().map(|_| event)
    }
}
