//! The port through which a run is kept: the engine never writes by itself.

use std::fmt;
use std::ops::Range;

use singletree_durable::{BoxFuture, InvocationId, SessionId, Timestamp};
use singletree_graph::{Item, PausedRun, RunCheckpoint, RunProgress, SessionState, Snapshot, StoredRun};

use super::event::GraphEvent;
use crate::error::{Error, Result};

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
    /// At a suspension. When recording fails, the run goes on and `record_ending` is called again.
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
/// - `load_entry` is called once, first. `claim_suspended_run` follows it when a suspended run is resumed and its
///   payload was found valid; a run that cannot be claimed any more is an error.
/// - `save_session`, `record_step` and `record_fact` are called one at a time, in order; each returns when it is
///   durable.
/// - `save_checkpoint` is called one at a time, each with the progress at that time; it returns when that is durable.
/// - `record_ending` is called when the run ends, and once more after it failed to record a suspension. Its result
///   decides how the invocation ends (INV-3: no outcome is told before it is recorded).
/// - `check_ownership` is called before each node execution if `is_shared`, also while other members of a fan-out run.
/// - `read_earlier_items` may be called at any time.
/// - A dropped future has happened or has not; the run is over then.
pub trait PersistencePort: fmt::Debug + Send + Sync {
    /// Tells whether `record_step` is to be called after each node.
    fn keeps_steps(&self) -> bool;

    /// Loads the stored session state or the stored run.
    fn load_entry(&self) -> BoxFuture<'_, Result<RunEntry>>;

    /// Takes the suspended run for this resume: of several, one gets it.
    fn claim_suspended_run(&self) -> BoxFuture<'_, Result<()>>;

    /// Called when the next node is about to run, before each node execution at every durability level. Returns an
    /// error when the run has used up its allowance. Counts only, never waits. The work executed before it is over,
    /// unless it is one of several that run at a time (`is_member`).
    ///
    /// # Errors
    /// `invocation_limit_exceeded` ([`Error::Exhausted`]), with the cause.
    fn begin_node_execution(&self, is_member: bool) -> Result<()> {
        let _ = is_member;
        Ok(())
    }

    /// Tells whether `check_ownership` is to be called: other processes may take the run over.
    fn is_shared(&self) -> bool {
        false
    }

    /// Called when the next node is about to run, after `begin_node_execution`. Returns an error when another process has the
    /// run: then no node of it runs here. It may wait for the store where the answer is not in memory.
    fn check_ownership(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Saves the session in the middle of a run (sessions §6.2).
    fn save_session(&self, session: SessionState) -> BoxFuture<'_, Result<()>>;

    /// Records that a node has completed and where the run stands now.
    fn record_step(&self, progress: RunProgress) -> BoxFuture<'_, Result<()>>;

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
    fn save_checkpoint(&self, checkpoint: RunCheckpoint) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(std::future::ready(Ok(checkpoint.at)))
    }

    /// Tells whether `note_event` is to be called.
    fn notes_events(&self) -> bool {
        false
    }

    /// Hears of an event of the run, of every kind but the pieces of streamed answers (graph-engine §6 and those about
    /// lifecycles), at once: an event comes before the call that records the same step, and before observers see it.
    /// Neither waits nor fails.
    ///
    /// The end of an invocation comes after `record_ending`.
    fn note_event(&self, event: &GraphEvent) {
        let _ = event;
    }

    /// Records a fact of the node that runs; forgotten when it completes (D7).
    fn record_fact<'a>(&'a self, name: &'a str, fact: Item) -> BoxFuture<'a, Result<()>>;

    /// Reads items of a list of the outermost state that a window does not hold (D22): all those at these positions.
    /// Only asked of ports that hand out windows.
    fn read_earlier_items<'a>(
        &'a self,
        field: &'a str,
        positions: Range<u64>,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        let what = format!("positions {positions:?} of '{field}' are not kept");
        Box::pin(std::future::ready(Err(Error::Argument { what })))
    }

    /// Records how the run ends.
    fn record_ending<'a>(&'a self, ending: RunEnding<'a>) -> BoxFuture<'a, Result<()>>;
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
