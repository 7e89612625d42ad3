//! Where turns and waits are found that are not asked for by session and number.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InvocationId, SessionId, SessionKey, TenantId, TurnRow, WaitRow, WaitStatus};

/// Session and number of rows.
pub(super) type Places = BTreeSet<(SessionId, u64)>;

/// The indexes over all sessions.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Turns without outcome.
    pub(super) open: BTreeMap<TenantId, Places>,
    /// Turns of an invocation.
    pub(super) turns: BTreeMap<(TenantId, InvocationId), Places>,
    /// Waits that are pending.
    pub(super) pending: BTreeMap<TenantId, Places>,
    /// Waits of an invocation.
    pub(super) waits: BTreeMap<(TenantId, InvocationId), Places>,
    /// Waits with a signal id.
    pub(super) signals: BTreeMap<(TenantId, String), Places>,
}

impl Index {
    pub(super) fn add_turn(&mut self, key: &SessionKey, row: &TurnRow) {
        let place = (key.session.clone(), row.no);
        if !row.status.is_ended() {
            add(&mut self.open, key.tenant.clone(), place.clone());
        }
        add(&mut self.turns, (key.tenant.clone(), row.invocation.clone()), place);
    }

    pub(super) fn drop_turn(&mut self, key: &SessionKey, row: &TurnRow) {
        let place = (key.session.clone(), row.no);
        remove(&mut self.open, &key.tenant, &place);
        remove(&mut self.turns, &(key.tenant.clone(), row.invocation.clone()), &place);
    }

    pub(super) fn add_wait(&mut self, key: &SessionKey, row: &WaitRow) {
        let place = (key.session.clone(), row.no);
        if row.status == WaitStatus::Pending {
            add(&mut self.pending, key.tenant.clone(), place.clone());
        }
        add(&mut self.waits, (key.tenant.clone(), row.invocation.clone()), place.clone());
        add(&mut self.signals, (key.tenant.clone(), row.signal.clone()), place);
    }

    pub(super) fn drop_wait(&mut self, key: &SessionKey, row: &WaitRow) {
        let place = (key.session.clone(), row.no);
        remove(&mut self.pending, &key.tenant, &place);
        remove(&mut self.waits, &(key.tenant.clone(), row.invocation.clone()), &place);
        remove(&mut self.signals, &(key.tenant.clone(), row.signal.clone()), &place);
    }
}

/// Returns the numbers of one session's rows among these places, in order.
pub(super) fn of_session<'a>(
    places: Option<&'a Places>,
    session: &SessionId,
) -> impl Iterator<Item = u64> + use<'a> {
    let range = (session.clone(), 0)..=(session.clone(), u64::MAX);
    places.into_iter().flat_map(move |it| it.range(range.clone())).map(|(_, no)| *no)
}

fn add<K: Ord>(index: &mut BTreeMap<K, Places>, key: K, place: (SessionId, u64)) {
    index.entry(key).or_default().insert(place);
}

fn remove<K: Ord>(index: &mut BTreeMap<K, Places>, key: &K, place: &(SessionId, u64)) {
    if let Some(places) = index.get_mut(key) {
        places.remove(place);
        if places.is_empty() {
            index.remove(key);
        }
    }
}
