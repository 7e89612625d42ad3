//! A session is deleted (D25), or the blobs of one that never began are removed.

use singletree_durable::{AuditRow, BatchPrecondition, RowMutation};

use crate::batch::BatchBuilder;
use crate::queue::CallerHandle;
use crate::state::SessionState;

/// Why a session is not deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionRefusal {
    /// There is nothing to delete.
    Absent,
    /// A turn was queued in the session, or it waits, or its state is not known: end that first.
    Busy,
}

/// Deletes a session whose turn the caller holds, in the name of `by`. Returns whether the session had begun: also the
/// blobs that are kept for a session that has not are removed, if the store keeps blobs at all.
///
/// # Errors
/// The reason why it is not deleted now.
pub fn delete_session<H: CallerHandle>(
    state: &mut SessionState<H>,
    writing: &mut BatchBuilder,
    keeps_blobs: bool,
    by: Option<&str>,
) -> Result<bool, DeletionRefusal> {
    if !state.is_known() || !state.is_queue_settled() || state.pending_wait().is_some() {
        return Err(DeletionRefusal::Busy);
    }
    let has_begun = state.session_head().is_some();
    if !has_begun && !keeps_blobs {
        return Err(DeletionRefusal::Absent);
    }
    writing.add_mutation(RowMutation::Delete);
    if has_begun {
        let (at, key) = (writing.now, writing.batch.key.clone());
        let (action, by) = ("session.deleted".into(), by.map(str::to_owned));
        writing.add_mutation(RowMutation::Audit(AuditRow { at, action, key, by }));
    }
    state.begin_deletion();
    Ok(has_begun)
}

/// Removes the blobs of a session that never began. The store refuses the batch if the session has begun.
pub fn remove_unclaimed_blobs(writing: &mut BatchBuilder) {
    writing.require(BatchPrecondition::SessionAbsent);
    writing.add_mutation(RowMutation::Delete);
    writing.landed.invalidates = true;
}
