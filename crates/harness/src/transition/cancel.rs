//! A running turn is cancelled: what the user has been shown is kept (D10).

use std::sync::Arc;

use singletree_durable::{Json, Require, TurnStatus};
use singletree_engine::List;
use singletree_llm::ChatMessage;

use crate::Error;
use crate::calls::{Closing, closings};
use crate::event::ChatEventKind;
use crate::history;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::record::{Recorded, message};
use crate::turn_id::MessageId;
use crate::turning::Turning;
use crate::writing::{Beside, Writing};

/// What a run had when it was stopped.
pub(crate) struct Stopped {
    /// The history as the run had it.
    pub(crate) history: List,
    /// The text that was shown of a message that had not become part of it.
    pub(crate) shown: Option<String>,
}

pub(crate) fn cancel(
    writing: &mut Writing,
    turning: &mut Turning,
    stopped: Stopped,
    errored: ErroredTurn,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(Require::Turn { no: turning.row.no, status: TurnStatus::Accepted });
    let closed = closings(&stopped.history, &turning.records, Closing::CANCELLED);
    let closed = stopped.history.append(closed);
    turning.announce(writing, &closed)?;
    let history = match stopped.shown.filter(|it| !it.is_empty()) {
        Some(text) => interrupted(writing, turning, &closed, &text)?,
        None => closed,
    };
    turning.write_history(writing, &history)?;
    let recorded = Recorded::errored(&errored);
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    turning.write_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}

/// Keeps what was shown as an assistant message, marked beside its content (D10, D17).
fn interrupted(
    writing: &mut Writing,
    turning: &mut Turning,
    before: &List,
    text: &str,
) -> Result<List, Error> {
    let author = turning.author();
    let item = history::item(ChatMessage::assistant(text.to_owned()));
    let mut side = turning.sides.of(before.len()).unwrap_or_else(|| serde_json::json!({}));
    side["interrupted"] = true.into();
    let beside = Beside { placement: None, side: Some(Json::from(&side)) };
    let no = writing.new_item(&author, &item, beside, &mut turning.numbers)?;
    let id = MessageId { turn: author.id.clone(), k: before.len().saturating_sub(turning.marks.first) };
    let body = turning.making.said(id.k);
    let what = ChatEventKind::MessageAppended { id, message: message(&item)?, side: Some(side) };
    writing.event(&author, Some(no), Some(body), what);
    let kept = before.append([item]);
    turning.marks.announced = kept.len();
    Ok(kept)
}
