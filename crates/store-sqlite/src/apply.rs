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

use singletree_durable::{Batch, Counters, ItemRow, Put, SessionId, SessionKey, TurnRow};

use crate::error::{Failure, refused};
use crate::meter::Scribe;

/// The session that a batch is about, as it changes from put to put.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// Its name.
    key: &'a SessionKey,
    /// The stored session before the batch, when it existed.
    found: Option<Found>,
    /// Its integer id, when it exists.
    id: Option<i64>,
    /// Whether the counters were written with the head.
    counted: bool,
    /// The sessions that it has inherited from.
    sources: BTreeSet<&'a SessionId>,
    /// The puts that are still to come.
    rest: &'a [Put],
}

/// A session as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    id: i64,
    version: u64,
    counters: Counters,
}

impl Target<'_> {
    /// Tells whether an item is the message that its turn, which is still to come, answers.
    fn is_answered(&self, item: &ItemRow) -> bool {
        let names = |it: &TurnRow| it.no == item.turn && it.message == Some(item.no);
        self.rest.iter().any(|item| matches!(item, Put::Turn(row) if names(row)))
    }

    /// Returns the counters that are still to come, if they may be written with the head.
    fn coming_counters(&self) -> Option<Counters> {
        self.rest.iter().take_while(|item| !matches!(item, Put::Delete)).find_map(|item| match item {
            Put::Counters(counters) => Some(*counters),
            _ => None,
        })
    }

    /// Returns the id of a session that must exist, at the latest by a head that is still to come.
    fn existing(&mut self, scribe: &Scribe<'_>) -> Result<i64, Failure> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let head =
            self.rest.iter().take_while(|item| !matches!(item, Put::Delete)).find_map(|item| match item {
                Put::Head(head) => Some(head),
                _ => None,
            });
        match head {
            Some(head) => session::head(scribe, self, head),
            None => refused(format!("the session {} exists", self.key.session)),
        }
    }
}

/// Applies a batch within the transaction of its group.
pub(crate) fn batch(scribe: &Scribe<'_>, batch: &Batch) -> Result<(), Failure> {
    require::fence(scribe, batch.fence)?;
    let found = session::found(scribe, &batch.key)?;
    let (key, id, rest) = (&batch.key, found.map(|found| found.id), batch.puts.as_slice());
    let mut target = Target { key, found, id, counted: false, sources: BTreeSet::new(), rest };
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

fn put<'a>(scribe: &Scribe<'_>, target: &mut Target<'a>, put: &'a Put) -> Result<(), Failure> {
    match put {
        Put::Head(head) => session::head(scribe, target, head).map(drop),
        // They went with the head, or go now.
        Put::Counters(_) if std::mem::take(&mut target.counted) => Ok(()),
        Put::Counters(counters) => session::counters(scribe, target.existing(scribe)?, counters),
        Put::Field(row) => session::field(scribe, target.existing(scribe)?, row),
        Put::DropField(name) => session::drop_field(scribe, target.id, name),
        Put::Item(row) => {
            let loose = row.placement.is_none() && !target.is_answered(row);
            item::add(scribe, target.existing(scribe)?, row, loose)
        }
        Put::Place { item, placement } => item::place(scribe, target.existing(scribe)?, *item, placement),
        Put::Side { item, side } => item::tell_beside(scribe, target.existing(scribe)?, *item, side),
        Put::Turn(row) => turn::put(scribe, target.existing(scribe)?, row),
        Put::FreeKey { turn } => turn::free_key(scribe, target.id, *turn),
        Put::Wait(row) => wait::put(scribe, target.existing(scribe)?, row),
        Put::Mail(row) => wait::put_mail(scribe, target.existing(scribe)?, row),
        Put::DropMail(signal) => wait::remove_mail(scribe, target.id, signal),
        Put::Position(row) => position::put(scribe, target.existing(scribe)?, row),
        Put::DropPosition(invocation) => position::remove(scribe, target.id, invocation),
        Put::Record(row) => position::put_record(scribe, target.existing(scribe)?, row),
        Put::DropRecords { turn } => position::remove_records(scribe, target.id, *turn),
        Put::Event(row) => log::event(scribe, target.existing(scribe)?, row),
        Put::Inherit { from, field, generation, len } => {
            target.sources.insert(from);
            fork::inherit(
                scribe,
                target,
                &fork::Beginning { from, field, generation: *generation, len: *len },
            )
        }
        Put::DropTurn { turn } => retain::turn(scribe, target.id, *turn),
        Put::DropEvents { before } => retain::events(scribe, target.id, *before),
        Put::Usage(row) => {
            target.existing(scribe)?;
            usage::add(scribe, target.key, row)
        }
        Put::Delete => session::delete(scribe, target),
        Put::Document { kind, id, body, expires_at, outlives } => {
            let session = (!outlives).then_some(&target.key.session);
            let name = (&target.key.tenant, kind.as_str(), id.as_str());
            document::write(scribe, name, session, (body, *expires_at))
        }
        Put::Audit(row) => log::audit(scribe, row),
    }
}
