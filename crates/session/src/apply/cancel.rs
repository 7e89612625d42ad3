//! A running turn is cancelled: the text that the user has been shown is kept (D10).

use std::sync::Arc;

use singletree_durable::{BatchPrecondition, JsonDocument, StoredTurnStatus};
use singletree_graph::PersistentList;
use singletree_llm::ChatMessage;

use crate::Error;
use crate::batch::{BatchBuilder, ItemMetadata};
use crate::codec::calls::{ClosingAnswer, make_closing_messages};
use crate::codec::record::decode_message;
use crate::event::ChatEventKind;
use crate::history;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::stopped_run::{KeptPart, StoppedRun};
use crate::turn::TurnState;
use crate::turn_id::MessageId;

/// Ends the running turn as cancelled, and returns the outcome.
///
/// # Errors
/// `chat_budget_exhausted` when the kept part exceeds a limit; `store_corrupt`.
pub fn cancel_running_turn(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (stopped, part): (&StoppedRun, KeptPart),
    mut errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    errored.retry_safe &= !turning.effects.is_intended();
    let closed = make_closing_messages(&stopped.history, &turning.records, ClosingAnswer::CANCELLED);
    let closed = stopped.history.append_items(closed);
    if turning.effects.is_intended() {
        turning.mark_stopped_message(writing, stopped, &closed, &errored);
    }
    turning.announce_messages(writing, &closed)?;
    let history = match stopped.shown.as_deref().filter(|shown| !shown.is_empty()) {
        Some(text) => write_interrupted_message(writing, turning, &closed, text)?,
        None => closed,
    };
    // Only a turn with effects changes more than the history (D10, D29).
    let part = if turning.effects.is_intended() { part } else { KeptPart::History };
    turning.write_stopped_state(writing, stopped, (&history, part))?;
    let recorded = turning.failure_record(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_turn_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}

/// Keeps the shown text as an assistant message, marked beside its content (D10, D17).
fn write_interrupted_message(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    before: &PersistentList,
    text: &str,
) -> Result<PersistentList, Error> {
    let author = turning.turn_identity();
    let item = history::item_from_message(ChatMessage::assistant(text.to_owned()));
    let mut side = turning.sides.side_record_at(before.len()).unwrap_or_else(|| serde_json::json!({}));
    side["interrupted"] = true.into();
    let beside = ItemMetadata { placement: None, side: Some(JsonDocument::from(&side)) };
    let no = writing.write_new_item(&author, &item, beside, &mut turning.numbers)?;
    let id = MessageId { turn: author.id.clone(), k: before.len().saturating_sub(turning.marks.first) };
    let body = turning.making.encode_message_event(id.k);
    let what = ChatEventKind::MessageAppended { id, message: decode_message(&item)?, side: Some(side) };
    writing.add_event(&author, Some(no), Some(body), what);
    let kept = before.append_items([item]);
    turning.marks.announced = kept.len();
    Ok(kept)
}
