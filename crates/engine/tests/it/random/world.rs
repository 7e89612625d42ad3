//! The world outside of the engine: it sees effects happen and records land, in one order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_engine::{Ctx, LineageBoundary, NodeLineage, Snapshot};

/// How a performance of a function ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ended {
    Done,
    Failed,
    /// It asked for an answer; whether that was all it had to do.
    Asked(bool),
}

/// Which effect: the place of the function, with its members, and the digest of all before it.
pub(crate) type Key = (String, i64);

/// One performance of a function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) key: Key,
    pub(crate) attempt: u32,
    pub(crate) step: u64,
    /// Not there when the function was dropped while it ran.
    pub(crate) ended: Option<Ended>,
    /// When that was, in ticks of the world.
    pub(crate) at: u64,
}

#[derive(Debug, Default)]
struct Diary {
    notes: Vec<Note>,
    ticks: u64,
}

/// The effects of functions outside of the engine. The world outlives runs.
#[derive(Debug, Default)]
pub(crate) struct World(Mutex<Diary>);

/// Writes a place: "sub/fan[1]/fork[b]/work".
pub(crate) fn place(namespace: &[impl AsRef<str>], lineage: &NodeLineage) -> String {
    let mut boundaries = lineage.boundaries().iter();
    let mut path = String::new();
    for name in namespace {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name.as_ref());
        match boundaries.next() {
            Some(LineageBoundary::Instance(index)) => path += &format!("[{index}]"),
            Some(LineageBoundary::Branch(branch)) => path += &format!("[{branch}]"),
            Some(LineageBoundary::Subgraph) | None => {}
        }
    }
    path
}

impl World {
    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something happens; returns when.
    pub(crate) fn tick(&self) -> u64 {
        let mut diary = self.diary();
        diary.ticks += 1;
        diary.ticks
    }

    /// Notes that a function begins; returns the number of its performance.
    pub(crate) fn begin(&self, cx: &Ctx<Snapshot>, acc: i64) -> usize {
        let key = (place(cx.namespace(), cx.lineage()), acc);
        let note = Note { key, attempt: cx.attempt_index(), step: cx.step(), ended: None, at: 0 };
        let mut diary = self.diary();
        diary.notes.push(note);
        diary.notes.len() - 1
    }

    pub(crate) fn end(&self, number: usize, ended: Ended) {
        let mut diary = self.diary();
        diary.ticks += 1;
        let at = diary.ticks;
        // The diary may have been taken since: then nobody wants to know.
        if let Some(note) = diary.notes.get_mut(number) {
            (note.ended, note.at) = (Some(ended), at);
        }
    }

    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut self.diary().notes)
    }
}
