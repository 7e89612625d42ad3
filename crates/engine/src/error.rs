//! Everything that can go wrong when a graph is compiled or run.

use std::fmt;
use std::sync::Arc;

use singletree_durable::{BoxError, MigrationError, MigrationErrorKind, Timestamp};
use singletree_graph::{FieldFault, MergeFault, ReducerFault, Snapshot};

use crate::plan::problem::GraphProblem;
use crate::run::fault::NodeFault;
use crate::run::outcome::CompletedRun;

/// The result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong when a graph is compiled or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph's structure is wrong; all problems are listed, the first one gives the category.
    #[error("the graph does not compile: {}", ProblemList(problems))]
    Compile {
        /// The problems found. Never empty.
        problems: Vec<GraphProblem>,
    },
    /// A node failed (graph-engine §4).
    #[error("node '{}' failed", place.node)]
    Node {
        /// Which one.
        place: NodeLocation,
        /// The failure.
        source: NodeFault,
        /// The state as it was before the node.
        state: Snapshot,
    },
    /// A parallel branch failed where the first failure is the node's (pipeline-utilities §11.9).
    #[error("branch '{branch}' of node '{}' failed", place.node)]
    Branch {
        /// The node that dispatches the branches.
        place: NodeLocation,
        /// Which of them.
        branch: Arc<str>,
        /// The failure.
        source: Box<NodeFault>,
        /// The state as it was before the node.
        state: Snapshot,
    },
    /// The function of a conditional edge failed (graph-engine §4).
    #[error("the edge of node '{}' failed", place.node)]
    Edge {
        /// The node whose edge it is.
        place: NodeLocation,
        /// The error of the edge function.
        source: BoxError,
        /// The state after the node's update.
        state: Snapshot,
    },
    /// A reducer could not merge an update (graph-engine §4).
    #[error("reducer {reducer} could not merge what node '{}' returned for field '{field}'", place.node)]
    Reducer {
        /// The node that returned the update.
        place: NodeLocation,
        /// The field.
        field: String,
        /// The reducer.
        reducer: String,
        /// The reducer's error.
        source: ReducerFault,
        /// The state as it was before the merge.
        state: Snapshot,
    },
    /// A node's edge leads nowhere: the node has none, or its function named a node that is not declared.
    #[error("node '{}' routes to {}", place.node, DestinationText(destination.as_deref()))]
    Routing {
        /// The node.
        place: NodeLocation,
        /// Where it would go.
        destination: Option<String>,
        /// The state after the node's update.
        state: Snapshot,
    },
    /// State does not match the declarations of its schema (graph-engine §4).
    #[error("the state is not valid {}", LocationText(place.as_ref()))]
    Validation {
        /// The node after which this was found; none at entry.
        place: Option<NodeLocation>,
        /// The field, and the reason why its value is not valid.
        source: FieldFault,
        /// The last valid state, when there was one.
        state: Option<Snapshot>,
    },
    /// The session could not be loaded; nothing ran (sessions §10).
    #[error("the session could not be loaded")]
    SessionLoad {
        /// Why.
        source: BoxError,
    },
    /// The session could not be saved (sessions §10). After the end of a graph, its result stands and is inside.
    #[error("the session could not be saved")]
    SessionSave {
        /// Why.
        source: BoxError,
        /// The result that was reached, when the save was the one at the end.
        completed: Option<Box<CompletedRun<Snapshot>>>,
    },
    /// Somebody else wrote the session, or it is not free to be written (sessions §8.2).
    #[error("the session was written by somebody else")]
    SessionConflict {
        /// The store's error.
        source: BoxError,
    },
    /// A stored session is of another schema version and cannot be brought to this one (sessions §7).
    #[error("the session's state cannot be migrated from version '{from}' to '{to}'")]
    SessionMigration {
        /// Its version.
        from: String,
        /// The version wanted.
        to: String,
        /// Why not.
        source: Box<crate::MigrationError>,
    },
    /// The invocation could not be suspended durably; it ends errored instead (suspension §8.6, §9).
    #[error("the suspension could not be recorded")]
    SuspensionPersistence {
        /// Why.
        source: BoxError,
    },
    /// There is no suspended record to resume (suspension §9).
    #[error("invocation '{invocation}' cannot be resumed: {reason}")]
    SuspensionRecord {
        /// Which invocation.
        invocation: String,
        /// Why not.
        reason: String,
    },
    /// The signal's payload does not fit the state (suspension §9).
    #[error("the signal's payload does not fit the state")]
    SuspensionPayload {
        /// The field, and the reason why its value is not valid.
        source: FieldFault,
    },
    /// Suspend was called where it is not allowed (suspension §3, §9).
    #[error("suspend was called {context}")]
    SuspensionContext {
        /// Where.
        context: String,
        /// The state there, when it was in a run that ends with this.
        state: Option<Snapshot>,
    },
    /// A stored position does not fit the graph any more (D28).
    #[error("the stored position does not fit the graph: {reason}")]
    Position {
        /// Why.
        reason: String,
    },
    /// There is no checkpoint of this invocation, or no checkpointer to ask (pipeline-utilities §10.10).
    #[error("there is no checkpoint of invocation '{invocation}'")]
    CheckpointNotFound {
        /// Which invocation.
        invocation: String,
    },
    /// The checkpointer could not be asked; nothing ran.
    #[error("the checkpoint could not be loaded")]
    CheckpointLoad {
        /// Why.
        source: BoxError,
    },
    /// A checkpoint is damaged, or of another graph (pipeline-utilities §10.10).
    #[error("the checkpoint of invocation '{invocation}' is not valid: {reason}")]
    CheckpointRecord {
        /// Which invocation.
        invocation: String,
        /// The reason why the record is not valid.
        reason: String,
        /// Why, when there is more to say.
        source: Option<BoxError>,
    },
    /// A checkpoint, or a suspended invocation, is of another schema version and cannot be brought to this one
    /// (pipeline-utilities §10.12).
    #[error("the stored run's state cannot be migrated from version '{from}' to '{to}'")]
    CheckpointMigration {
        /// Its version.
        from: String,
        /// The version wanted.
        to: String,
        /// Why not.
        source: Box<crate::MigrationError>,
    },
    /// A limit was reached (INV-12).
    #[error("the limit {limit} of {max} was reached")]
    Limit {
        /// Which one, as it is called in `Limits`.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// The port that keeps the run lets no further node begin: the run has used up its allowance.
    #[error("the run may not go on")]
    Exhausted {
        /// The port's error: names the allowance that is used up.
        source: BoxError,
    },
    /// The port that keeps the run failed while a step was to be recorded.
    #[error("the run could not be recorded")]
    Record {
        /// Why.
        source: BoxError,
    },
    /// An argument of a call is wrong.
    #[error("{what}")]
    Argument {
        /// The reason why the argument is not valid.
        what: String,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    ///
    /// A node that passes on that its pause could not be recorded ends the invocation with
    /// `suspension_persistence_failed` (suspension §8.6), not `node_exception`.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self.wrapped_fault() {
            Some(fault) if fault.is_failed_suspension() => "suspension_persistence_failed",
            _ => self.surface_category(),
        }
    }

    /// Returns the wrapped fault, when the engine put this error around a failure.
    pub(crate) fn wrapped_fault(&self) -> Option<&NodeFault> {
        match self {
            Self::Node { source, .. } => Some(source),
            Self::Branch { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns the category of graph-engine §4, whatever caused the error.
    pub(crate) fn surface_category(&self) -> &'static str {
        match self {
            Self::Compile { problems } => {
                problems.first().map_or("invalid_declaration", |problems| problems.kind.category())
            }
            Self::Node { .. } => "node_exception",
            Self::Branch { .. } => "parallel_branches_branch_failed",
            Self::Edge { .. } => "edge_exception",
            Self::Reducer { .. } => "reducer_error",
            Self::Routing { .. } => "routing_error",
            Self::Validation { .. } => "state_validation_error",
            Self::SessionLoad { .. } => "session_load_failed",
            Self::SessionSave { .. } => "session_save_failed",
            Self::SessionConflict { .. } => "session_write_conflict",
            Self::SessionMigration { source, .. } => migration_category(source),
            Self::SuspensionPersistence { .. } => "suspension_persistence_failed",
            Self::SuspensionRecord { .. } => "suspension_record_invalid",
            Self::SuspensionPayload { .. } => "suspension_resume_payload_invalid",
            Self::SuspensionContext { .. } => "suspension_in_unsupported_context",
            Self::Position { .. } => "checkpoint_record_invalid",
            Self::CheckpointNotFound { .. } => "checkpoint_not_found",
            Self::CheckpointLoad { .. } => "checkpoint_load_failed",
            Self::CheckpointRecord { .. } => "checkpoint_record_invalid",
            Self::CheckpointMigration { source, .. } => checkpoint_migration_category(source),
            Self::Limit { .. } | Self::Exhausted { .. } => "invocation_limit_exceeded",
            Self::Record { .. } => "checkpoint_save_failed",
            Self::Argument { .. } => "invalid_argument",
        }
    }

    /// Says which error of a node a failed merge is.
    pub(crate) fn from_merge_fault(fault: MergeFault, place: &NodeLocation, state: &Snapshot) -> Self {
        let (place, state) = (place.clone(), state.clone());
        match fault {
            MergeFault::Reducer { field, reducer, fault } => {
                Self::Reducer { place, field, reducer, source: fault, state }
            }
            MergeFault::Invalid(source) => {
                Self::Validation { place: Some(place), source, state: Some(state) }
            }
        }
    }

    /// Returns the state that can be recovered from the failure (graph-engine §4): before the node for a failed node or
    /// merge, after its update for a failed edge, as it was there for a suspend where none is allowed.
    #[must_use]
    pub fn recoverable_state(&self) -> Option<&Snapshot> {
        match self {
            Self::Node { state, .. }
            | Self::Branch { state, .. }
            | Self::Edge { state, .. }
            | Self::Reducer { state, .. }
            | Self::Routing { state, .. } => Some(state),
            Self::Validation { state, .. } | Self::SuspensionContext { state, .. } => state.as_ref(),
            Self::Compile { .. }
            | Self::SessionLoad { .. }
            | Self::SessionSave { .. }
            | Self::SessionConflict { .. }
            | Self::SessionMigration { .. }
            | Self::SuspensionPersistence { .. }
            | Self::SuspensionRecord { .. }
            | Self::SuspensionPayload { .. }
            | Self::Position { .. }
            | Self::CheckpointNotFound { .. }
            | Self::CheckpointLoad { .. }
            | Self::CheckpointRecord { .. }
            | Self::CheckpointMigration { .. }
            | Self::Limit { .. }
            | Self::Exhausted { .. }
            | Self::Record { .. }
            | Self::Argument { .. } => None,
        }
    }

    /// Returns the node that the error is about, when it is about one.
    #[must_use]
    pub fn node_location(&self) -> Option<&NodeLocation> {
        match self {
            Self::Node { place, .. }
            | Self::Branch { place, .. }
            | Self::Edge { place, .. }
            | Self::Reducer { place, .. }
            | Self::Routing { place, .. } => Some(place),
            Self::Validation { place, .. } => place.as_ref(),
            Self::Compile { .. }
            | Self::SessionLoad { .. }
            | Self::SessionSave { .. }
            | Self::SessionConflict { .. }
            | Self::SessionMigration { .. }
            | Self::SuspensionPersistence { .. }
            | Self::SuspensionRecord { .. }
            | Self::SuspensionPayload { .. }
            | Self::SuspensionContext { .. }
            | Self::Position { .. }
            | Self::CheckpointNotFound { .. }
            | Self::CheckpointLoad { .. }
            | Self::CheckpointRecord { .. }
            | Self::CheckpointMigration { .. }
            | Self::Limit { .. }
            | Self::Exhausted { .. }
            | Self::Record { .. }
            | Self::Argument { .. } => None,
        }
    }

    /// Returns the name of the branch that failed, when the error is about one.
    #[must_use]
    pub fn failed_branch_name(&self) -> Option<&str> {
        if let Self::Branch { branch, .. } = self { Some(branch) } else { None }
    }

    /// Returns the category of the cause: a node's own category when it has one, else the error's.
    #[must_use]
    pub fn derived_category(&self) -> &str {
        self.wrapped_fault().and_then(NodeFault::category).unwrap_or_else(|| self.category())
    }
}

/// Returns the category of a failed migration of session state.
fn migration_category(error: &MigrationError) -> &'static str {
    match error.kind() {
        MigrationErrorKind::Missing => "session_state_migration_missing",
        MigrationErrorKind::Ambiguous => "session_state_migration_chain_ambiguous",
        MigrationErrorKind::Failed => "session_state_migration_failed",
    }
}

/// Returns the category of a failed migration of a checkpoint's state.
fn checkpoint_migration_category(error: &MigrationError) -> &'static str {
    match error.kind() {
        MigrationErrorKind::Missing => "checkpoint_state_migration_missing",
        MigrationErrorKind::Ambiguous => "checkpoint_state_migration_chain_ambiguous",
        MigrationErrorKind::Failed => "checkpoint_state_migration_failed",
    }
}

/// Where in a graph something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLocation {
    /// The node's name in its own graph.
    pub node: Arc<str>,
    /// The path from the outermost graph down to the node, its own name last (graph-engine §6).
    pub namespace: Arc<[Arc<str>]>,
}

/// Something that went wrong beside the run and did not change it (graph-engine §6).
#[derive(Debug)]
#[non_exhaustive]
pub enum ObserverFailure {
    /// An observer failed on an event.
    Observer {
        /// The observer's error.
        error: BoxError,
    },
    /// An invocation's observers are so far behind that it gets no more events (INV-10).
    Backlog {
        /// When, by the engine's clock.
        at: Timestamp,
        /// The bound that was reached.
        max: u64,
    },
}

struct ProblemList<'a>(&'a [GraphProblem]);

impl fmt::Display for ProblemList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{} ({})", problem.message, problem.kind.category())?;
        }
        Ok(())
    }
}

struct DestinationText<'a>(Option<&'a str>);

impl fmt::Display for DestinationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "'{name}', which is not a node"),
            None => f.write_str("nowhere: it has no outgoing edge"),
        }
    }
}

struct LocationText<'a>(Option<&'a NodeLocation>);

impl fmt::Display for LocationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "after node '{}'", place.node),
            None => f.write_str("at entry"),
        }
    }
}
