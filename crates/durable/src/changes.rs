//! Changes by commits, told to processes that did not make them.

use std::collections::BTreeSet;
use std::fmt;

use singletree_env::BoxFuture;

use crate::{EventRow, Result, SessionKey, TenantId, Timestamp};

/// Reads the commits of all processes that write the same data, for the tenants that it follows. It holds the position up to
/// which it has read; several of one process are independent of each other.
///
/// # Contract
/// A change is read after its commit, at the earliest; those of one session are read in the order of their commits. A commit
/// without events that neither makes nor deletes a session is no change.
pub trait ChangeFollower: fmt::Debug + Send {
    /// Reads the changes since the last call, and follows these tenants from now on: a tenant that was not named
    /// before is followed from within this call. None are followed any more when none are named.
    ///
    /// A follower that is not called for some seconds may lose changes; then the next call says so.
    ///
    /// # Errors
    /// Those of the store. The next call reads the changes that this one would have read.
    ///
    /// # Cancellation
    /// Changes may be lost, and the next call does not say so.
    fn read_changes<'a>(
        &'a mut self,
        tenants: &'a BTreeSet<TenantId>,
    ) -> BoxFuture<'a, Result<CommittedChanges>>;
}

/// The changes since the last call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommittedChanges {
    /// The changes, in an order in which each session's are.
    pub changes: Vec<CommittedChange>,
    /// The tenants that are followed from within this call on, whether they were followed before or not.
    pub anew: Vec<TenantId>,
    /// Whether there are more changes: the caller asks again at once.
    pub has_more: bool,
}

/// A commit to a session of a tenant that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedChange {
    /// The session.
    pub key: SessionKey,
    /// The session, if the commit made it and it is there.
    pub created: Option<CreatedSession>,
    /// When the session was deleted, if the commit did that.
    pub deleted_at: Option<Timestamp>,
    /// The events of the commit, in their order, as far as they are there.
    pub events: Vec<EventRow>,
}

/// A session that a commit made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedSession {
    /// The agent that answers in it.
    pub agent: String,
    /// When it was made.
    pub at: Timestamp,
}
