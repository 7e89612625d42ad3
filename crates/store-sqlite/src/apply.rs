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

use singletree_durable::{Batch, Counters, ListItemRow, RowMutation, SessionId, SessionKey, TurnRow};

use crate::error::{BatchFailure, refused};
use crate::meter::WriteTransaction;

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
    fn is_answered(&self, item: &ListItemRow) -> bool {
        let names = |it: &TurnRow| it.no == item.turn && it.message == Some(item.no);
        self.rest.iter().any(|item| matches!(item, RowMutation::Turn(row) if names(row)))
    }

    /// Returns the counters that are still to come, if they may be written with the head.
    fn coming_counters(&self) -> Option<Counters> {
        self.rest.iter().take_while(|item| !matches!(item, RowMutation::Delete)).find_map(|item| match item {
            RowMutation::Counters(counters) => Some(*counters),
            _ => None,
        })
    }

    /// Returns the id of a session that must exist, at the latest by a head that is still to come.
    fn existing(&mut self, scribe: &WriteTransaction<'_>) -> Result<i64, BatchFailure> {
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
            Some(head) => session::head(scribe, self, head),
            None => refused(format!("the session {} exists", self.key.session)),
        }
    }
}

/// Applies a batch within the transaction of its group.
pub(crate) fn batch(scribe: &WriteTransaction<'_>, batch: &Batch) -> Result<(), BatchFailure> {
    require::fence(scribe, batch.fence)?;
    let found = session::found(scribe, &batch.key)?;
    let (key, id, rest) = (&batch.key, found.map(|found| found.id), batch.puts.as_slice());
    let mut target = TargetSession { key, found, id, counted: false, sources: BTreeSet::new(), rest };
    for requirement in &batch.requires {
        require::check(scribe, &target, requirement)?;
    }
    while let Some((first, rest)) = target.rest.split_first() {
        target.rest = rest;
        put(scribe, &mut target, first)?;
    }
    // Once everything is there that may name one.
    for source in std::mem::take(&mut target.sources) {
        blob::inherit(scribe, &target, source)?;
    }
    Ok(())
}

fn put<'a>(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'a>,
    put: &'a RowMutation,
) -> Result<(), BatchFailure> {
    match put {
        RowMutation::Head(head) => session::head(scribe, target, head).map(drop),
        // They went with the head, or go now.
        RowMutation::Counters(_) if std::mem::take(&mut target.counted) => Ok(()),
        RowMutation::Counters(counters) => session::counters(scribe, target.existing(scribe)?, counters),
        RowMutation::Field(row) => session::field(scribe, target.existing(scribe)?, row),
        RowMutation::DropField(name) => session::drop_field(scribe, target.id, name),
        RowMutation::Item(row) => {
            let loose = row.placement.is_none() && !target.is_answered(row);
            item::add(scribe, target.existing(scribe)?, row, loose)
        }
        RowMutation::Place { item, placement } => {
            item::place(scribe, target.existing(scribe)?, *item, placement)
        }
        RowMutation::Side { item, side } => item::tell_beside(scribe, target.existing(scribe)?, *item, side),
        RowMutation::Turn(row) => turn::put(scribe, target.existing(scribe)?, row),
        RowMutation::FreeKey { turn } => turn::free_key(scribe, target.id, *turn),
        RowMutation::Wait(row) => wait::put(scribe, target.existing(scribe)?, row),
        RowMutation::Mail(row) => wait::put_mail(scribe, target.existing(scribe)?, row),
        RowMutation::DropMail(signal) => wait::remove_mail(scribe, target.id, signal),
        RowMutation::Position(row) => position::put(scribe, target.existing(scribe)?, row),
        RowMutation::DropPosition(invocation) => position::remove(scribe, target.id, invocation),
        RowMutation::Record(row) => position::put_record(scribe, target.existing(scribe)?, row),
        RowMutation::DropRecords { turn } => position::remove_records(scribe, target.id, *turn),
        RowMutation::Event(row) => log::event(scribe, target.existing(scribe)?, row),
        RowMutation::Inherit { from, field, generation, len } => {
            target.sources.insert(from);
            fork::inherit(
                scribe,
                target,
                &fork::ForkedListPrefix { from, field, generation: *generation, len: *len },
            )
        }
        RowMutation::DropTurn { turn } => retain::turn(scribe, target.id, *turn),
        RowMutation::DropEvents { before } => retain::events(scribe, target.id, *before),
        RowMutation::Usage(row) => {
            target.existing(scribe)?;
            usage::add(scribe, target.key, row)
        }
        RowMutation::Delete => session::delete(scribe, target),
        RowMutation::Document { kind, id, body, expires_at, outlives } => {
            let session = (!outlives).then_some(&target.key.session);
            let name = (&target.key.tenant, kind.as_str(), id.as_str());
            document::write(scribe, name, session, (body, *expires_at))
        }
        RowMutation::Audit(row) => log::audit(scribe, row),
    }
}
