//! Where turns and waits are found that are not asked for by session and number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use crate::{InvocationId, SessionId, SessionKey, StoredWaitStatus, TenantId, TurnRow, WaitRow};

/// Session and number of a row.
pub(super) type Place = (SessionId, u64);

/// Places in order, of which there may be many.
pub(super) type Places = BTreeSet<Place>;

/// Places in order, of which there are few: mostly one.
pub(super) type Few = Vec<Place>;

/// The indexes over all sessions. Names that come in no order are found by hash: a tree of them would be read all over.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct MemoryIndexes {
    /// Turns without outcome.
    pub(super) open: BTreeMap<TenantId, Places>,
    /// Turns of an invocation.
    pub(super) turns: HashMap<(InvocationId, TenantId), Few>,
    /// Waits that are pending.
    pub(super) pending: BTreeMap<TenantId, Places>,
    /// Waits of an invocation.
    pub(super) waits: HashMap<(InvocationId, TenantId), Few>,
    /// Waits with a signal id.
    pub(super) signals: BTreeMap<(TenantId, String), Places>,
}

impl MemoryIndexes {
    /// Updates the index for a turn from its old row `before` to its new row.
    pub(super) fn update_turn(&mut self, key: &SessionKey, before: Option<&TurnRow>, row: &TurnRow) {
        let place = (key.session.clone(), row.no);
        match (before.is_some_and(|before| !before.status.is_ended()), !row.status.is_ended()) {
            (false, true) => add_place(&mut self.open, &key.tenant, place.clone()),
            (true, false) => remove_place(&mut self.open, &key.tenant, &place),
            (true, true) | (false, false) => {}
        }
        let invocation = |it: &TurnRow| (it.invocation.clone(), key.tenant.clone());
        match before {
            Some(before) if before.invocation == row.invocation => return,
            Some(before) => remove_from_few(&mut self.turns, &invocation(before), &place),
            None => {}
        }
        add_to_few(&mut self.turns, invocation(row), place);
    }

    /// Forgets a turn.
    pub(super) fn remove_turn(&mut self, key: &SessionKey, row: &TurnRow) {
        let place = (key.session.clone(), row.no);
        remove_place(&mut self.open, &key.tenant, &place);
        remove_from_few(&mut self.turns, &(row.invocation.clone(), key.tenant.clone()), &place);
    }

    /// Updates the index for a wait from its old row `before` to its new row.
    pub(super) fn update_wait(&mut self, key: &SessionKey, before: Option<&WaitRow>, row: &WaitRow) {
        if let Some(before) = before {
            self.remove_wait(key, before);
        }
        let place = (key.session.clone(), row.no);
        if row.status == StoredWaitStatus::Pending {
            add_place(&mut self.pending, &key.tenant, place.clone());
        }
        add_to_few(&mut self.waits, (row.invocation.clone(), key.tenant.clone()), place.clone());
        add_place(&mut self.signals, &(key.tenant.clone(), row.signal.clone()), place);
    }

    /// Forgets a wait.
    pub(super) fn remove_wait(&mut self, key: &SessionKey, row: &WaitRow) {
        let place = (key.session.clone(), row.no);
        remove_place(&mut self.pending, &key.tenant, &place);
        remove_from_few(&mut self.waits, &(row.invocation.clone(), key.tenant.clone()), &place);
        remove_place(&mut self.signals, &(key.tenant.clone(), row.signal.clone()), &place);
    }
}

/// Returns the numbers of one session's rows among these places, in order.
pub(super) fn numbers_of_session<'a>(
    places: Option<&'a Places>,
    session: &SessionId,
) -> impl Iterator<Item = u64> + use<'a> {
    let range = (session.clone(), 0)..=(session.clone(), u64::MAX);
    places.into_iter().flat_map(move |place| place.range(range.clone())).map(|(_, no)| *no)
}

/// As [`of_session`], where there are few.
pub(super) fn few_numbers_of_session<'a>(
    places: Option<&'a Few>,
    session: &'a SessionId,
) -> impl Iterator<Item = u64> + use<'a> {
    places.into_iter().flatten().filter(move |place| place.0 == *session).map(|(_, no)| *no)
}

fn add_place<K: Ord + Clone>(index: &mut BTreeMap<K, Places>, key: &K, place: Place) {
    index.entry(key.clone()).or_default().insert(place);
}

fn remove_place<K: Ord>(index: &mut BTreeMap<K, Places>, key: &K, place: &Place) {
    if let Some(places) = index.get_mut(key) {
        places.remove(place);
        if places.is_empty() {
            index.remove(key);
        }
    }
}

fn add_to_few<K: Hash + Eq>(index: &mut HashMap<K, Few>, key: K, place: Place) {
    let few = index.entry(key).or_insert_with(|| Few::with_capacity(1));
    if let Err(at) = few.binary_search(&place) {
        few.insert(at, place);
    }
}

fn remove_from_few<K: Hash + Eq>(index: &mut HashMap<K, Few>, key: &K, place: &Place) {
    if let Some(few) = index.get_mut(key) {
        few.retain(|it| it != place);
        if few.is_empty() {
            index.remove(key);
        }
    }
}
