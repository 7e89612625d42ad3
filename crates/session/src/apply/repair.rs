//! Stored data violates an invariant, and is repaired: by one batch, refused when the session is not the one that was
//! examined.

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, Counters, FencingToken, FieldRow, FieldValue, ItemPlacement, JsonDocument,
    RowMutation, SessionHead, StoredTurnKind, StoredTurnStatus, StoredWaitStatus, TurnRow, WaitRow,
};
use singletree_graph::Item;

use super::claim::announce_wait_end;
use crate::Error;
use crate::batch::{BatchBuilder, ItemMetadata, ItemNumbering, TurnIdentity};
use crate::codec::record::{OutcomeRecord, TurnRowExt, decode_message};
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::turn_id::MessageId;
use crate::usage::TurnModelUsage;

/// A session as it was examined.
#[derive(Debug, Clone, Copy)]
pub struct ExaminedSession<'a> {
    /// Its head.
    pub head: &'a SessionHead,
    /// Its next free numbers, as they are stored.
    pub counters: Counters,
    /// The generation of the history's rows, the number of messages, and their bytes; none without a history.
    pub history: Option<(u64, u64, u64)>,
}

/// Begins a repair: the session must be the one that was examined.
pub fn begin_repair(writing: &mut BatchBuilder, session: ExaminedSession<'_>) {
    writing.require(BatchPrecondition::SessionVersion(session.head.version));
    writing.require(BatchPrecondition::Counters(session.counters));
}

/// Raises the next free numbers to those that the rows leave free.
pub fn raise_counters(writing: &mut BatchBuilder, stored: Counters, used: Counters) {
    writing.counters = Counters {
        turns: stored.turns.max(used.turns),
        items: stored.items.max(used.items),
        events: stored.events.max(used.events),
        waits: stored.waits.max(used.waits),
    };
}

/// Marks a turn as ended that has an outcome already.
pub fn mark_turn_ended(writing: &mut BatchBuilder, turn: &TurnRow, status: StoredTurnStatus) {
    writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
    let ended_at = turn.ended_at.or(Some(writing.now));
    writing.add_mutation(RowMutation::Turn(TurnRow { status, ended_at, ..turn.clone() }));
}

/// Takes the owner off a turn, so that the next process takes the turn over.
pub fn give_up_turn(writing: &mut BatchBuilder, turn: &TurnRow) {
    writing.require(BatchPrecondition::Turn { no: turn.no, status: turn.status });
    writing.add_mutation(RowMutation::Turn(TurnRow { fence: FencingToken(0), ..turn.clone() }));
}

/// Cancels a wait, by a turn that ends with this batch, if one does.
pub fn cancel_wait(writing: &mut BatchBuilder, wait: &WaitRow, by: Option<u64>) {
    writing.require(BatchPrecondition::Wait { no: wait.no, status: StoredWaitStatus::Pending });
    let status = StoredWaitStatus::Cancelled;
    let ended = WaitRow { status, ended_by: by, ended_at: Some(writing.now), ..wait.clone() };
    writing.add_mutation(RowMutation::Wait(ended));
}

/// Makes the row of the turn that ends a suspended invocation, and ends its waits.
pub fn begin_closing_turn(writing: &mut BatchBuilder, suspended: &TurnRow, waits: &[&WaitRow]) -> TurnRow {
    writing.require(BatchPrecondition::Turn { no: suspended.no, status: StoredTurnStatus::Suspended });
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    for wait in waits {
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

/// A turn that a repair ends.
#[derive(Debug)]
pub struct BrokenTurn<'a> {
    /// Its row.
    pub row: TurnRow,
    /// The wait that it closes, where it begins with this batch.
    pub closes: Option<&'a WaitRow>,
    /// Its outcome.
    pub errored: ErroredTurn,
    /// Its model usage up to the last commit, which counts whatever the outcome is.
    pub used: TurnModelUsage,
    /// The messages that close its open calls.
    pub closings: Vec<Item>,
}

/// Ends a turn as errored, with its usage and its event, and with nothing unfinished left of it.
///
/// # Errors
/// `store_corrupt`.
pub fn end_broken_turn(
    writing: &mut BatchBuilder,
    session: ExaminedSession<'_>,
    broken: BrokenTurn<'_>,
) -> Result<(), Error> {
    let BrokenTurn { mut row, closes, errored, used, closings } = broken;
    let author = TurnIdentity { no: row.no, id: row.turn_id() };
    if let Some(wait) = closes {
        let ended = WaitRow { status: StoredWaitStatus::Cancelled, ..wait.clone() };
        announce_wait_end(writing, &author, &ended, None);
    }
    append_closing_messages(writing, session, &author, closings)?;
    row.status = StoredTurnStatus::Errored;
    row.ended_at = Some(writing.now);
    row.outcome = Some(OutcomeRecord::from_errored_turn(&errored).to_json_with_usage(&used)?);
    used.to_usage_rows().for_each(|row| writing.add_mutation(RowMutation::Usage(row)));
    writing.add_mutation(RowMutation::DropPosition(row.invocation.clone()));
    writing.add_mutation(RowMutation::DropRecords { turn: row.no });
    writing.add_mutation(RowMutation::Turn(row));
    let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
    writing.add_event(&author, None, None, ChatEventKind::TurnErrored { outcome });
    Ok(())
}

/// Appends messages to the history that close its open calls (INV-6), and raises the session's version.
///
/// # Errors
/// `store_corrupt`.
pub fn append_closing_messages(
    writing: &mut BatchBuilder,
    session: ExaminedSession<'_>,
    author: &TurnIdentity,
    closings: Vec<Item>,
) -> Result<(), Error> {
    let Some((generation, len, bytes)) = session.history.filter(|_| !closings.is_empty()) else {
        return Ok(());
    };
    let mut numbers = ItemNumbering::default();
    let end = len + closings.len() as u64;
    let added: u64 = closings.iter().map(|item| item.json_text().map_or(0, str::len) as u64).sum();
    for (seq, item) in (len..).zip(closings) {
        let placement = ItemPlacement { field: HISTORY.to_owned(), generation, seq };
        let beside = ItemMetadata { placement: Some(placement), side: None };
        let no = writing.write_new_item(author, &item, beside, &mut numbers)?;
        let id = MessageId { turn: author.id.clone(), k: seq - len };
        let body = JsonDocument::from_text(format!("{{\"k\":{}}}", id.k));
        let what = ChatEventKind::MessageAppended { id, message: decode_message(&item)?, side: None };
        writing.add_event(author, Some(no), Some(body), what);
    }
    let value = FieldValue::List { generation, len: end, bytes: bytes + added };
    writing.add_mutation(RowMutation::Field(FieldRow { name: HISTORY.to_owned(), value }));
    let head =
        SessionHead { version: session.head.version + 1, updated_at: writing.now, ..session.head.clone() };
    writing.add_mutation(RowMutation::Head(head));
    Ok(())
}
