//! The port through which a run is kept: the engine never writes by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{BoxFuture, InvocationId, PositionHistory, SessionId, Timestamp};

use super::outcome::Identity;
use super::restore;
use super::signal::{Descriptor, WaitTerms};
use crate::error::{Error, Result};
use crate::plan::cursor::{CursorFrame, GraphCursor};
use crate::plan::item::Item;
use crate::plan::lineage::{LineageBoundary, NodeLineage};
use crate::plan::slot::FieldContent;
use crate::plan::snapshot::Snapshot;
use crate::plan::update::StateUpdate;

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
    /// It has failed, and this is the record of it ([`ErrorPolicy::Collect`](crate::ErrorPolicy::Collect)).
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
    /// Tells whether the run could be resumed with this payload (suspension §6), before anybody tries.
    ///
    /// # Errors
    /// `suspension_resume_payload_invalid`.
    pub fn accepts(&self, payload: &Map<String, Value>) -> Result<()> {
        let frames = &self.progress.frames;
        let mut taking = frames.first().into_iter().chain(frames.last());
        taking.try_for_each(|it| restore::overlaid(it, payload).map(drop))
    }
}

/// How a run ends, as the port records it.
#[derive(Debug)]
pub enum RunEnding<'a> {
    /// At the end of the graph.
    Completed {
        /// The final state.
        state: &'a Snapshot,
        /// The session's slice of it; none without a session, or without auto-save (sessions §6.3).
        session: Option<SessionState>,
    },
    /// At a suspension. When recording fails, the run goes on and `end` is called again.
    Suspended {
        /// The stored form of the suspended invocation.
        paused: &'a PausedRun,
        /// The session's slice of its state, as above.
        session: Option<SessionState>,
    },
    /// By an error.
    Errored {
        /// The error.
        error: &'a Error,
        /// Where the run stood, if it had begun.
        progress: Option<RunProgress>,
    },
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

/// The stored state that a port has for a run about to begin.
#[derive(Debug)]
pub enum RunEntry {
    /// The run is new; the session's state, if one is stored.
    Fresh(Option<SessionState>),
    /// The run goes on where it stands.
    Standing(StoredRun),
}

/// Keeps a run. One value serves one run.
///
/// # Contract
/// - `enter` is called once, first. `claim` follows it when a suspended run is resumed and its payload was found valid;
///   a run that cannot be claimed any more is an error.
/// - `save`, `step` and `record` are called one at a time, in order; each returns when it is durable.
/// - `checkpoint` is called one at a time, each with the progress at that time; it returns when that is durable.
/// - `end` is called when the run ends, and once more after it failed to record a suspension. Its result decides how
///   the invocation ends (INV-3: no outcome is told before it is recorded).
/// - `earlier` may be called at any time.
/// - A dropped future has happened or has not; the run is over then.
pub trait PersistencePort: fmt::Debug + Send + Sync {
    /// Tells whether `step` is to be called after each node.
    fn keeps_steps(&self) -> bool;

    /// Loads the stored session state or the stored run.
    fn enter(&self) -> BoxFuture<'_, Result<RunEntry>>;

    /// Takes the suspended run for this resume: of several, one gets it.
    fn claim(&self) -> BoxFuture<'_, Result<()>>;

    /// Called when the next node is about to run, before each node execution at every durability level. Returns an
    /// error when the run has used up its allowance. Counts only, never waits. The work executed before it is over,
    /// unless it is one of several that run at a time (`is_member`).
    ///
    /// # Errors
    /// `invocation_limit_exceeded` ([`Error::Exhausted`]), with the cause.
    fn begin(&self, is_member: bool) -> Result<()> {
        let _ = is_member;
        Ok(())
    }

    /// Saves the session in the middle of a run (sessions §6.2).
    fn save(&self, session: SessionState) -> BoxFuture<'_, Result<()>>;

    /// Records that a node has completed and where the run stands now.
    fn step(&self, progress: RunProgress) -> BoxFuture<'_, Result<()>>;

    /// Tells whether `checkpoint` is to be called at the end of each node execution, also of a failed one, and also
    /// inside of fan-outs (pipeline-utilities §10.3).
    fn keeps_checkpoints(&self) -> bool {
        false
    }

    /// Names the kind of store that keeps them, for the events that tell observers of saves (pipeline-utilities §10.8);
    /// none when there are to be no such events.
    fn checkpoint_backend(&self) -> Option<&str> {
        None
    }

    /// Records where the run stands when a node execution has ended. The run goes on when it is durable. Returns when
    /// the record says that it was saved.
    fn checkpoint(&self, checkpoint: RunCheckpoint) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(std::future::ready(Ok(checkpoint.at)))
    }

    /// Records a fact of the node that runs; forgotten when it completes (D7).
    fn record<'a>(&'a self, name: &'a str, fact: Item) -> BoxFuture<'a, Result<()>>;

    /// Reads items of a list of the outermost state that a window does not hold (D22): all those at these positions.
    /// Only asked of ports that hand out windows.
    fn earlier<'a>(&'a self, field: &'a str, positions: Range<u64>) -> BoxFuture<'a, Result<Vec<Item>>> {
        let what = format!("positions {positions:?} of '{field}' are not kept");
        Box::pin(std::future::ready(Err(Error::Argument { what })))
    }

    /// Records how the run ends.
    fn end<'a>(&'a self, ending: RunEnding<'a>) -> BoxFuture<'a, Result<()>>;
}

/// Who a run is to be, as far as the caller says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedIdentity {
    /// The invocation's id; made if absent, and ignored on a resume (graph-engine §3).
    pub invocation_id: Option<InvocationId>,
    /// The correlation id; made if absent.
    pub correlation_id: Option<String>,
    /// The session.
    pub session_id: Option<SessionId>,
}
