//! A turn whose process died is taken over: it belongs to this process now, and its deaths are counted (D24).

use singletree_durable::{Put, Require, TurnRow, TurnStatus};

use crate::writing::Writing;

/// Returns the row as it is stored then.
pub(crate) fn take_over(writing: &mut Writing, row: &TurnRow, may_have_run: bool) -> TurnRow {
    writing.require(Require::Turn { no: row.no, status: TurnStatus::Accepted });
    let deaths = row.deaths + u32::from(may_have_run);
    let taken = TurnRow { fence: writing.batch.fence, deaths, ..row.clone() };
    writing.put(Put::Turn(taken.clone()));
    taken
}
