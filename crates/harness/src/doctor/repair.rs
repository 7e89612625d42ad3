//! Mends one finding: one batch, refused when the session is not the one that was looked at.

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, Counters, FieldRow, FieldValue, Journal, RowMutation, SessionKey, StoredTurnKind,
    StoredTurnStatus, StoredWaitStatus, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::{Error as RunError, Item};

use super::chart::SessionRowSet;
use super::corrupt_store_error;
use super::finding::RepairAction;
use super::log;
use crate::bucket::BucketTable;
use crate::calls::{ClosingAnswer, Records, make_closing_messages};
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::limit::Limits;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::position::StoredPosition;
use crate::record::{OutcomeRecord, TurnRowExt, decode_message};
use crate::reply::{ErrorReplies, ErrorReporter};
use crate::session::apply;
use crate::session::batch::{BatchBuilder, ItemMetadata, ItemNumbering, TurnIdentity};
use crate::stored;
use crate::turn_id::MessageId;
use crate::{Error, Result};

/// Carries out one repair.
pub(super) async fn apply_repair(
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
        RepairAction::Counters => raise_counters(chart, &mut writing),
        RepairAction::Length { field, generation, len } => {
            let field = measure_list_field(journal, &row.key, field, (*generation, *len)).await?;
            writing.add_mutation(RowMutation::Field(field));
        }
        RepairAction::MarkEnded { turn, status } => {
            let turn = find_turn(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
            let ended_at = turn.ended_at.or(Some(now));
            writing.add_mutation(RowMutation::Turn(TurnRow { status: *status, ended_at, ..turn.clone() }));
        }
        RepairAction::GiveUp { turn } => {
            let turn = find_turn(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
            let fence = singletree_durable::FencingToken(0);
            writing.add_mutation(RowMutation::Turn(TurnRow { fence, ..turn.clone() }));
        }
        RepairAction::CloseTurn { turn, what } => {
            let turn = find_turn(chart, *turn)?;
            writing.require(BatchPrecondition::Turn { no: turn.no, status: StoredTurnStatus::Accepted });
            let error = corrupt_store_error(what.clone());
            let closings = match owns_open_calls(chart, turn) {
                true => load_closing_messages(journal, chart, Some(turn.no)).await?,
                false => Vec::new(),
            };
            end_turn_errored(&mut writing, chart, turn.clone(), &error, closings)?;
        }
        RepairAction::EndInvocation { turn, what } => {
            let suspended = find_turn(chart, *turn)?;
            let row = begin_closing_turn(chart, &mut writing, suspended);
            let invocation = row.invocation.to_string();
            let error = RunError::SuspensionRecord { invocation, reason: what.clone() }.into();
            let closings = load_closing_messages(journal, chart, None).await?;
            end_turn_errored(&mut writing, chart, row, &error, closings)?;
        }
        RepairAction::CancelWait { wait } => {
            let row = chart.waits.get(wait);
            let missing = || corrupt_store_error(format!("wait {wait} is missing"));
            cancel_wait(&mut writing, row.ok_or_else(missing)?, None);
        }
        RepairAction::DropPosition { invocation } => {
            writing.add_mutation(RowMutation::DropPosition(invocation.clone()))
        }
        RepairAction::DropMail { signal } => writing.add_mutation(RowMutation::DropMail(signal.clone())),
        RepairAction::DropRecords { turn } => writing.add_mutation(RowMutation::DropRecords { turn: *turn }),
        RepairAction::CloseCalls => {
            let last = chart.turns.last().ok_or_else(|| corrupt_store_error("there is no turn".into()))?;
            let author = TurnIdentity { no: last.no, id: last.turn_id() };
            let closings = load_closing_messages(journal, chart, None).await?;
            append_messages(&mut writing, chart, &author, closings)?;
        }
    }
    Ok(journal.apply(writing.finish_batch().batch).await?)
}

/// Reads a list and returns its field row with the right number of bytes. The version of the session stays, because the
/// position of a suspended invocation is bound to it (D1).
async fn measure_list_field(
    journal: &dyn Journal,
    key: &SessionKey,
    field: &str,
    (generation, len): (u64, u64),
) -> Result<FieldRow> {
    let list = stored::read_stored_list((journal, key, None), field, generation, len).await?;
    let bytes = list.iter_from(0).map(item_text_bytes).sum();
    Ok(FieldRow { name: field.to_owned(), value: FieldValue::List { generation, len, bytes } })
}

fn find_turn(chart: &SessionRowSet, no: u64) -> Result<&TurnRow> {
    chart.find_turn(no).ok_or_else(|| corrupt_store_error(format!("turn {no} is missing")))
}

/// Tells whether the calls that are open at the end of the history are this turn's: not those of an earlier turn, which
/// the next message closes, nor of another invocation that waits.
fn owns_open_calls(chart: &SessionRowSet, turn: &TurnRow) -> bool {
    turn.ordinal > 0 || chart.items.values().any(|item| item.placed && item.turn == turn.no)
}

fn raise_counters(chart: &SessionRowSet, writing: &mut BatchBuilder) {
    let (stored, used) = (chart.row.counters, log::lowest_free_numbers(chart));
    writing.counters = Counters {
        turns: stored.turns.max(used.turns),
        items: stored.items.max(used.items),
        events: stored.events.max(used.events),
        waits: stored.waits.max(used.waits),
    };
}

fn raise_session_version(chart: &SessionRowSet, writing: &mut BatchBuilder) {
    let mut head = chart.row.head.clone();
    head.version += 1;
    head.updated_at = writing.now;
    writing.add_mutation(RowMutation::Head(head));
}

/// Makes the row of the turn that ends a suspended invocation, and ends its waits.
fn begin_closing_turn(chart: &SessionRowSet, writing: &mut BatchBuilder, suspended: &TurnRow) -> TurnRow {
    writing.require(BatchPrecondition::Turn { no: suspended.no, status: StoredTurnStatus::Suspended });
    let ours =
        |it: &&WaitRow| it.status == StoredWaitStatus::Pending && it.invocation == suspended.invocation;
    let waits: Vec<&WaitRow> = chart.waits.values().filter(ours).collect();
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    for wait in &waits {
        cancel_wait(writing, wait, Some(no));
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

fn cancel_wait(writing: &mut BatchBuilder, wait: &WaitRow, by: Option<u64>) {
    writing.require(BatchPrecondition::Wait { no: wait.no, status: StoredWaitStatus::Pending });
    let ended = WaitRow {
        status: StoredWaitStatus::Cancelled,
        ended_by: by,
        ended_at: Some(writing.now),
        ..wait.clone()
    };
    writing.add_mutation(RowMutation::Wait(ended));
}

/// Ends a turn as errored, with nothing unfinished left of it.
fn end_turn_errored(
    writing: &mut BatchBuilder,
    chart: &SessionRowSet,
    mut row: TurnRow,
    error: &Error,
    closings: Vec<Item>,
) -> Result<()> {
    let author = TurnIdentity { no: row.no, id: row.turn_id() };
    let begins = chart.find_turn(row.no).is_none();
    if let Some(wait) = row.wait.filter(|_| begins).and_then(|wait| chart.waits.get(&wait)) {
        let ended = WaitRow { status: StoredWaitStatus::Cancelled, ..wait.clone() };
        apply::claim::announce_wait_end(writing, &author, &ended);
    }
    append_messages(writing, chart, &author, closings)?;
    let errored = make_errored_turn(&row, error);
    row.status = StoredTurnStatus::Errored;
    row.ended_at = Some(writing.now);
    // The model usage up to the last commit counts, whatever the outcome of the turn.
    let stood = chart.positions.get(&row.invocation).filter(|position| position.turn == row.no);
    let used = stood
        .and_then(|stood| stood.body.decode::<StoredPosition>().ok())
        .map(|it| it.used)
        .unwrap_or_default();
    row.outcome = Some(OutcomeRecord::from_errored_turn(&errored).to_json_with_usage(&used)?);
    used.to_usage_rows().for_each(|row| writing.add_mutation(RowMutation::Usage(row)));
    writing.add_mutation(RowMutation::DropPosition(row.invocation.clone()));
    writing.add_mutation(RowMutation::DropRecords { turn: row.no });
    writing.add_mutation(RowMutation::Turn(row));
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    writing.add_event(&author, None, None, ChatEventKind::TurnErrored { outcome });
    Ok(())
}

fn make_errored_turn(row: &TurnRow, error: &Error) -> ErroredTurn {
    let (buckets, replies) = (BucketTable::default(), ErrorReplies::default());
    let diagnostic_bytes = Limits::default().diagnostic_bytes;
    let reporting = ErrorReporter { buckets: &buckets, replies: &replies, diagnostic_bytes };
    ErroredTurn { retry_safe: false, ..reporting.make_errored_turn(Some(row.turn_id()), error) }
}

/// Makes the tool messages that close the open calls at the end of the history (D8), using the records of a turn.
/// Returns none when the history cannot be read.
async fn load_closing_messages(
    journal: &dyn Journal,
    chart: &SessionRowSet,
    turn: Option<u64>,
) -> Result<Vec<Item>> {
    let Some((generation, len)) = chart.find_history_list() else { return Ok(Vec::new()) };
    if chart.said.len() as u64 != len
        || chart.said.iter().any(|it| matches!(it, super::chart::CheckedMessage::Unreadable(_)))
    {
        return Ok(Vec::new());
    }
    let rows = match turn {
        Some(turn) => journal.read_turn_records(&chart.row.key, turn).await?,
        None => Vec::new(),
    };
    let records: Records =
        rows.into_iter().map(|row| (row.name, Item::from_text(row.body.as_str()))).collect();
    let list = stored::read_stored_list((journal, &chart.row.key, None), HISTORY, generation, len).await?;
    let closing = ClosingAnswer { status: "unknown", reason: "what became of this call is not known" };
    Ok(make_closing_messages(&list, &records, closing))
}

fn item_text_bytes(item: &Item) -> u64 {
    item.json_text().map_or(0, str::len) as u64
}

/// Appends these messages to the history.
fn append_messages(
    writing: &mut BatchBuilder,
    chart: &SessionRowSet,
    author: &TurnIdentity,
    closings: Vec<Item>,
) -> Result<()> {
    let Some((generation, len)) = chart.find_history_list().filter(|_| !closings.is_empty()) else {
        return Ok(());
    };
    let mut numbers = ItemNumbering::default();
    let end = len + closings.len() as u64;
    let bytes = chart.history_bytes() + closings.iter().map(item_text_bytes).sum::<u64>();
    for (seq, item) in (len..).zip(closings) {
        let placement = singletree_durable::ItemPlacement { field: HISTORY.to_owned(), generation, seq };
        let beside = ItemMetadata { placement: Some(placement), side: None };
        let no = writing.write_new_item(author, &item, beside, &mut numbers)?;
        let id = MessageId { turn: author.id.clone(), k: seq - len };
        let body = singletree_durable::JsonDocument::from_text(format!("{{\"k\":{}}}", id.k));
        let what = ChatEventKind::MessageAppended { id, message: decode_message(&item)?, side: None };
        writing.add_event(author, Some(no), Some(body), what);
    }
    let value = FieldValue::List { generation, len: end, bytes };
    writing.add_mutation(RowMutation::Field(FieldRow { name: HISTORY.to_owned(), value }));
    raise_session_version(chart, writing);
    Ok(())
}
