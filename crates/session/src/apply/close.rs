//! A wait ends without a resume: cancelled, superseded or expired. Its invocation ends errored (D2, D10), in a turn of
//! its own.

use std::sync::Arc;

use singletree_durable::{BatchPrecondition, RowMutation, StoredWaitStatus, WaitRow};

use super::claim::announce_wait_end;
use crate::Error;
use crate::WaitChange;
use crate::batch::BatchBuilder;
use crate::codec::calls::{ClosingAnswer, make_closing_messages};
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::stopped_run::StoppedRun;
use crate::turn::TurnState;

/// `turning` is the closing turn, not yet stored, on the session as committed; `ended` the wait as it ends,
/// `stopped` the session as the wait found it.
pub fn close_wait(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (mut ended, stopped): (WaitRow, &StoppedRun),
    mut errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Wait { no: ended.no, status: StoredWaitStatus::Pending });
    ended.ended_by = Some(turning.row.no);
    ended.ended_at = Some(writing.now);
    writing.add_mutation(RowMutation::Wait(ended.clone()));
    writing.landed.wait = WaitChange::Ends;
    writing.landed.invalidates = true;
    announce_wait_end(writing, &turning.turn_identity(), &ended, turning.trace.as_deref());
    let committed = turning.committed_history();
    let (status, reason) = match ended.status {
        // Only a wait for an approval can be denied.
        StoredWaitStatus::Expired if ended.action.is_some() => ("denied", "expired"),
        StoredWaitStatus::Expired => ("failed", "expired"),
        StoredWaitStatus::Pending | StoredWaitStatus::Consumed | StoredWaitStatus::Cancelled => {
            ("cancelled", "cancelled")
        }
    };
    let closed = make_closing_messages(&committed, &turning.records, ClosingAnswer { status, reason });
    let has_closed = !closed.is_empty();
    let history = committed.append_items(closed);
    errored.retry_safe &= !turning.effects.is_intended();
    if turning.effects.is_intended() {
        turning.mark_stopped_message(writing, stopped, &history, &errored);
    }
    if has_closed {
        turning.announce_messages(writing, &history)?;
        turning.write_history(writing, &history)?;
    }
    let recorded = turning.failure_record(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_turn_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}
