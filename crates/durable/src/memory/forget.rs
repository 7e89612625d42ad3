//! Turns that are not kept any more.

use super::check::ProjectedSession;
use super::index::{few_numbers_of_session, numbers_of_session};
use super::refusal_error;
use super::state::{MemoryTables, SessionTables};
use crate::{InvocationId, Result, SessionKey, StoredWaitStatus, TurnRow, WaitRow};

impl<'a> ProjectedSession<'a> {
    /// Checks that the turn's invocation is over, and marks the rows that are removed with the turn.
    pub(super) fn project_turn_removal(&mut self, no: u64) -> Result<()> {
        let Some(row) = self.find_turn(no) else { return Ok(()) };
        if !self.is_invocation_over(&row.invocation) {
            return Err(refusal_error(format!("the invocation of turn {no} is over")));
        }
        self.project_key_holder(no, None)?;
        self.turns.insert(no, None);
        let stored = self.stored.and_then(|stored| stored.made.get(no)).into_iter().flatten();
        let made: Vec<u64> = stored.chain(self.items.keys()).copied().collect();
        for item in made {
            if self.find_item(item).is_some_and(|item| item.turn == no && !item.is_placed) {
                self.items.insert(item, None);
            }
        }
        let gone: Vec<u64> = self
            .waits_of_invocation(&row.invocation)
            .filter(|waits_of| waits_of.turn == no)
            .map(|waits_of| waits_of.no)
            .collect();
        self.waits.extend(gone.into_iter().map(|it| (it, None)));
        Ok(())
    }

    fn find_turn(&self, no: u64) -> Option<&'a TurnRow> {
        let stored = || self.stored?.turns.get(no);
        self.turns.get(&no).copied().unwrap_or_else(stored)
    }

    fn is_invocation_over(&self, invocation: &InvocationId) -> bool {
        let (index, key) = (&self.state.index, self.key);
        let stored = self.stored.map(|_| numbers_of_session(index.open.get(&key.tenant), &key.session));
        let put = self.turns.keys().copied();
        let mut turns = stored.into_iter().flatten().chain(put).filter_map(|item| self.find_turn(item));
        let is_open = turns.any(|turn| turn.invocation == *invocation && !turn.status.is_ended());
        !is_open && self.waits_of_invocation(invocation).all(|it| it.status != StoredWaitStatus::Pending)
    }

    /// Returns the waits of an invocation as they are now; some of them twice.
    fn waits_of_invocation(&self, invocation: &InvocationId) -> impl Iterator<Item = &'a WaitRow> {
        let (index, key) = (&self.state.index, self.key);
        let places = index.waits.get(&(invocation.clone(), key.tenant.clone()));
        let stored = self.stored.map(|_| few_numbers_of_session(places, &key.session));
        let put = self.waits.keys().copied();
        let wait = |no: u64| {
            let stored = || self.stored?.waits.get(no);
            self.waits.get(&no).copied().unwrap_or_else(stored)
        };
        let waits = stored.into_iter().flatten().chain(put).filter_map(wait);
        waits.filter(|wait| wait.invocation == *invocation)
    }
}

impl MemoryTables {
    /// Removes a turn and the rows that belong to it alone.
    pub(super) fn remove_turn(&mut self, key: &SessionKey, no: u64) {
        let Some(row) = self.find_session(key).and_then(|session| session.turns.get(no)).cloned() else {
            return;
        };
        let places = self.index.waits.get(&(row.invocation.clone(), key.tenant.clone()));
        let waits: Vec<WaitRow> = self.find_session(key).map_or_else(Vec::new, |session| {
            let waits = few_numbers_of_session(places, &key.session).filter_map(|it| session.waits.get(it));
            waits.filter(|wait| wait.turn == no).cloned().collect()
        });
        self.index.remove_turn(key, &row);
        waits.iter().for_each(|wait| self.index.remove_wait(key, wait));
        let Some(session) = self.find_session_mut(key) else { return };
        waits.iter().for_each(|wait| session.waits.remove_row(wait.no));
        session.remove_turn_rows(no);
    }
}

impl SessionTables {
    fn remove_turn_rows(&mut self, no: u64) {
        self.free_idempotency_key(no);
        self.turns.remove_row(no);
        self.records.remove_row(no);
        let Self { made, items, .. } = self;
        let Some(numbers) = made.get_mut(no) else { return };
        numbers.retain(|item| {
            let is_loose = items.get(*item).is_some_and(|items| items.placement.is_none());
            if is_loose {
                items.remove_row(*item);
            }
            !is_loose
        });
        if numbers.is_empty() {
            made.remove_row(no);
        }
    }
}
