//! The checkpoint record and store of the pipeline-utilities specification (§10).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    BoxFuture, InvocationId, JsonDocument, NodePosition, PositionHistory, Result, SessionId, TenantId,
    Timestamp, raw,
};

/// A state as a record carries it: each field's value, independent of any schema, so that migrations can read it.
pub type CheckpointState = BTreeMap<String, JsonDocument>;

/// Where an invocation stood when it was last saved, with the whole state (pipeline-utilities §10.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRecord {
    /// The invocation. A resume is an invocation of its own (§10.4).
    pub invocation_id: InvocationId,
    /// The id that all attempts at one piece of work share; kept by a resume.
    pub correlation_id: String,
    /// The session, when the invocation is bound to one (§10.14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The version of the outermost declared schema; those of `parent_states` count as the same (§10.12.2).
    pub schema_version: String,
    /// The state of the graph that the run stood in: the outermost one, or that of a subgraph. While a fan-out runs, of
    /// the graph that contains it.
    #[serde(with = "raw::map")]
    pub state: CheckpointState,
    /// The states of the graphs that contain it, outermost first.
    #[serde(default, with = "raw::maps")]
    pub parent_states: Vec<CheckpointState>,
    /// The node executions whose update was merged, in order; those inside of fan-outs are in `fan_out_progress`.
    #[serde(default)]
    pub completed_positions: PositionHistory,
    /// How far fan-outs are, as long as they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fan_out_progress: Vec<FanOutProgress>,
    /// When the record was saved, by the engine's clock; it never runs backwards within an invocation.
    pub last_saved_at: Timestamp,
    /// Where the run stood, as the engine keeps it: it also tells cycles apart, and subgraphs that were left. Records
    /// that were made elsewhere have none; their place is derived from `completed_positions`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "raw::option")]
    pub cursor: Option<JsonDocument>,
}

impl CheckpointRecord {
    /// Checks whether the save is from inside of a fan-out. Only such saves may be batched by a store (§10.11.4).
    #[must_use]
    pub(crate) fn is_fan_out_internal(&self) -> bool {
        !self.fan_out_progress.is_empty()
    }

    /// Returns the entry of the record in a listing.
    #[must_use]
    pub fn to_summary(&self) -> CheckpointSummary {
        CheckpointSummary {
            invocation_id: self.invocation_id.clone(),
            correlation_id: self.correlation_id.clone(),
            last_saved_at: self.last_saved_at,
            completed_node_count: self.completed_positions.len() as u64,
        }
    }
}

/// How far one fan-out is (§10.11). Namespace, name and lineage together say which one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOutProgress {
    /// The node.
    pub fan_out_node_name: String,
    /// The nodes that contain it, outermost first.
    pub namespace: Vec<String>,
    /// The fan-out instances that contain it, outermost first; a fan-out inside of another one runs once in each.
    #[serde(default)]
    pub enclosing_fan_out_lineage: Vec<EnclosingInstance>,
    /// Which execution of the node it is, where a containing instance may execute it several times and starts again on
    /// resume: the number of node executions of that instance before it. Zero elsewhere.
    #[serde(default)]
    pub execution: u64,
    /// How many instances there are.
    pub instance_count: u64,
    /// Each of them, by index.
    pub instances: Vec<InstanceProgress>,
}

/// A fan-out instance that contains another fan-out (§10.11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnclosingInstance {
    /// The nodes that contain the fan-out, outermost first.
    pub namespace: Vec<String>,
    /// The fan-out.
    pub fan_out_node_name: String,
    /// The instance.
    pub fan_out_index: u64,
}

/// How far an instance is (§10.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// Its contribution is in the record.
    Completed,
    /// It had begun; a resume begins it again.
    InFlight,
    /// It had not begun.
    NotStarted,
}

/// One instance of a fan-out (§10.11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceProgress {
    /// How far it is.
    pub state: InstanceState,
    /// The contribution of a completed instance: the collected value, or the record of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "raw::option")]
    pub result: Option<JsonDocument>,
    /// Whether `result` is the record of a failure.
    #[serde(default)]
    pub result_is_error: bool,
    /// The other contributions, by the parent's field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "raw::map")]
    pub extra_outputs: BTreeMap<String, JsonDocument>,
    /// The node executions that it had completed, when it is in flight. A resume does not go on after them: they tell
    /// people how far it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed_inner_positions: Vec<NodePosition>,
}

impl InstanceProgress {
    /// An instance that contributes nothing yet.
    #[must_use]
    pub fn with_state(state: InstanceState) -> Self {
        Self {
            state,
            result: None,
            result_is_error: false,
            extra_outputs: BTreeMap::new(),
            completed_inner_positions: Vec::new(),
        }
    }
}

/// The entry of a checkpointed invocation in a listing: no state (§10.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// The invocation.
    pub invocation_id: InvocationId,
    /// Its correlation id.
    pub correlation_id: String,
    /// When it was last saved.
    pub last_saved_at: Timestamp,
    /// How many node executions it had completed.
    pub completed_node_count: u64,
}

/// Which invocations a listing shows; everything absent means all of the tenant (§10.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointFilter {
    /// Only those of this correlation id.
    pub correlation_id: Option<String>,
    /// Only those that were last saved after this time.
    pub saved_after: Option<Timestamp>,
    /// Only those that were last saved before this time.
    pub saved_before: Option<Timestamp>,
}

impl CheckpointFilter {
    /// Tells whether a listing shows this one.
    #[must_use]
    pub(crate) fn matches_summary(&self, summary: &CheckpointSummary) -> bool {
        self.correlation_id.as_ref().is_none_or(|correlation_id| *correlation_id == summary.correlation_id)
            && self.saved_after.is_none_or(|saved_after| summary.last_saved_at > saved_after)
            && self.saved_before.is_none_or(|saved_before| summary.last_saved_at < saved_before)
    }
}

/// Where running invocations are kept for the case that their process dies (pipeline-utilities §10.1).
///
/// # Contract
/// - `load` after a `save` returns a record equal to the saved one: the last saved record is the invocation's only one.
/// - A save that returned `Ok` is durable, for stores that outlive the process.
/// - Saves of one invocation land in the order in which `save` was called; one whose future was dropped has happened or
///   has not, nothing between.
/// - `delete` is idempotent.
/// - Tenants are apart.
///
/// A store that batches ([`BatchedCheckpointer`](crate::BatchedCheckpointer)) may keep saves from inside of fan-outs back, and no others.
pub trait Checkpointer: fmt::Debug + Send + Sync {
    /// Stores the record of an invocation, whatever was there.
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>>;

    /// Returns the record of an invocation, if there is one.
    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>>;

    /// Lists the invocations of a tenant that pass the filter, ordered by id.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>>;

    /// Removes the record of an invocation, if there is one.
    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>>;

    /// Names the kind of store, for people who read when runs were saved (pipeline-utilities §10.8): a short word, the
    /// same each time.
    fn backend_name(&self) -> &str {
        "custom"
    }

    /// Checks whether the result of `load` is independent of the state's present schema, so that migrations may run on
    /// it (§10.12.1). True for every store that encodes records as JSON.
    fn supports_state_migration(&self) -> bool {
        true
    }
}
