//! The work of functions, shared by the engine's bodies and the model.

use super::plan::{Fails, Gate, Work};
use super::state::{Change, View, numbered};

/// A category that a retry retries.
pub(crate) const TRANSIENT: &str = "provider_unavailable";
/// A category that a retry does not retry.
pub(crate) const BROKEN: &str = "broken";

/// A function in its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Whether it counts the turns of a cycle.
    pub(crate) turns: bool,
}

impl Job {
    /// Tells whether an attempt fails: by the number of the attempt and the state alone, so that a run that is gone on
    /// with fails where the whole one did.
    pub(crate) fn failure(&self, view: &View, attempt: u32) -> Option<&'static str> {
        let concerned = !self.work.odd || view.n % 2 == 1;
        match self.work.fails {
            Fails::Before(first) if concerned && attempt < first => Some(TRANSIENT),
            Fails::Always if concerned => Some(BROKEN),
            Fails::Never | Fails::Before(_) | Fails::Always => None,
        }
    }

    /// Tells whether it asks, and whether it is done by asking.
    pub(crate) fn asks(&self, view: &View) -> Option<bool> {
        match self.work.gate {
            Some(Gate::Done) => Some(true),
            Some(Gate::Again(needs)) if view.answer < i64::from(needs) => Some(false),
            Some(Gate::Again(_)) | None => None,
        }
    }

    pub(crate) fn change(&self, view: &View) -> Change {
        Change {
            acc: Some(view.mixed(self.id, 0)),
            turns: self.turns.then_some(view.turns + 1),
            items: self.work.items.map(numbered),
            log: vec![format!("{}.{}", self.name, view.n)],
            ..Change::default()
        }
    }
}

/// The update with which an isolation replaces a failure, around a node or a member with this id.
pub(crate) fn degraded(id: u32, turns: bool, view: &View) -> Change {
    Change {
        acc: Some(view.mixed(id, 1)),
        turns: turns.then_some(view.turns + 1),
        log: vec![format!("-{id}")],
        ..Change::default()
    }
}
