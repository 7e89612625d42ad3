//! The reads.

use std::ops::Bound;

use super::index::{Place, Places, few_numbers_of_session, numbers_of_session};
use super::state::{MemoryTables, SessionTables};
use crate::{
    EarlySignalRow, EventRow, FencingToken, FieldRow, InvocationId, ItemRange, ListItemRow, PositionRow,
    RecordRow, SessionId, SessionKey, SessionPage, SessionRow, StoredWaitStatus, TenantId, Timestamp,
    TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow, WaitRowQuery,
};

pub(super) fn read_session(state: &MemoryTables, key: &SessionKey) -> Option<SessionRow> {
    build_session_row(key.clone(), state.find_session(key)?)
}

fn build_session_row(key: SessionKey, session: &SessionTables) -> Option<SessionRow> {
    let field = |(name, value): (&String, &_)| FieldRow { name: name.clone(), value: Clone::clone(value) };
    Some(SessionRow {
        key,
        head: session.head.clone()?,
        counters: session.counters,
        fields: session.fields.iter().map(field).collect(),
    })
}

pub(super) fn read_recent_sessions(
    state: &MemoryTables,
    tenant: &TenantId,
    past: Option<&(Timestamp, SessionId)>,
    limit: u64,
) -> Vec<SessionRow> {
    let sessions = state.sessions.get(tenant).into_iter().flatten();
    let place = |(id, it): (&SessionId, &SessionTables)| Some((it.head.as_ref()?.updated_at, id.clone()));
    let mut places: Vec<_> =
        sessions.filter_map(place).filter(|session| past.is_none_or(|past| session < past)).collect();
    places.sort_unstable_by(|a, b| b.cmp(a));
    let rows = places.into_iter().map(|(_, id)| SessionKey::new(tenant.clone(), id));
    rows.filter_map(|key| read_session(state, &key)).take(limit_to_usize(limit)).collect()
}

pub(super) fn read_session_page(
    state: &MemoryTables,
    tenant: &TenantId,
    from: Option<&SessionId>,
    limit: u64,
) -> SessionPage {
    let all = state.sessions.get(tenant).into_iter().flatten();
    // Skipping by comparison keeps this plain; a listing is rare.
    let mut rest = all.skip_while(|(id, _)| from.is_some_and(|from| *id < from));
    let sessions = rest
        .by_ref()
        .take(limit_to_usize(limit))
        .filter_map(|(id, it)| build_session_row(SessionKey::new(tenant.clone(), id.clone()), it))
        .collect();
    SessionPage { sessions, next: rest.next().map(|(id, _)| id.clone()) }
}

pub(super) fn read_items(state: &MemoryTables, key: &SessionKey, range: &ItemRange) -> Vec<ListItemRow> {
    let Some(session) = state.find_session(key) else { return Vec::new() };
    let item = |no: u64| session.items.get(no).cloned();
    match range {
        ItemRange::List { field, generation, from, limit } => {
            let list = session.find_list(field, *generation).into_iter();
            list.flat_map(|item| item.iter_rows_from(*from))
                .take(limit_to_usize(*limit))
                .filter_map(|(_, no)| item(*no))
                .collect()
        }
        ItemRange::Page { field, generation, from, limit, bytes } => {
            let list = session.find_list(field, *generation).into_iter();
            let rows = list.flat_map(|item| item.iter_rows_from(*from)).take(limit_to_usize(*limit));
            take_within_bytes(rows.filter_map(|(_, no)| session.items.get(*no)), *bytes)
        }
        ItemRange::PageBefore { field, generation, before, limit, bytes } => {
            let list = session.find_list(field, *generation).into_iter();
            let places = list.flat_map(|item| item.iter_rows_from(0)).take_while(|(seq, _)| seq < before);
            let numbers: Vec<u64> = places.map(|(_, no)| *no).collect();
            let rows =
                numbers.iter().rev().take(limit_to_usize(*limit)).filter_map(|no| session.items.get(*no));
            let mut page = take_within_bytes(rows, *bytes);
            page.reverse();
            page
        }
        ItemRange::Numbers { from, to } => {
            let range = session.items.iter_rows_from(*from).take_while(|(no, _)| no < to);
            range.map(|(_, row)| row.clone()).collect()
        }
        ItemRange::Turn(turn) => {
            let made = session.made.get(*turn).into_iter().flatten();
            made.filter_map(|no| item(*no)).collect()
        }
    }
}

/// Takes rows until they have so many bytes together.
fn take_within_bytes<'a>(rows: impl Iterator<Item = &'a ListItemRow>, bytes: u64) -> Vec<ListItemRow> {
    let mut taken = 0;
    let fits = |row: &&ListItemRow| {
        let is_within = taken == 0 || taken < bytes;
        taken += row.count_bytes().max(1);
        is_within
    };
    rows.take_while(fits).cloned().collect()
}

pub(super) fn read_turns(state: &MemoryTables, key: &SessionKey, query: &TurnRowQuery) -> Vec<TurnRow> {
    let Some(session) = state.find_session(key) else { return Vec::new() };
    let turn = |no: u64| session.turns.get(no).cloned();
    match query {
        TurnRowQuery::No(no) => turn(*no).into_iter().collect(),
        TurnRowQuery::Key(idempotency) => {
            session.keys.get(idempotency).and_then(|no| turn(*no)).into_iter().collect()
        }
        TurnRowQuery::Invocation(invocation) => {
            let places = state.index.turns.get(&(invocation.clone(), key.tenant.clone()));
            few_numbers_of_session(places, &key.session).filter_map(turn).collect()
        }
        TurnRowQuery::Open => {
            numbers_of_session(state.index.open.get(&key.tenant), &key.session).filter_map(turn).collect()
        }
        TurnRowQuery::From { no, limit } => session
            .turns
            .iter_rows_from(*no)
            .take(limit_to_usize(*limit))
            .map(|(_, row)| row.clone())
            .collect(),
    }
}

pub(super) fn find_session_of_invocation(
    state: &MemoryTables,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Option<SessionKey> {
    let places = state.index.turns.get(&(invocation.clone(), tenant.clone()))?;
    places.first().map(|(session, _)| SessionKey::new(tenant.clone(), session.clone()))
}

pub(super) fn read_waits(state: &MemoryTables, query: &WaitRowQuery) -> Vec<(SessionKey, WaitRow)> {
    let index = &state.index;
    match query {
        WaitRowQuery::Pending(key) => read_session_waits(state, key, index.pending.get(&key.tenant)),
        WaitRowQuery::PendingOf(tenant, limit) => {
            read_waits_at_places(state, tenant, index.pending.get(tenant))
                .take(limit_to_usize(*limit))
                .collect()
        }
        WaitRowQuery::Signal(key, signal) => {
            read_session_waits(state, key, index.signals.get(&(key.tenant.clone(), signal.clone())))
        }
        WaitRowQuery::SignalOf(tenant, signal, limit) => {
            read_waits_at_places(state, tenant, index.signals.get(&(tenant.clone(), signal.clone())))
                .filter(|(_, wait)| wait.status == StoredWaitStatus::Pending)
                .take(limit_to_usize(*limit))
                .collect()
        }
        WaitRowQuery::Invocation(tenant, invocation) => {
            read_waits_at_places(state, tenant, index.waits.get(&(invocation.clone(), tenant.clone())))
                .collect()
        }
    }
}

fn read_session_waits(
    state: &MemoryTables,
    key: &SessionKey,
    places: Option<&Places>,
) -> Vec<(SessionKey, WaitRow)> {
    let Some(session) = state.find_session(key) else { return Vec::new() };
    numbers_of_session(places, &key.session)
        .filter_map(|no| Some((key.clone(), session.waits.get(no)?.clone())))
        .collect()
}

fn read_waits_at_places<'a>(
    state: &'a MemoryTables,
    tenant: &'a TenantId,
    places: Option<impl IntoIterator<Item = &'a Place>>,
) -> impl Iterator<Item = (SessionKey, WaitRow)> {
    places.into_iter().flatten().filter_map(|(session, no)| {
        let key = SessionKey::new(tenant.clone(), session.clone());
        let wait = state.find_session(&key)?.waits.get(*no)?.clone();
        Some((key, wait))
    })
}

pub(super) fn read_early_signals(state: &MemoryTables, key: &SessionKey) -> Vec<EarlySignalRow> {
    state.find_session(key).into_iter().flat_map(|it| it.mail.values().cloned()).collect()
}

pub(super) fn read_positions(state: &MemoryTables, key: &SessionKey) -> Vec<PositionRow> {
    state.find_session(key).into_iter().flat_map(|it| it.positions.values().cloned()).collect()
}

pub(super) fn read_position(
    state: &MemoryTables,
    key: &SessionKey,
    invocation: &InvocationId,
) -> Option<PositionRow> {
    state.find_session(key)?.positions.get(invocation).cloned()
}

pub(super) fn read_turn_records(state: &MemoryTables, key: &SessionKey, turn: u64) -> Vec<RecordRow> {
    let records = state.find_session(key).and_then(|session| session.records.get(turn));
    records.into_iter().flat_map(|record| record.values()).cloned().collect()
}

pub(super) fn read_events(state: &MemoryTables, key: &SessionKey, from: u64, limit: u64) -> Vec<EventRow> {
    let events = state.find_session(key).into_iter().flat_map(|it| it.events.iter_rows_from(from));
    events.take(limit_to_usize(limit)).map(|(_, row)| row.clone()).collect()
}

pub(super) fn read_ownerless_turns(
    state: &MemoryTables,
    fence: FencingToken,
    past: Option<&(SessionKey, u64)>,
    limit: u64,
) -> Vec<(SessionKey, TurnRow)> {
    let open = state.index.open.iter().flat_map(|(tenant, places)| {
        places.iter().map(|(session, no)| (SessionKey::new(tenant.clone(), session.clone()), *no))
    });
    open.skip_while(|item| past.is_some_and(|past| item <= past))
        .filter_map(|(key, no)| {
            let turn = state.find_session(&key)?.turns.get(no)?;
            (turn.fence < fence).then(|| (key, turn.clone()))
        })
        .take(limit_to_usize(limit))
        .collect()
}

pub(super) fn read_waits_by_deadline(
    state: &MemoryTables,
    until: Option<Timestamp>,
    limit: u64,
) -> Vec<(SessionKey, WaitRow)> {
    let is_due = |it: Timestamp| until.is_none_or(|until| it <= until);
    let pending = state.index.pending.iter();
    let mut due: Vec<_> = pending
        .flat_map(|(tenant, places)| read_waits_at_places(state, tenant, Some(places)))
        .filter(|(_, wait)| wait.deadline.is_some_and(is_due))
        .collect();
    // Stable: waits that are due together stay ordered by session and number.
    due.sort_by_key(|(_, wait)| wait.deadline);
    due.truncate(limit_to_usize(limit));
    due
}

/// Returns the tenants that have sessions, past one.
pub(super) fn read_tenants(state: &MemoryTables, past: Option<&TenantId>, limit: u64) -> Vec<TenantId> {
    let past = past.map_or(Bound::Unbounded, Bound::Excluded);
    let found = state.sessions.range::<TenantId, _>((past, Bound::Unbounded));
    found
        .filter(|(_, sessions)| !sessions.is_empty())
        .map(|(tenant, _)| tenant.clone())
        .take(limit_to_usize(limit))
        .collect()
}

/// Returns the usage of models.
pub(super) fn read_model_usage(state: &MemoryTables, of: &UsageRowQuery) -> Vec<UsageRow> {
    let used = match of {
        UsageRowQuery::Session(key) => state.find_session(key).map(|session| &session.usage),
        UsageRowQuery::Tenant(tenant) => state.usage.get(tenant),
    };
    used.into_iter().flat_map(|it| it.values()).cloned().collect()
}

fn limit_to_usize(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
