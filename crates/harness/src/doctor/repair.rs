//! Mends one finding: one batch, refused when the session is not the one that was looked at.

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, Counters, FieldRow, FieldValue, Journal, RowMutation, StoredTurnKind,
    StoredTurnStatus, StoredWaitStatus, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::{Error as RunError, Item};

use super::chart::SessionRowSet;
use super::corrupt;
use super::finding::RepairAction;
use super::log;
use crate::bucket::BucketTable;
use crate::calls::{ClosingAnswer, Records, closings};
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::limit::Limits;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::position::StoredPosition;
use crate::record::{OutcomeRecord, TurnRowExt, message};
use crate::reply::{ErrorReplies, ErrorReporter};
use crate::session::apply;
use crate::session::batch::{BatchBuilder, ItemMetadata, ItemNumbering, TurnIdentity};
use crate::stored;
use crate::turn_id::MessageId;
use crate::{Error, Result};

/// Carries out one repair.
pub(super) async fn repair(
    journal: &dyn Journal,
    chart: &SessionRowSet,
    mend: &RepairAction,
    now: Timestamp,
) -> Result<()> {
    let epoch: Arc<str> = journal.log_epoch().into();
    let row = &chart.row;
    let mut writing = BatchBuilder::new(&row.key, journal.fence(), row.counters, now, &epoch);
    writing.require(BatchPrecondition::SessionVersion(row.head.version));
    writing.require(BatchPrecondition::Counters(row.counters));
    match mend {
        RepairAction::Counters => raise(chart, &mut writing),
        RepairAction::Length { field, generation, len } => {
            let place = (journal, &row.key, None);
            let list = stored::read_list(place, field, *generation, *len).await?;
            let bytes = list.iter_from(0).map(size).sum();
            let value = FieldValue::List { generation: *generation, len: *len, bytes };
            // The version stays: where a suspended invocation stands is bound to it (D1).
            writing.put(RowMutation::Field(FieldRow { name: field.clone(), value }));
        }
        RepairAction::MarkEnded { turn, status } => {
            let turn = found(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
            let ended_at = turn.ended_at.or(Some(now));
            writing.put(RowMutation::Turn(TurnRow { status: *status, ended_at, ..turn.clone() }));
        }
        RepairAction::GiveUp { turn } => {
            let turn = found(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
            let fence = singletree_durable::FencingToken(0);
            writing.put(RowMutation::Turn(TurnRow { fence, ..turn.clone() }));
        }
        RepairAction::CloseTurn { turn, what } => {
            let turn = found(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: StoredTurnStatus::Accepted });
            let error = corrupt(what.clone());
            let closings = if owns_calls(chart, turn) {
                closing(journal, chart, Some(turn.no)).await?
            } else {
                Vec::new()
            };
            end(&mut writing, chart, turn.clone(), &error, closings)?;
        }
        RepairAction::EndInvocation { turn, what } => {
            let suspended = found(chart, *turn)?;
            let row = ending(chart, &mut writing, suspended);
            let invocation = row.invocation.to_string();
            let error = RunError::SuspensionRecord { invocation, reason: what.clone() }.into();
            end(&mut writing, chart, row, &error, closing(journal, chart, None).await?)?;
        }
        RepairAction::CancelWait { wait } => {
            let wait = chart.waits.get(wait).ok_or_else(|| corrupt(format!("wait {wait} is missing")))?;
            cancel(&mut writing, wait, None);
        }
        RepairAction::DropPosition { invocation } => {
            writing.put(RowMutation::DropPosition(invocation.clone()))
        }
        RepairAction::DropMail { signal } => writing.put(RowMutation::DropMail(signal.clone())),
        RepairAction::DropRecords { turn } => writing.put(RowMutation::DropRecords { turn: *turn }),
        RepairAction::CloseCalls => {
            let last = chart.turns.last().ok_or_else(|| corrupt("there is no turn".into()))?;
            let author = TurnIdentity { no: last.no, id: last.id() };
            close(&mut writing, chart, &author, closing(journal, chart, None).await?)?;
        }
    }
    Ok(journal.apply(writing.finish().batch).await?)
}

fn found(chart: &SessionRowSet, no: u64) -> Result<&TurnRow> {
    chart.turn(no).ok_or_else(|| corrupt(format!("turn {no} is missing")))
}

/// Tells whether the calls that are open at the end of the history are this turn's: not those of an earlier turn, which
/// the next message closes, nor of another invocation that waits.
fn owns_calls(chart: &SessionRowSet, turn: &TurnRow) -> bool {
    turn.ordinal > 0 || chart.items.values().any(|item| item.placed && item.turn == turn.no)
}

fn raise(chart: &SessionRowSet, writing: &mut BatchBuilder) {
    let (stored, used) = (chart.row.counters, log::used(chart));
    writing.counters = Counters {
        turns: stored.turns.max(used.turns),
        items: stored.items.max(used.items),
        events: stored.events.max(used.events),
        waits: stored.waits.max(used.waits),
    };
}

fn raise_version(chart: &SessionRowSet, writing: &mut BatchBuilder) {
    let mut head = chart.row.head.clone();
    head.version += 1;
    head.updated_at = writing.now;
    writing.put(RowMutation::Head(head));
}

/// Makes the row of the turn that ends a suspended invocation, and ends its waits.
fn ending(chart: &SessionRowSet, writing: &mut BatchBuilder, suspended: &TurnRow) -> TurnRow {
    writing.require(BatchPrecondition::Turn { no: suspended.no, status: StoredTurnStatus::Suspended });
    let ours =
        |it: &&WaitRow| it.status == StoredWaitStatus::Pending && it.invocation == suspended.invocation;
    let waits: Vec<&WaitRow> = chart.waits.values().filter(ours).collect();
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    for wait in &waits {
        cancel(writing, wait, Some(no));
    }
    TurnRow {
        no,
        ordinal: suspended.ordinal + 1,
        kind: StoredTurnKind::Close,
        status: StoredTurnStatus::Accepted,
        fence: writing.batch.fence,
        deaths: 0,
        message: None,
        wait: waits.first().map(|wait| wait.no),
        key: None,
        digest: None,
        accepted_at: writing.now,
        ended_at: None,
        outcome: None,
        retries: None,
        ..suspended.clone()
    }
}

fn cancel(writing: &mut BatchBuilder, wait: &WaitRow, by: Option<u64>) {
    writing.require(BatchPrecondition::Wait { no: wait.no, status: StoredWaitStatus::Pending });
    let ended = WaitRow {
        status: StoredWaitStatus::Cancelled,
        ended_by: by,
        ended_at: Some(writing.now),
        ..wait.clone()
    };
    writing.put(RowMutation::Wait(ended));
}

/// Ends a turn as errored, with nothing unfinished left of it.
fn end(
    writing: &mut BatchBuilder,
    chart: &SessionRowSet,
    mut row: TurnRow,
    error: &Error,
    closings: Vec<Item>,
) -> Result<()> {
    let author = TurnIdentity { no: row.no, id: row.id() };
    let begins = chart.turn(row.no).is_none();
    if let Some(wait) = row.wait.filter(|_| begins).and_then(|wait| chart.waits.get(&wait)) {
        let ended = WaitRow { status: StoredWaitStatus::Cancelled, ..wait.clone() };
        apply::claim::signal_event(writing, &author, &ended);
    }
    close(writing, chart, &author, closings)?;
    let errored = errored(&row, error);
    row.status = StoredTurnStatus::Errored;
    row.ended_at = Some(writing.now);
    // The model usage up to the last commit counts, whatever the outcome of the turn.
    let stood = chart.positions.get(&row.invocation).filter(|position| position.turn == row.no);
    let used = stood
        .and_then(|stood| stood.body.decode::<StoredPosition>().ok())
        .map(|it| it.used)
        .unwrap_or_default();
    row.outcome = Some(OutcomeRecord::errored(&errored).with(&used)?);
    used.rows().for_each(|row| writing.put(RowMutation::Usage(row)));
    writing.put(RowMutation::DropPosition(row.invocation.clone()));
    writing.put(RowMutation::DropRecords { turn: row.no });
    writing.put(RowMutation::Turn(row));
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    writing.event(&author, None, None, ChatEventKind::TurnErrored { outcome });
    Ok(())
}

fn errored(row: &TurnRow, error: &Error) -> ErroredTurn {
    let (buckets, replies) = (BucketTable::default(), ErrorReplies::default());
    let diagnostic_bytes = Limits::default().diagnostic_bytes;
    let reporting = ErrorReporter { buckets: &buckets, replies: &replies, diagnostic_bytes };
    ErroredTurn { retry_safe: false, ..reporting.errored(Some(row.id()), error) }
}

/// Makes the tool messages that close the open calls at the end of the history (D8), using the records of a turn.
/// Returns none when the history cannot be read.
async fn closing(journal: &dyn Journal, chart: &SessionRowSet, turn: Option<u64>) -> Result<Vec<Item>> {
    let Some((generation, len)) = chart.history() else { return Ok(Vec::new()) };
    if chart.said.len() as u64 != len
        || chart.said.iter().any(|it| matches!(it, super::chart::CheckedMessage::Unreadable(_)))
    {
        return Ok(Vec::new());
    }
    let rows = match turn {
        Some(turn) => journal.records(&chart.row.key, turn).await?,
        None => Vec::new(),
    };
    let records: Records =
        rows.into_iter().map(|row| (row.name, Item::from_text(row.body.as_str()))).collect();
    let list = stored::read_list((journal, &chart.row.key, None), HISTORY, generation, len).await?;
    let closing = ClosingAnswer { status: "unknown", reason: "what became of this call is not known" };
    Ok(closings(&list, &records, closing))
}

fn size(item: &Item) -> u64 {
    item.text().map_or(0, str::len) as u64
}

/// Appends these messages to the history.
fn close(
    writing: &mut BatchBuilder,
    chart: &SessionRowSet,
    author: &TurnIdentity,
    closings: Vec<Item>,
) -> Result<()> {
    let Some((generation, len)) = chart.history().filter(|_| !closings.is_empty()) else { return Ok(()) };
    let mut numbers = ItemNumbering::default();
    let end = len + closings.len() as u64;
    let bytes = chart.history_bytes() + closings.iter().map(size).sum::<u64>();
    for (seq, item) in (len..).zip(closings) {
        let placement = singletree_durable::ItemPlacement { field: HISTORY.to_owned(), generation, seq };
        let beside = ItemMetadata { placement: Some(placement), side: None };
        let no = writing.new_item(author, &item, beside, &mut numbers)?;
        let id = MessageId { turn: author.id.clone(), k: seq - len };
        let body = singletree_durable::JsonDocument::from_text(format!("{{\"k\":{}}}", id.k));
        let what = ChatEventKind::MessageAppended { id, message: message(&item)?, side: None };
        writing.event(author, Some(no), Some(body), what);
    }
    let value = FieldValue::List { generation, len: end, bytes };
    writing.put(RowMutation::Field(FieldRow { name: HISTORY.to_owned(), value }));
    raise_version(chart, writing);
    Ok(())
}
