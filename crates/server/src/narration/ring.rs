//! The narration in memory: a bounded ring for each session, and a bound for all together (INV-12).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use singletree_durable::Timestamp;
use singletree_narration::{NarrationMessage, NarrationOwner};

use super::limits::NarrationLimits;

/// The approximate size of an entry without its text.
const ENTRY_BYTES: usize = 160;
/// The approximate size of a ring without the names of tenant and session.
const RING_BYTES: usize = 320;

/// Whose ring it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NarrationRingOwner {
    pub(super) tenant: String,
    pub(super) session: String,
}

impl NarrationRingOwner {
    pub(super) fn from_narration_owner(whose: NarrationOwner<'_>) -> Self {
        Self { tenant: whose.tenant.to_owned(), session: whose.session.to_owned() }
    }

    fn approximate_bytes(&self) -> usize {
        // The name stands here and in the order of all.
        2 * (self.tenant.len() + self.session.len()) + RING_BYTES
    }
}

/// One piece that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NarrationRingEntry {
    /// Its number among all that were ever said.
    pub(super) no: u64,
    /// The narration.
    pub(super) narration: Arc<NarrationMessage>,
    /// When it came.
    came: Timestamp,
}

impl NarrationRingEntry {
    fn approximate_bytes(&self) -> usize {
        self.narration.content.len() + ENTRY_BYTES
    }
}

/// All rings.
#[derive(Debug)]
pub(super) struct NarrationRings {
    limits: NarrationLimits,
    rings: HashMap<NarrationRingOwner, VecDeque<NarrationRingEntry>>,
    /// Whose ring holds the oldest piece, by that one's number: each ring stands here once, by its first.
    oldest: BTreeMap<u64, NarrationRingOwner>,
    bytes: usize,
    next: u64,
}

impl NarrationRings {
    pub(super) fn new(limits: NarrationLimits) -> Self {
        Self { limits, rings: HashMap::new(), oldest: BTreeMap::new(), bytes: 0, next: 1 }
    }

    /// Adds an entry. Entries that no longer fit are dropped silently, the oldest first.
    pub(super) fn push_entry(
        &mut self,
        owner: &NarrationRingOwner,
        narration: NarrationMessage,
        now: Timestamp,
    ) {
        self.drop_expired_entries(now);
        if self.limits.entries == 0 {
            return;
        }
        let held = NarrationRingEntry { no: self.next, narration: Arc::new(narration), came: now };
        self.next += 1;
        let bytes = held.approximate_bytes();
        if let Some(ring) = self.rings.get_mut(owner) {
            ring.push_back(held);
            if ring.len() > self.limits.entries {
                self.drop_first_entry(owner);
            }
        } else {
            self.oldest.insert(held.no, owner.clone());
            self.bytes += owner.approximate_bytes();
            self.rings.insert(owner.clone(), VecDeque::from([held]));
        }
        self.bytes += bytes;
        while self.bytes > self.limits.total_bytes && self.drop_oldest_entry() {}
    }

    /// Returns the entries of a session after a number.
    pub(super) fn entries_after(
        &mut self,
        owner: &NarrationRingOwner,
        no: u64,
        now: Timestamp,
    ) -> Vec<NarrationRingEntry> {
        self.drop_expired_entries(now);
        let ring = self.rings.get(owner);
        ring.into_iter().flatten().filter(|it| it.no > no).cloned().collect()
    }

    /// Drops everything of a session.
    pub(super) fn forget_session(&mut self, owner: &NarrationRingOwner) {
        while self.rings.contains_key(owner) {
            self.drop_first_entry(owner);
        }
    }

    /// Drops everything.
    pub(super) fn forget_all_sessions(&mut self) {
        self.rings.clear();
        self.oldest.clear();
        self.bytes = 0;
    }

    /// Drops the entries that are older than the limit. The entry that came first counts as the oldest, even if the
    /// clock jumps.
    fn drop_expired_entries(&mut self, now: Timestamp) {
        let age = self.limits.age;
        let old = |it: &NarrationRingEntry| now.duration_since(it.came) > age;
        while let Some((_, owner)) = self.oldest.first_key_value()
            && self.rings.get(owner).and_then(VecDeque::front).is_some_and(old)
        {
            self.drop_oldest_entry();
        }
    }

    fn drop_oldest_entry(&mut self) -> bool {
        let Some((_, owner)) = self.oldest.first_key_value() else { return false };
        let owner = owner.clone();
        self.drop_first_entry(&owner);
        true
    }

    fn drop_first_entry(&mut self, owner: &NarrationRingOwner) {
        let Some(ring) = self.rings.get_mut(owner) else { return };
        if let Some(first) = ring.pop_front() {
            self.bytes -= first.approximate_bytes();
            self.oldest.remove(&first.no);
        }
        match ring.front() {
            Some(first) => drop(self.oldest.insert(first.no, owner.clone())),
            None => {
                self.bytes -= owner.approximate_bytes();
                self.rings.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use singletree_narration::{NarrationPurpose, NarrationSpeaker};

    use super::*;

    fn owner(session: &str) -> NarrationRingOwner {
        NarrationRingOwner::from_narration_owner(NarrationOwner { tenant: "t", session })
    }

    fn said(content: &str) -> NarrationMessage {
        let timestamp = std::time::UNIX_EPOCH;
        NarrationMessage {
            timestamp,
            role: NarrationSpeaker::System,
            kind: NarrationPurpose::Status,
            content: content.into(),
        }
    }

    fn limits() -> NarrationLimits {
        NarrationLimits { entries: 3, age: Duration::from_millis(10), ..NarrationLimits::default() }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn contents(rings: &mut NarrationRings, session: &str, no: u64, now: i64) -> Vec<String> {
        let held = rings.entries_after(&owner(session), no, at(now));
        held.iter().map(|it| it.narration.content.clone()).collect()
    }

    // spec: agent-chat-output §7.2
    #[test]
    fn the_oldest_is_dropped_and_no_limit_holds_nothing() {
        let mut rings = NarrationRings::new(limits());
        for content in ["a", "b", "c", "d"] {
            rings.push_entry(&owner("s"), said(content), at(0));
        }
        rings.push_entry(&owner("r"), said("x"), at(0));
        assert_eq!(contents(&mut rings, "s", 0, 0), ["b", "c", "d"]);
        assert_eq!(contents(&mut rings, "s", 3, 0), ["d"]);
        assert_eq!(contents(&mut rings, "s", 9, 0), [""; 0]);
        let mut rings = NarrationRings::new(NarrationLimits { entries: 0, ..limits() });
        rings.push_entry(&owner("s"), said("a"), at(0));
        assert_eq!((contents(&mut rings, "s", 0, 0).len(), rings.bytes), (0, 0));
    }

    #[test]
    fn what_is_old_goes_from_all_sessions_also_when_nothing_is_said_in_them() {
        let mut rings = NarrationRings::new(limits());
        rings.push_entry(&owner("s"), said("a"), at(0));
        rings.push_entry(&owner("r"), said("b"), at(5));
        rings.push_entry(&owner("s"), said("c"), at(8));
        assert_eq!(contents(&mut rings, "s", 0, 10), ["a", "c"]);
        rings.push_entry(&owner("q"), said("d"), at(11));
        assert_eq!(rings.rings[&owner("s")].len(), 1, "what is old goes without being looked at");
        assert_eq!(contents(&mut rings, "r", 0, 16), [""; 0]);
        assert!(!rings.rings.contains_key(&owner("r")));
    }

    proptest! {
        // INV-12: for any order of entries, owners and removals the bounds hold, the counted bytes are those of the
        // held entries, and each ring holds the last entries of its session.
        #[test]
        fn the_bounds_hold(steps in proptest::collection::vec((0_u8..4, 0_usize..400, 0_u8..12), 0..120)) {
            let limits = NarrationLimits { total_bytes: 3_000, ..limits() };
            let mut rings = NarrationRings::new(limits.clone());
            let mut model: HashMap<NarrationRingOwner, Vec<String>> = HashMap::new();
            let mut now = 0;
            for (session, bytes, what) in steps {
                let owner = owner(&session.to_string());
                match what {
                    0 => {
                        rings.forget_session(&owner);
                        model.remove(&owner);
                    }
                    1 => now += 7,
                    _ => {
                        let content = format!("{now}:{}", "x".repeat(bytes));
                        rings.push_entry(&owner, said(&content), at(now));
                        model.entry(owner).or_default().push(content);
                    }
                }
                prop_assert!(rings.bytes <= limits.total_bytes);
                let held: usize = rings.rings.iter().map(|(owner, ring)| owner.approximate_bytes() + ring.iter().map(NarrationRingEntry::approximate_bytes).sum::<usize>()).sum();
                prop_assert_eq!(rings.bytes, held);
                prop_assert_eq!(rings.oldest.len(), rings.rings.len());
                for (owner, ring) in &rings.rings {
                    let said = &model[owner];
                    let held: Vec<_> = ring.iter().map(|it| it.narration.content.clone()).collect();
                    prop_assert!(!held.is_empty() && held.len() <= limits.entries);
                    prop_assert_eq!(&said[said.len() - held.len()..], &held[..]);
                    prop_assert_eq!(&rings.oldest[&ring[0].no], owner);
                }
            }
        }
    }
}
