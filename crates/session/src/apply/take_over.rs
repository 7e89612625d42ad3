//! A turn whose process died is taken over: it belongs to this process now, and its deaths are counted (D24). A process
//! that stops in an orderly way leaves its turns to nobody: that is no death.

use singletree_durable::{BatchPrecondition, FencingToken, RowMutation, StoredTurnStatus, TurnRow};

use crate::batch::BatchBuilder;
use crate::queue::turn_order;

/// The fence of a turn without an owner: that of its last process, which has stopped in an orderly way. No process has
/// it.
const NOBODY: FencingToken = FencingToken(0);

/// Returns the row as it is stored then. `may_have_run` says whether it may have been running in another process; that
/// is a death of it, unless that process has left it.
pub fn take_over_turn(writing: &mut BatchBuilder, row: &TurnRow, may_have_run: bool) -> TurnRow {
    writing.require(BatchPrecondition::Turn { no: row.no, status: StoredTurnStatus::Accepted });
    let deaths = row.deaths + u32::from(may_have_run && row.fence != NOBODY);
    let taken = TurnRow { fence: writing.batch.fence, deaths, ..row.clone() };
    writing.add_mutation(RowMutation::Turn(taken.clone()));
    taken
}

/// Sorts the unfinished turns of a session into the order in which they are taken over and run (INV-1).
pub fn order_open_turns(open: &mut [TurnRow]) {
    open.sort_by_key(turn_order);
}

/// Writes that a turn has no owner any more, because this process stops. Of the unfinished turns of a session only the
/// first one can have been running.
pub fn clear_turn_owner(writing: &mut BatchBuilder, row: TurnRow) {
    writing.require(BatchPrecondition::Turn { no: row.no, status: StoredTurnStatus::Accepted });
    writing.add_mutation(RowMutation::Turn(TurnRow { fence: NOBODY, ..row }));
}
