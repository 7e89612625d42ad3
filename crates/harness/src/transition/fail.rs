//! A turn failed: it adds nothing to the history (D11), but what was committed of it before is closed (D8).

use std::sync::Arc;

use singletree_durable::{Require, TurnStatus};
use singletree_engine::List;

use crate::Error;
use crate::calls::{Closing, closings, results};
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::record::Recorded;
use crate::turning::Turning;
use crate::writing::Writing;

/// `made` is the history as the run had it, when it had begun: what it made is kept with the turn's record.
pub(crate) fn fail(
    writing: &mut Writing,
    turning: &mut Turning,
    made: Option<&List>,
    errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(Require::Turn { no: turning.row.no, status: TurnStatus::Accepted });
    let author = turning.author();
    let committed = turning.committed();
    // Calls that a suspension or a save of this invocation had committed; an earlier turn's are the next turn's to close.
    let own = committed.len() > turning.marks.first || turning.row.ordinal > 0;
    let closing = match errored.error_category.as_str() {
        "chat_turn_cancelled" => Closing::CANCELLED,
        reason => Closing { status: "failed", reason },
    };
    let closed = if own { closings(&committed, &turning.records, closing) } else { Vec::new() };
    if let Some(made) = made {
        // What calls gave that never become history is kept with the rest.
        let given = if closed.is_empty() { results(made, &turning.records) } else { Vec::new() };
        for item in made.iter_from(turning.marks.boundary.max(committed.len())).chain(&given) {
            writing.item(&author, item, &mut turning.numbers)?;
        }
    }
    if !closed.is_empty() {
        let history = committed.append(closed);
        turning.marks.announced = committed.len();
        turning.announce(writing, &history)?;
        turning.write_history(writing, &history)?;
    }
    let recorded = Recorded::errored(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}
