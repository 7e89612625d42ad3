//! One sequential walk of a run, and where it stands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_durable::{NodePosition, PositionHistory};
use singletree_graph::{CursorFrame, FramePosition, Snapshot};

/// One sequential walk: the outermost one, or that of an instance or a branch. Subgraphs are walked on the strand of
/// the node that contains them.
#[derive(Default)]
pub(crate) struct SequentialWalk {
    /// Guards the frames of the graphs that the strand is in; held for a push or a copy only.
    live: Mutex<Vec<FrameState>>,
    /// How many node executions have begun on it.
    executions: AtomicU64,
    /// Guards the node executions that it has completed, where they are kept; held for a push or a copy only.
    completed: Mutex<PositionHistory>,
}

/// How far one graph is: the cursor's frame, with its state beside it.
struct FrameState {
    node: Arc<str>,
    at: FramePosition,
    attempt: u32,
    state: Snapshot,
}

impl SequentialWalk {
    fn lock_frames(&self) -> MutexGuard<'_, Vec<FrameState>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a graph stands, and forgets the frames below it. The depth counts from the strand's first graph.
    pub(crate) fn set_frame_position(
        &self,
        depth: usize,
        node: &Arc<str>,
        at: (FramePosition, u32),
        state: &Snapshot,
    ) {
        let (at, attempt) = at;
        let live = FrameState { node: node.clone(), at, attempt, state: state.clone() };
        let mut frames = self.lock_frames();
        frames.truncate(depth);
        frames.push(live);
    }

    fn lock_completed(&self) -> MutexGuard<'_, PositionHistory> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on where node executions were completed already.
    pub(crate) fn from_completed_positions(completed: PositionHistory) -> Self {
        Self { completed: Mutex::new(completed), ..Self::default() }
    }

    /// Notes that a node execution has completed.
    pub(crate) fn add_completed_position(&self, position: NodePosition) {
        self.lock_completed().push(position);
    }

    /// Returns the node executions that it has completed, where they are kept.
    pub(crate) fn completed_positions(&self) -> PositionHistory {
        self.lock_completed().clone()
    }

    /// Numbers a node execution.
    pub(crate) fn take_execution_number(&self) -> u64 {
        self.executions.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the frames and their states, outermost first; none before the walk has begun.
    pub(crate) fn copy_frames_and_states(&self) -> (Vec<CursorFrame>, Vec<Snapshot>) {
        let live = self.lock_frames();
        let frame =
            |it: &FrameState| CursorFrame { node: it.node.as_ref().into(), at: it.at, attempt: it.attempt };
        (live.iter().map(frame).collect(), live.iter().map(|it| it.state.clone()).collect())
    }
}
