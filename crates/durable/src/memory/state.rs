//! The data of a memory store.

use std::collections::BTreeMap;

use super::index::MemoryIndexes;
use super::numbered::NumberedRows;
use super::shelf::AuxiliaryTables;
use crate::{
    AuditRow, CheckpointRecord, Counters, EarlySignalRow, EventRow, FencingToken, FieldValue, InvocationId,
    ItemPlacement, LeaseTable, ListItemRow, PausedRecord, PositionRow, RecordRow, SessionHead, SessionId,
    SessionKey, TenantId, TurnRow, UsageRow, WaitRow,
};

/// All data of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryTables {
    /// Who holds which session.
    pub(super) leases: LeaseTable,
    /// The sessions, by tenant so that a tenant's are one range.
    pub(super) sessions: BTreeMap<TenantId, BTreeMap<SessionId, SessionTables>>,
    /// How to find turns and waits across sessions.
    pub(super) index: MemoryIndexes,
    /// The next free numbers of sessions that were deleted and not made anew.
    pub(super) former: BTreeMap<SessionKey, Counters>,
    /// The audit rows, which outlive sessions.
    pub(super) audit: Vec<AuditRow>,
    /// The paused records of the suspension specification.
    pub(super) paused: BTreeMap<(TenantId, InvocationId), PausedRecord>,
    /// The checkpoints of the pipeline-utilities specification.
    pub(super) checkpoints: BTreeMap<(TenantId, InvocationId), CheckpointRecord>,
    /// The usage of models by tenant.
    pub(super) usage: BTreeMap<TenantId, Used>,
    /// Documents and blobs.
    pub(super) shelf: AuxiliaryTables,
}

impl Default for MemoryTables {
    fn default() -> Self {
        Self {
            leases: LeaseTable::new(FencingToken(1)),
            sessions: BTreeMap::new(),
            index: MemoryIndexes::default(),
            former: BTreeMap::new(),
            audit: Vec::new(),
            paused: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            usage: BTreeMap::new(),
            shelf: AuxiliaryTables::default(),
        }
    }
}

impl MemoryTables {
    /// Returns a fence that is higher than all before.
    pub(super) fn draw_number(&mut self) -> FencingToken {
        let number = FencingToken(self.leases.newest_fence().0 + 1);
        self.leases.record_number(number);
        number
    }

    /// Gives a session to a handle and returns its fence.
    pub(super) fn take_lease(&mut self, owner: FencingToken, key: &SessionKey) -> FencingToken {
        let fence = self.leases.find_fence(owner, key).unwrap_or_else(|| self.draw_number());
        self.leases.grant_lease(owner, key, fence);
        fence
    }

    /// Returns a session.
    pub(super) fn find_session(&self, key: &SessionKey) -> Option<&SessionTables> {
        self.sessions.get(&key.tenant)?.get(&key.session)
    }

    /// Returns another session of the same tenant.
    pub(super) fn find_sibling_session(
        &self,
        key: &SessionKey,
        session: &SessionId,
    ) -> Option<&SessionTables> {
        self.sessions.get(&key.tenant)?.get(session)
    }

    /// Returns a session, to change it.
    pub(super) fn find_session_mut(&mut self, key: &SessionKey) -> Option<&mut SessionTables> {
        self.sessions.get_mut(&key.tenant)?.get_mut(&key.session)
    }

    /// Returns a session, to change it; made if there is none, and then with the numbers that one of its name left.
    pub(super) fn ensure_session(&mut self, key: &SessionKey) -> &mut SessionTables {
        let made = || SessionTables {
            counters: self.former.remove(key).unwrap_or_default(),
            ..SessionTables::default()
        };
        let of_tenant = self.sessions.entry(key.tenant.clone()).or_default();
        of_tenant.entry(key.session.clone()).or_insert_with(made)
    }

    /// Returns the next free numbers of a session, which may be absent.
    pub(super) fn find_counters(&self, key: &SessionKey) -> Counters {
        let former = || self.former.get(key).copied().unwrap_or_default();
        self.find_session(key).map_or_else(former, |session| session.counters)
    }
}

/// The rows of one session.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct SessionTables {
    /// Its head; absent only between two puts of the batch that creates the session.
    pub(super) head: Option<SessionHead>,
    pub(super) counters: Counters,
    pub(super) fields: BTreeMap<String, FieldValue>,
    pub(super) items: NumberedRows<ListItemRow>,
    /// The items of each field's generations, by sequence number.
    pub(super) lists: BTreeMap<String, NumberedRows<NumberedRows<u64>>>,
    /// The numbers of the items that each turn made, in order.
    pub(super) made: NumberedRows<Vec<u64>>,
    pub(super) turns: NumberedRows<TurnRow>,
    /// Which turn holds an idempotency key.
    pub(super) keys: BTreeMap<String, u64>,
    pub(super) waits: NumberedRows<WaitRow>,
    /// The early signals, by id.
    pub(super) mail: BTreeMap<String, EarlySignalRow>,
    pub(super) positions: BTreeMap<InvocationId, PositionRow>,
    /// The records of each turn, by name.
    pub(super) records: NumberedRows<BTreeMap<String, RecordRow>>,
    pub(super) events: NumberedRows<EventRow>,
    pub(super) usage: Used,
}

/// Usage by model.
pub(super) type Used = BTreeMap<String, UsageRow>;

impl SessionTables {
    /// Returns the items of a list by sequence number.
    pub(super) fn find_list(&self, field: &str, generation: u64) -> Option<&NumberedRows<u64>> {
        self.lists.get(field)?.get(generation)
    }

    /// Returns the item that stands in this place.
    pub(super) fn find_item_at(&self, place: &ItemPlacement) -> Option<u64> {
        self.find_list(&place.field, place.generation)?.get(place.seq).copied()
    }
}
