//! Where a run stands with all its states, in the form in which it is handed to a store and read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{InvocationId, PositionHistory, SessionId, Timestamp};

use crate::cursor::{CursorFrame, GraphCursor};
use crate::field::FieldFault;
use crate::item::Item;
use crate::lineage::{LineageBoundary, NodeLineage};
use crate::slot::FieldContent;
use crate::snapshot::Snapshot;
use crate::update::StateUpdate;
use crate::wait::{Descriptor, WaitTerms};

/// Who an invocation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The invocation's id; kept when a suspended invocation is resumed (suspension §7).
    pub invocation_id: InvocationId,
    /// The id under which an application correlates invocations.
    pub correlation_id: String,
    /// The session, when the invocation is bound to one (sessions §3).
    pub session_id: Option<SessionId>,
}

/// State by field name, as a store has it.
pub type Fields = Vec<(Arc<str>, FieldContent)>;

/// The session's slice of a state (sessions §4).
#[derive(Debug, Clone, PartialEq)]
pub struct SessionState {
    /// The version of its schema.
    pub schema_version: String,
    /// Its fields, under the session's names.
    pub fields: Fields,
}

/// Where a run stands: the cursor, and the state of each of its frames, outermost first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress {
    /// The place.
    pub cursor: GraphCursor,
    /// The states.
    pub frames: Vec<Snapshot>,
    /// The containers (fan-outs, branches) that run, outer ones first. Each stands `before` in its frame until all of
    /// it is merged.
    pub containers: Vec<ContainerProgress>,
}

/// How far a node with several inner runs is.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerProgress {
    /// The path to the node, outermost first, its own name last.
    pub namespace: Arc<[Arc<str>]>,
    /// The boundaries to the node; with the namespace it names one of several that run at once.
    pub lineage: NodeLineage,
    /// Which execution of the node it is, inside of another container: how many node executions of the inner run came
    /// before it. An inner run that begins again may execute the node several times. Zero elsewhere.
    pub execution: u64,
    /// Its inner runs, in order, each with the boundary by which it is entered.
    pub members: Vec<(LineageBoundary, MemberProgress)>,
}

/// How far an inner run is.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberProgress {
    /// It has not begun.
    NotStarted,
    /// It stands here: the frames of its own graphs, and their states.
    InFlight {
        /// The place, from the inner graph on.
        frames: Vec<CursorFrame>,
        /// The states.
        states: Vec<Snapshot>,
        /// The node executions that it has completed; only kept where checkpoints are.
        completed: PositionHistory,
    },
    /// It has ended with this update: for a fan-out's instance the collected and extra fields, under the inner graph's
    /// names; for a branch in the terms of the graph that contains it.
    Contributed(StateUpdate),
    /// It has failed, and this is the record of it (error policy `collect`).
    Failed(Item),
}

/// The stored form of a suspended invocation.
#[derive(Debug, Clone, PartialEq)]
pub struct PausedRun {
    /// Who it is.
    pub identity: Arc<Identity>,
    /// Where it stands: after the suspending node, or before it when that runs again.
    pub progress: RunProgress,
    /// The signal it waits for.
    pub descriptor: Descriptor,
    /// The terms of the wait (D2).
    pub terms: WaitTerms,
    /// Whether the suspending node counts as completed.
    pub mark_node_completed: bool,
    /// The suspending node, in its own graph.
    pub node_name: Arc<str>,
    /// The path to it.
    pub namespace: Arc<[Arc<str>]>,
    /// The node executions that the run has completed; only kept where checkpoints are.
    pub completed: PositionHistory,
}

/// Where a run stands when a node execution has ended, with all that a checkpoint says of it (pipeline-utilities
/// §10.2).
#[derive(Debug, Clone, PartialEq)]
pub struct RunCheckpoint {
    /// Who the run is.
    pub identity: Arc<Identity>,
    /// The time, by the engine's clock.
    pub at: Timestamp,
    /// Where it stands: after the node that has completed, or before the one that has failed.
    pub progress: RunProgress,
    /// The node executions that it has completed, without those inside of containers.
    pub completed: PositionHistory,
}

impl PausedRun {
    /// Checks that the run could be resumed with this payload (suspension §6), before anybody tries.
    ///
    /// # Errors
    /// A value that is not of its field's type.
    pub fn check_payload(&self, payload: &Map<String, Value>) -> Result<(), FieldFault> {
        let frames = &self.progress.frames;
        let mut taking = frames.first().into_iter().chain(frames.last());
        taking.try_for_each(|frame| frame.overlay_payload(payload).map(drop))
    }
}

/// A run that stands somewhere already.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// Who it is, when the record says so.
    pub identity: Option<Identity>,
    /// Where it stands.
    pub cursor: GraphCursor,
    /// The state of each frame.
    pub frames: Vec<Fields>,
    /// Facts of the node that had not committed (D7), by name.
    pub records: BTreeMap<String, Item>,
    /// The progress of the containers that it stands before: work that their members have contributed is not done
    /// again.
    pub containers: Vec<ContainerProgress>,
    /// The node executions that it has completed, where they are kept.
    pub completed: PositionHistory,
}
