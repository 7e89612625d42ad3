//! A wait ends without a resume: cancelled, superseded or expired. Its invocation ends errored (D2, D10), in a turn of
//! its own.

use std::sync::Arc;

use singletree_durable::{Put, Require, WaitRow, WaitStatus};

use super::claim::signal_event;
use crate::Error;
use crate::calls::{Closing, closings};
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::stopped_run::StoppedRun;
use crate::turning::Turning;
use crate::writing::Writing;

/// `turning` is the closing turn, not yet stored, on the session as committed; `ended` the wait as it ends,
/// `stopped` the session as the wait found it.
pub(crate) fn close(
    writing: &mut Writing,
    turning: &mut Turning,
    (mut ended, stopped): (WaitRow, &StoppedRun),
    mut errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(Require::Wait { no: ended.no, status: WaitStatus::Pending });
    ended.ended_by = Some(turning.row.no);
    ended.ended_at = Some(writing.now);
    writing.put(Put::Wait(ended.clone()));
    signal_event(writing, &turning.author(), &ended);
    let committed = turning.committed();
    let (status, reason) = match ended.status {
        // Only a wait for an approval can be denied.
        WaitStatus::Expired if ended.action.is_some() => ("denied", "expired"),
        WaitStatus::Expired => ("failed", "expired"),
        WaitStatus::Pending | WaitStatus::Consumed | WaitStatus::Cancelled => ("cancelled", "cancelled"),
    };
    let closed = closings(&committed, &turning.records, Closing { status, reason });
    let has_closed = !closed.is_empty();
    let history = committed.append(closed);
    errored.retry_safe &= !turning.effects.any();
    if turning.effects.any() {
        turning.mark_stopped(writing, stopped, &history, &errored);
    }
    if has_closed {
        turning.announce(writing, &history)?;
        turning.write_history(writing, &history)?;
    }
    let recorded = turning.failure(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}
