//! Where a run stands, apart from the run: whoever looks at it holds nothing else of it, and so keeps nothing alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::port::Progress;
use crate::plan::cursor::{Cursor, Frame, Position};
use crate::plan::snapshot::Snapshot;

/// Where a run stands: the cursor, with the state of each of its graphs.
pub(crate) struct Track {
    /// Guards the frames; held for a moment, never across an await.
    live: Mutex<Vec<Live>>,
    next_step: AtomicU64,
}

/// How far one graph of the run is: the cursor's frame, with its state beside it.
struct Live {
    node: Arc<str>,
    at: Position,
    attempt: u32,
    state: Snapshot,
}

impl Track {
    pub(crate) fn new(next_step: u64) -> Arc<Self> {
        Arc::new(Self { live: Mutex::default(), next_step: AtomicU64::new(next_step) })
    }

    fn live(&self) -> MutexGuard<'_, Vec<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a graph of the run stands, and forgets what stood below it.
    pub(crate) fn stand(&self, depth: usize, node: &Arc<str>, at: (Position, u32), state: &Snapshot) {
        let (at, attempt) = at;
        let live = Live { node: node.clone(), at, attempt, state: state.clone() };
        let mut frames = self.live();
        frames.truncate(depth);
        frames.push(live);
    }

    /// Returns where the run stands or stood, once it has begun.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let live = self.live();
        if live.is_empty() {
            return None;
        }
        let frame = |it: &Live| Frame { node: it.node.as_ref().into(), at: it.at, attempt: it.attempt };
        let frames = live.iter().map(frame).collect();
        let cursor = Cursor { frames, next_step: self.next_step.load(Ordering::Relaxed) };
        Some(Progress { cursor, frames: live.iter().map(|it| it.state.clone()).collect() })
    }

    /// Numbers the next node execution.
    pub(crate) fn take_step(&self) -> u64 {
        self.next_step.fetch_add(1, Ordering::Relaxed)
    }
}
