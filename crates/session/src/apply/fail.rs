//! A turn failed. A turn without effects adds nothing to the history, but calls that it had committed before are closed
//! (D8, D11). Of a turn with effects everything up to its last committed step is kept (D29).

use std::sync::Arc;

use singletree_durable::{BatchPrecondition, JsonDocument, StoredTurnStatus};
use singletree_llm::ChatMessage;

use crate::Error;
use crate::batch::{BatchBuilder, ItemMetadata};
use crate::codec::calls::{ClosingAnswer, make_closing_messages, make_result_messages};
use crate::history;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::stopped_run::{KeptPart, StoppedRun};
use crate::turn::TurnState;

/// `stopped` says where the run stood, if it had begun and that is known; `part` how much of it fits the limits.
pub fn fail_turn(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (stopped, part): (Option<&StoppedRun>, KeptPart),
    mut errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    errored.retry_safe &= !turning.effects.is_intended();
    let closing = match errored.error_category.as_str() {
        "chat_turn_cancelled" => ClosingAnswer::CANCELLED,
        reason => ClosingAnswer { status: "failed", reason },
    };
    match stopped.filter(|_| turning.effects.is_intended() && part != KeptPart::Nothing) {
        Some(stopped) => {
            let closed = make_closing_messages(&stopped.history, &turning.records, closing);
            let history = stopped.history.append_items(closed);
            turning.write_stopped_run(writing, stopped, &history, (part, &errored))?;
        }
        None => close_committed_calls(writing, turning, (stopped, part), closing)?,
    }
    if part != KeptPart::Nothing
        && let Some(text) = stopped.and_then(|stopped| stopped.shown.as_deref()).filter(|it| !it.is_empty())
    {
        // The part of an answer that people have seen stays with the turn's record, and never becomes history.
        let shown = history::item_from_message(ChatMessage::assistant(text.to_owned()));
        let side = Some(JsonDocument::from(&serde_json::json!({ "interrupted": true })));
        let author = turning.turn_identity();
        writing.write_new_item(
            &author,
            &shown,
            ItemMetadata { placement: None, side },
            &mut turning.numbers,
        )?;
    }
    let recorded = turning.failure_record(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_turn_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}

/// Closes the calls that a suspension or a save of this invocation had committed, and keeps the messages of the run
/// with the turn's record.
fn close_committed_calls(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (stopped, part): (Option<&StoppedRun>, KeptPart),
    closing: ClosingAnswer<'_>,
) -> Result<(), Error> {
    let author = turning.turn_identity();
    let committed = turning.committed_history();
    // An earlier turn's open calls are the next turn's to close.
    let own = committed.len() > turning.marks.first || turning.row.ordinal > 0;
    let closed = if own { make_closing_messages(&committed, &turning.records, closing) } else { Vec::new() };
    if let Some(made) = stopped.map(|stopped| &stopped.history).filter(|_| part != KeptPart::Nothing) {
        // Results of calls that never become history are kept with the other items.
        let given = if closed.is_empty() { make_result_messages(made, &turning.records) } else { Vec::new() };
        for item in made.iter_from(turning.marks.boundary.max(committed.len())).chain(&given) {
            writing.write_item_once(&author, item, &mut turning.numbers)?;
        }
    }
    if !closed.is_empty() {
        let history = committed.append_items(closed);
        turning.marks.announced = committed.len();
        turning.announce_messages(writing, &history)?;
        turning.write_history(writing, &history)?;
    }
    Ok(())
}
