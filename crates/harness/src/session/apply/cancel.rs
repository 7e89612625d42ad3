//! A running turn is cancelled: the text that the user has been shown is kept (D10).

use std::sync::Arc;

use singletree_durable::{BatchPrecondition, JsonDocument, StoredTurnStatus};
use singletree_engine::PersistentList;
use singletree_llm::ChatMessage;

use crate::Error;
use crate::calls::{ClosingAnswer, closings};
use crate::event::ChatEventKind;
use crate::history;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::record::message;
use crate::session::batch::{BatchBuilder, ItemMetadata};
use crate::session::turn::TurnState;
use crate::stopped_run::{KeptPart, StoppedRun};
use crate::turn_id::MessageId;

pub(crate) fn cancel(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    (stopped, part): (&StoppedRun, KeptPart),
    mut errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    errored.retry_safe &= !turning.effects.any();
    let closed = closings(&stopped.history, &turning.records, ClosingAnswer::CANCELLED);
    let closed = stopped.history.append(closed);
    if turning.effects.any() {
        turning.mark_stopped(writing, stopped, &closed, &errored);
    }
    turning.announce(writing, &closed)?;
    let history = match stopped.shown.as_deref().filter(|shown| !shown.is_empty()) {
        Some(text) => interrupted(writing, turning, &closed, text)?,
        None => closed,
    };
    // Only a turn with effects changes more than the history (D10, D29).
    let part = if turning.effects.any() { part } else { KeptPart::History };
    turning.write_stopped(writing, stopped, (&history, part))?;
    let recorded = turning.failure(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}

/// Keeps the shown text as an assistant message, marked beside its content (D10, D17).
fn interrupted(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    before: &PersistentList,
    text: &str,
) -> Result<PersistentList, Error> {
    let author = turning.author();
    let item = history::item(ChatMessage::assistant(text.to_owned()));
    let mut side = turning.sides.of(before.len()).unwrap_or_else(|| serde_json::json!({}));
    side["interrupted"] = true.into();
    let beside = ItemMetadata { placement: None, side: Some(JsonDocument::from(&side)) };
    let no = writing.new_item(&author, &item, beside, &mut turning.numbers)?;
    let id = MessageId { turn: author.id.clone(), k: before.len().saturating_sub(turning.marks.first) };
    let body = turning.making.said(id.k);
    let what = ChatEventKind::MessageAppended { id, message: message(&item)?, side: Some(side) };
    writing.event(&author, Some(no), Some(body), what);
    let kept = before.append([item]);
    turning.marks.announced = kept.len();
    Ok(kept)
}
