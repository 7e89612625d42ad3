//! Repairs one finding: reads what the repair needs, and stores the batch that the session core makes of it.

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, FencingToken, FieldRow, FieldValue, Journal, RowMutation, SessionKey,
    StoredTurnStatus, StoredWaitStatus, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::{Error as RunError, Item};
use singletree_session::apply::repair::{self, BrokenTurn, ExaminedSession};
use singletree_session::{
    BatchBuilder, BucketTable, ClosingAnswer, ErroredTurn, HISTORY, Limits, Records, StoredPosition,
    TurnIdentity, TurnRowExt, make_closing_messages,
};

use super::chart::SessionRowSet;
use super::corrupt_store_error;
use super::finding::RepairAction;
use super::log;
use crate::agents::reply::{ErrorReplies, ErrorReporter};
use crate::runtime::field_reads::read_stored_list;
use crate::{Error, Result};

/// One repair of a session that was read.
pub(super) struct SessionRepair<'a> {
    pub(super) journal: &'a dyn Journal,
    pub(super) chart: &'a SessionRowSet,
    pub(super) mend: &'a RepairAction,
}

impl SessionRepair<'_> {
    /// Makes the batch of the repair: it is refused when the session has changed since it was read.
    pub(super) async fn write_batch(self, (now, fence): (Timestamp, FencingToken)) -> Result<BatchBuilder> {
        let Self { journal, chart, mend } = self;
        let epoch: Arc<str> = journal.log_epoch().into();
        let row = &chart.row;
        let session = examined_session(chart);
        let mut writing = BatchBuilder::new(&row.key, fence, row.counters, now, &epoch);
        repair::begin_repair(&mut writing, session);
        match mend {
            RepairAction::Counters => {
                repair::raise_counters(&mut writing, row.counters, log::lowest_free_numbers(chart));
            }
            RepairAction::Length { field, generation, len } => {
                let field = measure_list_field(journal, &row.key, field, (*generation, *len)).await?;
                writing.add_mutation(RowMutation::Field(field));
            }
            RepairAction::MarkEnded { turn, status } => {
                repair::mark_turn_ended(&mut writing, find_turn(chart, *turn)?, *status);
            }
            RepairAction::GiveUp { turn } => repair::give_up_turn(&mut writing, find_turn(chart, *turn)?),
            RepairAction::CloseTurn { turn, what } => {
                let turn = find_turn(chart, *turn)?;
                writing.require(BatchPrecondition::Turn { no: turn.no, status: StoredTurnStatus::Accepted });
                let error = corrupt_store_error(what.clone());
                let closings = match owns_open_calls(chart, turn) {
                    true => load_closing_messages(journal, chart, Some(turn.no)).await?,
                    false => Vec::new(),
                };
                let broken = describe_broken_turn(chart, turn.clone(), &error, closings);
                repair::end_broken_turn(&mut writing, session, broken)?;
            }
            RepairAction::EndInvocation { turn, what } => {
                let suspended = find_turn(chart, *turn)?;
                let ours = |wait: &&WaitRow| {
                    wait.status == StoredWaitStatus::Pending && wait.invocation == suspended.invocation
                };
                let waits: Vec<&WaitRow> = chart.waits.values().filter(ours).collect();
                let row = repair::begin_closing_turn(&mut writing, suspended, &waits);
                let invocation = row.invocation.to_string();
                let error = RunError::SuspensionRecord { invocation, reason: what.clone() }.into();
                let closings = load_closing_messages(journal, chart, None).await?;
                let broken = describe_broken_turn(chart, row, &error, closings);
                repair::end_broken_turn(&mut writing, session, broken)?;
            }
            RepairAction::CancelWait { wait } => {
                let row = chart.waits.get(wait);
                let missing = || corrupt_store_error(format!("wait {wait} is missing"));
                repair::cancel_wait(&mut writing, row.ok_or_else(missing)?, None);
            }
            RepairAction::DropPosition { invocation } => {
                writing.add_mutation(RowMutation::DropPosition(invocation.clone()))
            }
            RepairAction::DropMail { signal } => writing.add_mutation(RowMutation::DropMail(signal.clone())),
            RepairAction::DropRecords { turn } => {
                writing.add_mutation(RowMutation::DropRecords { turn: *turn })
            }
            RepairAction::CloseCalls => {
                let last =
                    chart.turns.last().ok_or_else(|| corrupt_store_error("there is no turn".into()))?;
                let author = TurnIdentity { no: last.no, id: last.turn_id() };
                let closings = load_closing_messages(journal, chart, None).await?;
                repair::append_closing_messages(&mut writing, session, &author, closings)?;
            }
        }
        Ok(writing)
    }
}

fn examined_session(chart: &SessionRowSet) -> ExaminedSession<'_> {
    let history = chart.find_history_list().map(|(generation, len)| (generation, len, chart.history_bytes()));
    ExaminedSession { head: &chart.row.head, counters: chart.row.counters, history }
}

/// Reads a list and returns its field row with the right number of bytes. The version of the session stays, because the
/// position of a suspended invocation is bound to it (D1).
async fn measure_list_field(
    journal: &dyn Journal,
    key: &SessionKey,
    field: &str,
    (generation, len): (u64, u64),
) -> Result<FieldRow> {
    let list = read_stored_list((journal, key, None), field, generation, len).await?;
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

/// Describes a turn that a repair ends as errored.
fn describe_broken_turn<'a>(
    chart: &'a SessionRowSet,
    row: TurnRow,
    error: &Error,
    closings: Vec<Item>,
) -> BrokenTurn<'a> {
    let begins = chart.find_turn(row.no).is_none();
    let closes = row.wait.filter(|_| begins).and_then(|wait| chart.waits.get(&wait));
    let errored = make_errored_turn(&row, error);
    let stood = chart.positions.get(&row.invocation).filter(|position| position.turn == row.no);
    let used = stood
        .and_then(|stood| stood.body.decode::<StoredPosition>().ok())
        .map(|position| position.used)
        .unwrap_or_default();
    BrokenTurn { row, closes, errored, used, closings }
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
    let list = read_stored_list((journal, &chart.row.key, None), HISTORY, generation, len).await?;
    let closing = ClosingAnswer { status: "unknown", reason: "what became of this call is not known" };
    Ok(make_closing_messages(&list, &records, closing))
}

fn item_text_bytes(item: &Item) -> u64 {
    item.json_text().map_or(0, str::len) as u64
}
