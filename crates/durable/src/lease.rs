//! The right to write a session: who holds it, and under which fence.

use std::collections::HashMap;

use crate::{FencingToken, SessionKey, SessionSnapshot};

/// A session as [`Journal::acquire`](crate::Journal::acquire) returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquiredSession {
    /// The fence under which the handle may write the session from now on.
    pub fence: FencingToken,
    /// The session, read after the fence was raised.
    pub snapshot: SessionSnapshot,
}

/// The leases of a store that one process owns, in memory.
///
/// Such a store gives each handle a number that is higher than that of every handle before it, also in former processes;
/// a handle acquires sessions under its own number. Only where several handles of one process compete for a session
/// does it have to draw further numbers ([`Self::find_fence`]). So a lease costs no write.
///
/// It is bounded by the sessions that are held: a released one leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTable {
    first: FencingToken,
    newest: FencingToken,
    held: HashMap<SessionKey, HeldLease>,
}

/// The lease of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldLease {
    owner: FencingToken,
    fence: FencingToken,
    /// How often the owner has acquired the session and not released it.
    count: u64,
}

impl LeaseTable {
    /// Makes a table in which nothing is held. `first` is the number of the first handle.
    #[must_use]
    pub fn new(first: FencingToken) -> Self {
        Self { first, newest: first, held: HashMap::new() }
    }

    /// Returns the number of the first handle: a turn of a lower fence belongs to a former process.
    #[must_use]
    pub(crate) fn first_fence(&self) -> FencingToken {
        self.first
    }

    /// Returns the highest number that was given out.
    #[must_use]
    pub fn newest_fence(&self) -> FencingToken {
        self.newest
    }

    /// Checks whether handles with numbers of their own share the store.
    #[must_use]
    pub fn has_several_owners(&self) -> bool {
        self.newest > self.first
    }

    /// Records that a number, higher than all before, was given out.
    pub fn record_number(&mut self, number: FencingToken) {
        self.newest = self.newest.max(number);
    }

    /// Returns the fence under which an owner may acquire a session; none where another owner may have held the session
    /// under an equal or higher one, so that a new number has to be drawn.
    #[must_use]
    pub fn find_fence(&self, owner: FencingToken, key: &SessionKey) -> Option<FencingToken> {
        match self.held.get(key) {
            Some(held) if held.owner == owner => Some(held.fence),
            _ => (owner == self.newest).then_some(owner),
        }
    }

    /// Gives a session to an owner; an owner that holds it under this fence holds it once more.
    pub fn grant_lease(&mut self, owner: FencingToken, key: &SessionKey, fence: FencingToken) {
        match self.held.get_mut(key) {
            Some(held) if held.owner == owner && held.fence == fence => held.count += 1,
            _ => drop(self.held.insert(key.clone(), HeldLease { owner, fence, count: 1 })),
        }
    }

    /// Releases a session once; nothing happens where the owner does not hold it.
    pub fn release_lease(&mut self, owner: FencingToken, key: &SessionKey) {
        let Some(held) = self.held.get_mut(key).filter(|held| held.owner == owner) else { return };
        held.count -= 1;
        if held.count == 0 {
            self.held.remove(key);
        }
    }

    /// Checks whether a session is held under this fence.
    #[must_use]
    pub fn is_held_under(&self, key: &SessionKey, fence: FencingToken) -> bool {
        self.held.get(key).is_some_and(|held| held.fence == fence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionId, TenantId};

    fn key() -> SessionKey {
        SessionKey::new(TenantId::single(), SessionId::parse("s").unwrap())
    }

    const ONE: FencingToken = FencingToken(1);
    const TWO: FencingToken = FencingToken(2);

    #[test]
    fn a_lone_owner_draws_no_number_and_leaves_nothing_behind() {
        let mut table = LeaseTable::new(ONE);
        assert_eq!(table.find_fence(ONE, &key()), Some(ONE));
        table.grant_lease(ONE, &key(), ONE);
        table.grant_lease(ONE, &key(), ONE);
        table.release_lease(ONE, &key());
        assert!(table.is_held_under(&key(), ONE));
        table.release_lease(ONE, &key());
        table.release_lease(ONE, &key());
        assert!(!table.is_held_under(&key(), ONE));
        assert!(table.held.is_empty());
        assert_eq!(table.find_fence(ONE, &key()), Some(ONE));
    }

    #[test]
    fn an_earlier_owner_needs_a_new_number_for_a_session_that_a_later_one_may_have_held() {
        let mut table = LeaseTable::new(ONE);
        table.grant_lease(ONE, &key(), ONE);
        table.record_number(TWO);
        assert!(table.has_several_owners());
        assert_eq!(table.find_fence(ONE, &key()), Some(ONE), "it holds the session");
        assert_eq!(table.find_fence(TWO, &key()), Some(TWO));
        table.grant_lease(TWO, &key(), TWO);
        assert!(!table.is_held_under(&key(), ONE));
        table.release_lease(ONE, &key());
        assert!(table.is_held_under(&key(), TWO), "the release of a former owner");
        table.release_lease(TWO, &key());
        assert_eq!(table.find_fence(ONE, &key()), None);
    }
}
