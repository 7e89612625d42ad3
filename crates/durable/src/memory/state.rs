//! What a memory store holds.

use std::collections::BTreeMap;

use super::index::Index;
use super::numbered::Numbered;
use crate::{
    AuditRow, CheckpointRecord, Counters, EventRow, Fence, FieldValue, Head, InvocationId, ItemRow,
    PausedRecord, Placement, PositionRow, RecordRow, SessionId, SessionKey, TenantId, TurnRow, WaitRow,
};

/// All data of a store.
#[derive(Debug)]
pub(super) struct State {
    /// The fence of the newest handle.
    pub(super) fence: Fence,
    /// The sessions, by tenant so that a tenant's are one range.
    pub(super) sessions: BTreeMap<TenantId, BTreeMap<SessionId, Session>>,
    /// How to find turns and waits across sessions.
    pub(super) index: Index,
    /// What outlives sessions.
    pub(super) audit: Vec<AuditRow>,
    /// The paused records of the suspension specification.
    pub(super) paused: BTreeMap<(TenantId, InvocationId), PausedRecord>,
    /// The checkpoints of the pipeline-utilities specification.
    pub(super) checkpoints: BTreeMap<(TenantId, InvocationId), CheckpointRecord>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            fence: Fence(1),
            sessions: BTreeMap::new(),
            index: Index::default(),
            audit: Vec::new(),
            paused: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
        }
    }
}

impl State {
    /// Returns a session.
    pub(super) fn session(&self, key: &SessionKey) -> Option<&Session> {
        self.sessions.get(&key.tenant)?.get(&key.session)
    }

    /// Returns another session of the same tenant.
    pub(super) fn sibling(&self, key: &SessionKey, session: &SessionId) -> Option<&Session> {
        self.sessions.get(&key.tenant)?.get(session)
    }

    /// Returns a session, to change it.
    pub(super) fn session_mut(&mut self, key: &SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(&key.tenant)?.get_mut(&key.session)
    }

    /// Returns a session, to change it; made if there is none.
    pub(super) fn make(&mut self, key: &SessionKey) -> &mut Session {
        self.sessions.entry(key.tenant.clone()).or_default().entry(key.session.clone()).or_default()
    }
}

/// The rows of one session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// What it is; absent only between two puts of the batch that makes it.
    pub(super) head: Option<Head>,
    pub(super) counters: Counters,
    pub(super) fields: BTreeMap<String, FieldValue>,
    pub(super) items: Numbered<ItemRow>,
    /// The items of each field's generations, by sequence number.
    pub(super) lists: BTreeMap<String, Numbered<Numbered<u64>>>,
    /// The items that each turn made.
    pub(super) made: Numbered<Numbered<()>>,
    pub(super) turns: Numbered<TurnRow>,
    /// Which turn holds an idempotency key.
    pub(super) keys: BTreeMap<String, u64>,
    pub(super) waits: Numbered<WaitRow>,
    pub(super) positions: BTreeMap<InvocationId, PositionRow>,
    /// The records of each turn, by name.
    pub(super) records: Numbered<BTreeMap<String, RecordRow>>,
    pub(super) events: Numbered<EventRow>,
}

impl Session {
    /// Returns the items of a list by sequence number.
    pub(super) fn list(&self, field: &str, generation: u64) -> Option<&Numbered<u64>> {
        self.lists.get(field)?.get(generation)
    }

    /// Returns the item that stands in this place.
    pub(super) fn at(&self, place: &Placement) -> Option<u64> {
        self.list(&place.field, place.generation)?.get(place.seq).copied()
    }
}
