//! Commits of a session that were sent to the store and have not landed.
//!
//! The desk holds the state of the session as it will be once all sent commits have landed. A read of the store that
//! overlaps with such a commit may return the state before the commit, so its result must not be put into the desk.

use singletree_durable::{Batch, RowMutation};
use tokio::sync::watch;

/// Counts the commits in flight that change the desk.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitsInFlight(watch::Sender<usize>);

/// One commit in flight; it counts until this is dropped.
#[derive(Debug)]
pub(crate) struct CommitInFlight(CommitsInFlight);

impl CommitsInFlight {
    /// Counts a commit that is about to be sent.
    pub(crate) fn begin(&self) -> CommitInFlight {
        self.0.send_modify(|count| *count += 1);
        CommitInFlight(self.clone())
    }

    /// Tells whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until there are none.
    pub(crate) async fn landed(self) {
        // The sender lives as long as this future.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl Drop for CommitInFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Checks whether a batch changes the session data in the desk: head, fields, wait or early signals. Turns that are
/// accepted in an existing session do not, so that reading it never waits for callers that keep sending.
pub(crate) fn changes_desk(batch: &Batch) -> bool {
    batch.puts.iter().any(|put| {
        matches!(
            put,
            RowMutation::Head(_)
                | RowMutation::Field(_)
                | RowMutation::DropField(_)
                | RowMutation::Inherit { .. }
                | RowMutation::Wait(_)
                | RowMutation::Mail(_)
                | RowMutation::DropMail(_)
                | RowMutation::Delete
        )
    })
}
