//! Mends one finding: one batch, refused when the session is not the one that was looked at.

use std::sync::Arc;

use singletree_durable::{
    Counters, FieldRow, FieldValue, Journal, Put, Require, Timestamp, TurnKind, TurnRow, TurnStatus, WaitRow,
    WaitStatus,
};
use singletree_engine::{Error as RunError, Item};

use super::chart::Chart;
use super::corrupt;
use super::finding::Mend;
use super::log;
use crate::bucket::BucketTable;
use crate::calls::{Closing, Records, closings};
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::limit::Limits;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::position::Position;
use crate::record::{Recorded, TurnRowExt, message};
use crate::reply::{Replies, Reporting};
use crate::stored;
use crate::turn_id::MessageId;
use crate::writing::{Author, Beside, Numbers, Writing};
use crate::{Error, Result, transition};

/// Carries out one repair.
pub(super) async fn repair(journal: &dyn Journal, chart: &Chart, mend: &Mend, now: Timestamp) -> Result<()> {
    let epoch: Arc<str> = journal.log_epoch().into();
    let row = &chart.row;
    let mut writing = Writing::new(&row.key, journal.fence(), row.counters, now, &epoch);
    writing.require(Require::SessionVersion(row.head.version));
    writing.require(Require::Counters(row.counters));
    match mend {
        Mend::Counters => raise(chart, &mut writing),
        Mend::Length { field, generation, len } => {
            let place = (journal, &row.key, None);
            let list = stored::read_list(place, field, *generation, *len).await?;
            let bytes = list.iter_from(0).map(size).sum();
            let value = FieldValue::List { generation: *generation, len: *len, bytes };
            // The version stays: where a suspended invocation stands is bound to it (D1).
            writing.put(Put::Field(FieldRow { name: field.clone(), value }));
        }
        Mend::MarkEnded { turn, status } => {
            let turn = found(chart, *turn)?;
            writing.require(Require::Turn { no: turn.no, status: turn.status });
            let ended_at = turn.ended_at.or(Some(now));
            writing.put(Put::Turn(TurnRow { status: *status, ended_at, ..turn.clone() }));
        }
        Mend::GiveUp { turn } => {
            let turn = found(chart, *turn)?;
            writing.require(Require::Turn { no: turn.no, status: turn.status });
            let fence = singletree_durable::Fence(0);
            writing.put(Put::Turn(TurnRow { fence, ..turn.clone() }));
        }
        Mend::CloseTurn { turn, what } => {
            let turn = found(chart, *turn)?;
            writing.require(Require::Turn { no: turn.no, status: TurnStatus::Accepted });
            let error = corrupt(what.clone());
            let closings = if owns_calls(chart, turn) {
                closing(journal, chart, Some(turn.no)).await?
            } else {
                Vec::new()
            };
            end(&mut writing, chart, turn.clone(), &error, closings)?;
        }
        Mend::EndInvocation { turn, what } => {
            let suspended = found(chart, *turn)?;
            let row = ending(chart, &mut writing, suspended);
            let invocation = row.invocation.to_string();
            let error = RunError::SuspensionRecord { invocation, reason: what.clone() }.into();
            end(&mut writing, chart, row, &error, closing(journal, chart, None).await?)?;
        }
        Mend::CancelWait { wait } => {
            let wait = chart.waits.get(wait).ok_or_else(|| corrupt(format!("wait {wait} is missing")))?;
            cancel(&mut writing, wait, None);
        }
        Mend::DropPosition { invocation } => writing.put(Put::DropPosition(invocation.clone())),
        Mend::DropMail { signal } => writing.put(Put::DropMail(signal.clone())),
        Mend::DropRecords { turn } => writing.put(Put::DropRecords { turn: *turn }),
        Mend::CloseCalls => {
            let last = chart.turns.last().ok_or_else(|| corrupt("there is no turn".into()))?;
            let author = Author { no: last.no, id: last.id() };
            close(&mut writing, chart, &author, closing(journal, chart, None).await?)?;
        }
    }
    Ok(journal.apply(writing.finish().batch).await?)
}

fn found(chart: &Chart, no: u64) -> Result<&TurnRow> {
    chart.turn(no).ok_or_else(|| corrupt(format!("turn {no} is missing")))
}

/// Tells whether the calls that are open at the end of the history are this turn's: not those of an earlier turn, which
/// the next message closes, nor of another invocation that waits.
fn owns_calls(chart: &Chart, turn: &TurnRow) -> bool {
    turn.ordinal > 0 || chart.items.values().any(|item| item.placed && item.turn == turn.no)
}

fn raise(chart: &Chart, writing: &mut Writing) {
    let (stored, used) = (chart.row.counters, log::used(chart));
    writing.counters = Counters {
        turns: stored.turns.max(used.turns),
        items: stored.items.max(used.items),
        events: stored.events.max(used.events),
        waits: stored.waits.max(used.waits),
    };
}

fn raise_version(chart: &Chart, writing: &mut Writing) {
    let mut head = chart.row.head.clone();
    head.version += 1;
    head.updated_at = writing.now;
    writing.put(Put::Head(head));
}

/// Makes the row of the turn that ends a suspended invocation, and ends its waits.
fn ending(chart: &Chart, writing: &mut Writing, suspended: &TurnRow) -> TurnRow {
    writing.require(Require::Turn { no: suspended.no, status: TurnStatus::Suspended });
    let ours = |it: &&WaitRow| it.status == WaitStatus::Pending && it.invocation == suspended.invocation;
    let waits: Vec<&WaitRow> = chart.waits.values().filter(ours).collect();
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    for wait in &waits {
        cancel(writing, wait, Some(no));
    }
    TurnRow {
        no,
        ordinal: suspended.ordinal + 1,
        kind: TurnKind::Close,
        status: TurnStatus::Accepted,
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

fn cancel(writing: &mut Writing, wait: &WaitRow, by: Option<u64>) {
    writing.require(Require::Wait { no: wait.no, status: WaitStatus::Pending });
    let ended =
        WaitRow { status: WaitStatus::Cancelled, ended_by: by, ended_at: Some(writing.now), ..wait.clone() };
    writing.put(Put::Wait(ended));
}

/// Ends a turn as errored, with nothing unfinished left of it.
fn end(
    writing: &mut Writing,
    chart: &Chart,
    mut row: TurnRow,
    error: &Error,
    closings: Vec<Item>,
) -> Result<()> {
    let author = Author { no: row.no, id: row.id() };
    let begins = chart.turn(row.no).is_none();
    if let Some(wait) = row.wait.filter(|_| begins).and_then(|wait| chart.waits.get(&wait)) {
        let ended = WaitRow { status: WaitStatus::Cancelled, ..wait.clone() };
        transition::claim::signal_event(writing, &author, &ended);
    }
    close(writing, chart, &author, closings)?;
    let errored = errored(&row, error);
    row.status = TurnStatus::Errored;
    row.ended_at = Some(writing.now);
    // The model usage up to the last commit counts, whatever the outcome of the turn.
    let stood = chart.positions.get(&row.invocation).filter(|position| position.turn == row.no);
    let used =
        stood.and_then(|stood| stood.body.decode::<Position>().ok()).map(|it| it.used).unwrap_or_default();
    row.outcome = Some(Recorded::errored(&errored).with(&used)?);
    used.rows().for_each(|row| writing.put(Put::Usage(row)));
    writing.put(Put::DropPosition(row.invocation.clone()));
    writing.put(Put::DropRecords { turn: row.no });
    writing.put(Put::Turn(row));
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    writing.event(&author, None, None, ChatEventKind::TurnErrored { outcome });
    Ok(())
}

fn errored(row: &TurnRow, error: &Error) -> ErroredTurn {
    let (buckets, replies) = (BucketTable::default(), Replies::default());
    let diagnostic_bytes = Limits::default().diagnostic_bytes;
    let reporting = Reporting { buckets: &buckets, replies: &replies, diagnostic_bytes };
    ErroredTurn { retry_safe: false, ..reporting.errored(Some(row.id()), error) }
}

/// Makes the tool messages that close the open calls at the end of the history (D8), using the records of a turn.
/// Returns none when the history cannot be read.
async fn closing(journal: &dyn Journal, chart: &Chart, turn: Option<u64>) -> Result<Vec<Item>> {
    let Some((generation, len)) = chart.history() else { return Ok(Vec::new()) };
    if chart.said.len() as u64 != len
        || chart.said.iter().any(|it| matches!(it, super::chart::Said::Unreadable(_)))
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
    let closing = Closing { status: "unknown", reason: "what became of this call is not known" };
    Ok(closings(&list, &records, closing))
}

fn size(item: &Item) -> u64 {
    item.text().map_or(0, str::len) as u64
}

/// Appends these messages to the history.
fn close(writing: &mut Writing, chart: &Chart, author: &Author, closings: Vec<Item>) -> Result<()> {
    let Some((generation, len)) = chart.history().filter(|_| !closings.is_empty()) else { return Ok(()) };
    let mut numbers = Numbers::default();
    let end = len + closings.len() as u64;
    let bytes = chart.history_bytes() + closings.iter().map(size).sum::<u64>();
    for (seq, item) in (len..).zip(closings) {
        let placement = singletree_durable::Placement { field: HISTORY.to_owned(), generation, seq };
        let beside = Beside { placement: Some(placement), side: None };
        let no = writing.new_item(author, &item, beside, &mut numbers)?;
        let id = MessageId { turn: author.id.clone(), k: seq - len };
        let body = singletree_durable::Json::from_text(format!("{{\"k\":{}}}", id.k));
        let what = ChatEventKind::MessageAppended { id, message: message(&item)?, side: None };
        writing.event(author, Some(no), Some(body), what);
    }
    let value = FieldValue::List { generation, len: end, bytes };
    writing.put(Put::Field(FieldRow { name: HISTORY.to_owned(), value }));
    raise_version(chart, writing);
    Ok(())
}
