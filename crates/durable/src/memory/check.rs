//! Whether a batch may be written: asked before its first row is, so that writing cannot stop half way.

use std::collections::{BTreeMap, BTreeSet};

use super::index::numbers_of_session;
use super::refusal_error;
use super::state::{MemoryTables, SessionTables};
use crate::{
    Batch, BatchPrecondition, Error, ItemPlacement, ListItemRow, Result, RowMutation, SessionKey, TurnRow,
    WaitRow,
};

/// Checks everything that can refuse a batch.
pub(super) fn check_batch(state: &MemoryTables, batch: &Batch) -> Result<()> {
    if !state.leases.is_held_under(&batch.key, batch.fence) {
        return Err(Error::LeaseLost { key: batch.key.clone(), fence: batch.fence });
    }
    if let Some(require) =
        batch.requires.iter().find(|require| !requirement_holds(state, &batch.key, require))
    {
        return Err(refusal_error(format!("{require:?}")));
    }
    let mut ahead = ProjectedSession::from_stored(state, &batch.key);
    batch.puts.iter().try_for_each(|put| ahead.project_mutation(put))?;
    ahead.check_rows_have_head()
}

fn requirement_holds(state: &MemoryTables, key: &SessionKey, require: &BatchPrecondition) -> bool {
    let session = state.find_session(key);
    match require {
        BatchPrecondition::SessionAbsent => session.is_none(),
        BatchPrecondition::SessionVersion(version) => {
            session.and_then(|session| session.head.as_ref()).is_some_and(|value| value.version == *version)
        }
        BatchPrecondition::Counters(counters) => state.find_counters(key) == *counters,
        BatchPrecondition::Turn { no, status } => {
            session.and_then(|session| session.turns.get(*no)).is_some_and(|value| value.status == *status)
        }
        BatchPrecondition::NewestTurn(no) => session
            .and_then(|session| session.turns.iter_rows().map(|(no, _)| no).max())
            .is_some_and(|value| value == *no),
        BatchPrecondition::KeyFree(idempotency) => {
            !session.is_some_and(|session| session.keys.contains_key(idempotency))
        }
        BatchPrecondition::Wait { no, status } => {
            session.and_then(|session| session.waits.get(*no)).is_some_and(|value| value.status == *status)
        }
        BatchPrecondition::MailAbsent(signal) => {
            !session.is_some_and(|session| session.mail.contains_key(signal))
        }
        BatchPrecondition::Idle => [&state.index.open, &state.index.pending]
            .into_iter()
            .all(|index| numbers_of_session(index.get(&key.tenant), &key.session).next().is_none()),
        BatchPrecondition::Source { session, created_at, version } => {
            let head = state.find_sibling_session(key, session).and_then(|sibling| sibling.head.as_ref());
            head.is_some_and(|head| head.created_at == *created_at && head.version == *version)
        }
    }
}

/// The session as the puts so far would leave it, as far as later puts can be refused because of it.
pub(super) struct ProjectedSession<'a> {
    pub(super) state: &'a MemoryTables,
    pub(super) key: &'a SessionKey,
    /// The session as stored; absent once the batch has deleted it.
    pub(super) stored: Option<&'a SessionTables>,
    has_head: bool,
    pub(super) has_rows: bool,
    /// The items that were touched; `None` for those that were removed.
    pub(super) items: BTreeMap<u64, Option<ProjectedItem>>,
    places: BTreeSet<(&'a str, u64, u64)>,
    events: BTreeSet<u64>,
    /// Events of lower numbers were removed.
    events_from: u64,
    /// The turns that were touched; `None` for those that were removed.
    pub(super) turns: BTreeMap<u64, Option<&'a TurnRow>>,
    /// The waits that were put.
    pub(super) waits: BTreeMap<u64, Option<&'a WaitRow>>,
    /// Who holds the keys that were touched.
    keys: BTreeMap<&'a str, Option<u64>>,
    /// The keys of the turns that were touched.
    held: BTreeMap<u64, Option<&'a str>>,
}

/// The fields of an item that the checks of later puts need.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProjectedItem {
    pub(super) turn: u64,
    pub(super) is_placed: bool,
}

impl<'a> ProjectedSession<'a> {
    fn from_stored(state: &'a MemoryTables, key: &'a SessionKey) -> Self {
        let stored = state.find_session(key);
        Self { stored, has_head: stored.is_some(), ..Self::without_session(state, key) }
    }

    fn without_session(state: &'a MemoryTables, key: &'a SessionKey) -> Self {
        Self {
            state,
            key,
            stored: None,
            has_head: false,
            has_rows: false,
            items: BTreeMap::new(),
            places: BTreeSet::new(),
            events: BTreeSet::new(),
            events_from: 0,
            turns: BTreeMap::new(),
            waits: BTreeMap::new(),
            keys: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    fn project_mutation(&mut self, put: &'a RowMutation) -> Result<()> {
        match put {
            RowMutation::Head(_) => self.has_head = true,
            RowMutation::Delete => {
                self.check_rows_have_head()?;
                *self = Self::without_session(self.state, self.key);
            }
            RowMutation::DropField(_)
            | RowMutation::DropMail(_)
            | RowMutation::DropPosition(_)
            | RowMutation::DropRecords { .. }
            | RowMutation::Document { .. }
            | RowMutation::Audit(_) => {}
            RowMutation::Counters(_)
            | RowMutation::Field(_)
            | RowMutation::Mail(_)
            | RowMutation::Position(_)
            | RowMutation::Record(_)
            | RowMutation::Usage(_) => self.has_rows = true,
            RowMutation::Wait(row) => {
                self.has_rows = true;
                self.waits.insert(row.no, Some(row));
            }
            RowMutation::Item(row) => self.project_item(row)?,
            RowMutation::Place { item, placement } => self.project_placement(*item, placement)?,
            RowMutation::Side { item, .. } => {
                self.find_item(*item).map(drop).ok_or_else(|| refusal_error(format!("item {item} exists")))?
            }
            RowMutation::Turn(row) => self.project_turn(row)?,
            RowMutation::FreeKey { turn } => self.project_key_holder(*turn, None)?,
            RowMutation::Event(row) => self.project_event(row.seq)?,
            RowMutation::Inherit { from, field, generation, len } => {
                self.project_inheritance(from, field, *generation, *len)?
            }
            RowMutation::DropTurn { turn } => self.project_turn_removal(*turn)?,
            RowMutation::DropEvents { before } => {
                self.events_from = self.events_from.max(*before);
                self.events.retain(|event| event >= before);
            }
        }
        Ok(())
    }

    /// Checks the requirements on a session at the end of the batch, or at a delete in it.
    fn check_rows_have_head(&self) -> Result<()> {
        match self.has_rows && !self.has_head {
            true => Err(refusal_error("the session exists".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn project_item(&mut self, row: &'a ListItemRow) -> Result<()> {
        self.has_rows = true;
        if self.find_item(row.no).is_some() {
            return Err(refusal_error(format!("item {} is free", row.no)));
        }
        self.items.insert(row.no, Some(ProjectedItem { turn: row.turn, is_placed: row.placement.is_some() }));
        row.placement.as_ref().map_or(Ok(()), |placement| self.occupy_place(placement))
    }

    fn project_placement(&mut self, item: u64, placement: &'a ItemPlacement) -> Result<()> {
        match self.find_item(item).filter(|item| !item.is_placed) {
            Some(found) => self.items.insert(item, Some(ProjectedItem { is_placed: true, ..found })),
            None => return Err(refusal_error(format!("item {item} has no place yet"))),
        };
        self.occupy_place(placement)
    }

    fn occupy_place(&mut self, place: &'a ItemPlacement) -> Result<()> {
        let is_taken = self.stored.is_some_and(|stored| stored.find_item_at(place).is_some());
        if is_taken || !self.places.insert((&place.field, place.generation, place.seq)) {
            return Err(refusal_error(format!("place {} of list {:?} is free", place.seq, place.field)));
        }
        Ok(())
    }

    /// Finds an item.
    pub(super) fn find_item(&self, no: u64) -> Option<ProjectedItem> {
        let seen = |it: &ListItemRow| ProjectedItem { turn: it.turn, is_placed: it.placement.is_some() };
        let stored = || self.stored?.items.get(no).map(seen);
        self.items.get(&no).copied().unwrap_or_else(stored)
    }

    fn project_event(&mut self, seq: u64) -> Result<()> {
        self.has_rows = true;
        let is_taken =
            seq >= self.events_from && self.stored.is_some_and(|stored| stored.events.get(seq).is_some());
        if is_taken || !self.events.insert(seq) {
            return Err(refusal_error(format!("event {seq} is free")));
        }
        Ok(())
    }

    fn project_turn(&mut self, row: &'a TurnRow) -> Result<()> {
        self.has_rows = true;
        self.turns.insert(row.no, Some(row));
        self.project_key_holder(row.no, row.key.as_deref())
    }

    /// Notes which key a turn holds from now on.
    pub(super) fn project_key_holder(&mut self, turn: u64, key: Option<&'a str>) -> Result<()> {
        let stored = self.stored;
        let before = self.held.get(&turn).copied();
        let before = before.unwrap_or_else(|| {
            stored.and_then(|stored| stored.turns.get(turn)).and_then(|it| it.key.as_deref())
        });
        if let Some(before) = before {
            self.keys.insert(before, None);
        }
        self.held.insert(turn, key);
        let Some(key) = key else { return Ok(()) };
        let holder = self.keys.get(key).copied();
        if holder.unwrap_or_else(|| stored.and_then(|stored| stored.keys.get(key).copied())).is_some() {
            return Err(refusal_error(format!("idempotency key {key:?} is free")));
        }
        self.keys.insert(key, Some(turn));
        Ok(())
    }
}
