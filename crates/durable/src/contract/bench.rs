//! The interface that the author of a store implements to run the suite.

use std::fmt;
use std::sync::Arc;

use super::Clause;
use crate::{
    AuditRow, BoxFuture, Checkpointer, Documents, Error, Journal, PausedStore, Result, SessionStore, Upkeep,
};

/// Handles to one store, opened together.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The calls across tenants.
    pub upkeep: Arc<dyn Upkeep>,
    /// The session store, over the same sessions as the journal.
    pub sessions: Arc<dyn SessionStore>,
    /// The paused records.
    pub paused: Arc<dyn PausedStore>,
    /// The checkpoints.
    pub checkpoints: Arc<dyn Checkpointer>,
    /// The documents and blobs, beside the sessions of the journal.
    pub documents: Arc<dyn Documents>,
}

/// Opens stores for the suite. One bench serves one check at a time.
pub trait Bench: fmt::Debug + Send + Sync {
    /// Opens a new, empty store.
    fn open(&self) -> BoxFuture<'_, Result<Stores>>;

    /// Gives `old` up, as when its process dies, and opens the same store again, as the next process would.
    fn reopen(&self, old: Stores) -> BoxFuture<'_, Result<Stores>>;

    /// Reads all audit rows of the store that was opened last, which no trait of a store does.
    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>>;
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{clause:?} ({}) is broken: {what}", clause.text())]
pub struct Violation {
    /// The broken clause.
    pub clause: Clause,
    /// The observed behavior.
    pub what: String,
}

/// The result of a check.
pub(super) type Verdict = std::result::Result<(), Broken>;

/// The observed behavior that breaks the clause.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self(format!("unexpected error {}: {error} ({error:?})", error.category()))
    }
}

/// Asks for a value.
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Verdict {
    ensure(found == expected, || format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Asks for a condition.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Broken(what())) }
}

/// Asks for a refusal.
pub(super) fn refused<T: fmt::Debug>(what: &str, answer: &Result<T>) -> Verdict {
    let is_refused = matches!(answer, Err(Error::Refused { .. }));
    ensure(is_refused, || format!("{what}: expected store_refused, found {answer:?}"))
}

/// Asks for a write conflict.
pub(super) fn conflict<T: fmt::Debug>(what: &str, answer: &Result<T>) -> Verdict {
    let is_conflict = matches!(answer, Err(Error::Conflict { .. }));
    ensure(is_conflict, || format!("{what}: expected session_write_conflict, found {answer:?}"))
}
