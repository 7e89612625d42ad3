//! The interface that the author of a store implements to run the suite.

use std::fmt;
use std::sync::Arc;

use singletree_durable::{
    AuditRow, BoxFuture, Checkpointer, DocumentStore, Error, Journal, JournalMaintenance, PausedStore,
    Result, SessionStore,
};

use super::ContractClause;

/// Handles to one store, opened together.
#[derive(Debug, Clone)]
pub struct ContractStores {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The calls across tenants.
    pub upkeep: Arc<dyn JournalMaintenance>,
    /// The session store, over the same sessions as the journal.
    pub sessions: Arc<dyn SessionStore>,
    /// The paused records.
    pub paused: Arc<dyn PausedStore>,
    /// The checkpoints.
    pub checkpoints: Arc<dyn Checkpointer>,
    /// The documents and blobs, beside the sessions of the journal.
    pub documents: Arc<dyn DocumentStore>,
}

/// Opens stores for the suite. One factory serves one check at a time.
pub trait StoreFactory: fmt::Debug + Send + Sync {
    /// Opens a new, empty store.
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>>;

    /// Drops `old`, as if its process died, and opens the same store again, as the next process would.
    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>>;

    /// Opens another handle on the store that was opened last, beside the first one: another owner, to whom sessions go
    /// when it acquires them, as if the lease of the first had ended without its knowledge.
    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>>;

    /// Reads all audit rows of the store that was opened last. The store traits have no such method.
    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>>;
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{clause:?} ({}) is broken: {what}", clause.text())]
pub struct ContractViolation {
    /// The broken clause.
    pub clause: ContractClause,
    /// The observed behavior.
    pub what: String,
}

/// The result of a check.
pub(super) type Verdict = std::result::Result<(), ObservedBreach>;

/// The observed behavior that breaks the clause.
#[derive(Debug)]
pub(super) struct ObservedBreach(pub(super) String);

impl From<Error> for ObservedBreach {
    fn from(error: Error) -> Self {
        Self(format!("unexpected error {}: {error} ({error:?})", error.category()))
    }
}

/// Fails unless the value is the expected one.
pub(super) fn ensure_equal<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Verdict {
    ensure_that(found == expected, || format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Fails unless the condition holds.
pub(super) fn ensure_that(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(ObservedBreach(what())) }
}

/// Fails unless the store refused the call.
pub(super) fn ensure_refused<T: fmt::Debug>(what: &str, answer: &Result<T>) -> Verdict {
    let is_refused = matches!(answer, Err(Error::Refused { .. }));
    ensure_that(is_refused, || format!("{what}: expected store_refused, found {answer:?}"))
}

/// Fails unless the store refused the call because the session is not held under its fence.
pub(super) fn ensure_lease_lost<T: fmt::Debug>(what: &str, answer: &Result<T>) -> Verdict {
    let is_lost = matches!(answer, Err(Error::LeaseLost { .. }));
    ensure_that(is_lost, || format!("{what}: expected store_lease_lost, found {answer:?}"))
}

/// Fails unless the call ended with a write conflict.
pub(super) fn ensure_conflict<T: fmt::Debug>(what: &str, answer: &Result<T>) -> Verdict {
    let is_conflict = matches!(answer, Err(Error::Conflict { .. }));
    ensure_that(is_conflict, || format!("{what}: expected session_write_conflict, found {answer:?}"))
}
