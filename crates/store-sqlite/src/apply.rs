//! Applies one batch: requirements first, then the puts in order.

pub(crate) mod blob;
pub(crate) mod checkpoint;
pub(crate) mod document;
mod fork;
mod item;
mod log;
pub(crate) mod paused;
mod position;
pub(crate) mod probe;
mod require;
mod retain;
mod session;
mod turn;
mod usage;
mod wait;

use std::collections::BTreeSet;

use singletree_durable::{
    Batch, Counters, FencingToken, ListItemRow, RowMutation, SessionId, SessionKey, TurnRow,
};

use crate::error::{BatchFailure, refuse_batch};
use crate::meter::WriteTransaction;
use crate::number::to_stored_number;

/// The session that a batch is about, as it changes from put to put.
#[derive(Debug)]
pub(crate) struct TargetSession<'a> {
    /// Its name.
    key: &'a SessionKey,
    /// The stored session before the batch, when it existed.
    found: Option<PersistedSession>,
    /// Its integer id, when it exists.
    id: Option<i64>,
    /// Whether the counters were written with the head.
    counted: bool,
    /// The sessions that it has inherited from.
    sources: BTreeSet<&'a SessionId>,
    /// The puts that are still to come.
    rest: &'a [RowMutation],
}

/// A session as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistedSession {
    id: i64,
    version: u64,
    counters: Counters,
}

impl TargetSession<'_> {
    /// Tells whether an item is the message that its turn, which is still to come, answers.
    fn is_message_of_turn(&self, item: &ListItemRow) -> bool {
        let names = |it: &TurnRow| it.no == item.turn && it.message == Some(item.no);
        self.rest.iter().any(|item| matches!(item, RowMutation::Turn(row) if names(row)))
    }

    /// Returns the counters that are still to come, if they may be written with the head.
    fn upcoming_counters(&self) -> Option<Counters> {
        self.rest.iter().take_while(|item| !matches!(item, RowMutation::Delete)).find_map(|item| match item {
            RowMutation::Counters(counters) => Some(*counters),
            _ => None,
        })
    }

    /// Returns the id of a session that must exist, at the latest by a head that is still to come.
    fn require_session_id(&mut self, scribe: &WriteTransaction<'_>) -> Result<i64, BatchFailure> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let head =
            self.rest.iter().take_while(|item| !matches!(item, RowMutation::Delete)).find_map(|item| {
                match item {
                    RowMutation::Head(head) => Some(head),
                    _ => None,
                }
            });
        match head {
            Some(head) => session::put_session_head(scribe, self, head),
            None => refuse_batch(format!("the session {} exists", self.key.session)),
        }
    }
}

/// Writes that a higher fence was given out.
pub(crate) fn raise_fence(scribe: &WriteTransaction<'_>, fence: FencingToken) -> Result<(), BatchFailure> {
    scribe.execute_write("UPDATE meta SET fence = max(fence, ?)", &[to_stored_number(fence.0)?.into()])?;
    scribe.seal_meta_row()
}

/// Applies a batch within the transaction of its group.
pub(crate) fn apply_batch(scribe: &WriteTransaction<'_>, batch: &Batch) -> Result<(), BatchFailure> {
    let found = session::find_session(scribe, &batch.key)?;
    let (key, id, rest) = (&batch.key, found.map(|found| found.id), batch.puts.as_slice());
    let mut target = TargetSession { key, found, id, counted: false, sources: BTreeSet::new(), rest };
    for requirement in &batch.requires {
        require::check_requirement(scribe, &target, requirement)?;
    }
    while let Some((first, rest)) = target.rest.split_first() {
        target.rest = rest;
        apply_mutation(scribe, &mut target, first)?;
    }
    // Once everything is there that may name one.
    for source in std::mem::take(&mut target.sources) {
        blob::inherit_blobs(scribe, &target, source)?;
    }
    Ok(())
}

fn apply_mutation<'a>(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'a>,
    put: &'a RowMutation,
) -> Result<(), BatchFailure> {
    match put {
        RowMutation::Head(head) => session::put_session_head(scribe, target, head).map(drop),
        // They went with the head, or go now.
        RowMutation::Counters(_) if std::mem::take(&mut target.counted) => Ok(()),
        RowMutation::Counters(counters) => {
            session::raise_counters(scribe, target.require_session_id(scribe)?, counters)
        }
        RowMutation::Field(row) => session::put_field(scribe, target.require_session_id(scribe)?, row),
        RowMutation::DropField(name) => session::drop_field(scribe, target.id, name),
        RowMutation::Item(row) => {
            let loose = row.placement.is_none() && !target.is_message_of_turn(row);
            item::insert_item(scribe, target.require_session_id(scribe)?, row, loose)
        }
        RowMutation::Place { item, placement } => {
            item::place_item(scribe, target.require_session_id(scribe)?, *item, placement)
        }
        RowMutation::Side { item, side } => {
            item::replace_side_record(scribe, target.require_session_id(scribe)?, *item, side)
        }
        RowMutation::Turn(row) => turn::put_turn(scribe, target.require_session_id(scribe)?, row),
        RowMutation::FreeKey { turn } => turn::free_idempotency_key(scribe, target.id, *turn),
        RowMutation::Wait(row) => wait::put_wait(scribe, target.require_session_id(scribe)?, row),
        RowMutation::Mail(row) => wait::put_early_signal(scribe, target.require_session_id(scribe)?, row),
        RowMutation::DropMail(signal) => wait::remove_early_signal(scribe, target.id, signal),
        RowMutation::Position(row) => position::put_position(scribe, target.require_session_id(scribe)?, row),
        RowMutation::DropPosition(invocation) => position::remove_position(scribe, target.id, invocation),
        RowMutation::Record(row) => position::put_record(scribe, target.require_session_id(scribe)?, row),
        RowMutation::DropRecords { turn } => position::remove_records(scribe, target.id, *turn),
        RowMutation::Event(row) => log::insert_event(scribe, target.require_session_id(scribe)?, row),
        RowMutation::Inherit { from, field, generation, len } => {
            target.sources.insert(from);
            fork::inherit_items(
                scribe,
                target,
                &fork::ForkedListPrefix { from, field, generation: *generation, len: *len },
            )
        }
        RowMutation::DropTurn { turn } => retain::remove_turn(scribe, target.id, *turn),
        RowMutation::DropEvents { before } => retain::remove_events_before(scribe, target.id, *before),
        RowMutation::Usage(row) => {
            target.require_session_id(scribe)?;
            usage::add_usage(scribe, target.key, row)
        }
        RowMutation::Delete => session::delete_session(scribe, target),
        RowMutation::Document { kind, id, body, expires_at, outlives } => {
            let session = (!outlives).then_some(&target.key.session);
            let name = (&target.key.tenant, kind.as_str(), id.as_str());
            document::write_document(scribe, name, session, (body, *expires_at))
        }
        RowMutation::Audit(row) => log::insert_audit_row(scribe, row),
    }
}
