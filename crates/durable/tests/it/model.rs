//! The memory store against a model that is too plain to be wrong: rows in lists, a batch applied to a copy of
//! everything.

mod batches;

use std::collections::BTreeMap;

use proptest::prelude::*;
use singletree_durable::{
    AuditRow, Batch, BatchPrecondition, Counters, EarlySignalRow, EventRow, FencingToken, FieldRow,
    ItemPlacement, ItemRange, Journal, JournalMaintenance, ListItemRow, MemoryStore, PositionRow, RecordRow,
    RowMutation, SessionHead, SessionKey, StoredWaitStatus, TenantId, TurnRow, TurnRowQuery, UsageRow,
    UsageRowQuery, WaitRow, WaitRowQuery,
};

use self::batches::{NAMES, batch, keys};
use crate::rows::{acquire, invocation, key_of};

#[derive(Debug, Clone, Default)]
struct Rows {
    head: Option<SessionHead>,
    fields: Vec<FieldRow>,
    items: Vec<ListItemRow>,
    turns: Vec<TurnRow>,
    waits: Vec<WaitRow>,
    mail: Vec<EarlySignalRow>,
    positions: Vec<PositionRow>,
    records: Vec<RecordRow>,
    events: Vec<EventRow>,
    usage: Vec<UsageRow>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    sessions: BTreeMap<SessionKey, Rows>,
    /// The highest counters that a session of a name ever had.
    numbers: BTreeMap<SessionKey, Counters>,
    audit: Vec<AuditRow>,
    /// The usage of each tenant.
    usage: BTreeMap<TenantId, Vec<UsageRow>>,
}

/// Adds a use to the row of its model.
fn use_more(rows: &mut Vec<UsageRow>, row: &UsageRow) {
    let before = rows.iter().find(|it| it.model == row.model).map_or(0, |it| it.calls);
    replace(rows, UsageRow { calls: before + row.calls, ..row.clone() }, |it| it.model.clone());
}

/// Puts a row in the place of the one that `is_same`, or adds it; keeps the order of `by`.
fn replace<T, K: Ord>(rows: &mut Vec<T>, row: T, by: impl Fn(&T) -> K) {
    rows.retain(|it| by(it) != by(&row));
    rows.push(row);
    rows.sort_by_key(by);
}

impl Model {
    /// Applies a batch and tells whether it was taken.
    fn apply(&mut self, batch: &Batch, fence: FencingToken) -> bool {
        if batch.fence != fence || !batch.requires.iter().all(|it| self.holds(&batch.key, it)) {
            return false;
        }
        let mut next = self.clone();
        for put in &batch.puts {
            if !next.put(&batch.key, put) {
                return false;
            }
        }
        if next.sessions.get(&batch.key).is_some_and(|it| it.head.is_none()) {
            return false;
        }
        *self = next;
        true
    }

    fn numbers(&self, key: &SessionKey) -> Counters {
        self.numbers.get(key).copied().unwrap_or_default()
    }

    fn holds(&self, key: &SessionKey, require: &BatchPrecondition) -> bool {
        let rows = self.sessions.get(key);
        let empty = Rows::default();
        let some = rows.unwrap_or(&empty);
        match require {
            BatchPrecondition::SessionAbsent => rows.is_none(),
            BatchPrecondition::SessionVersion(version) => {
                some.head.as_ref().is_some_and(|it| it.version == *version)
            }
            BatchPrecondition::Counters(counters) => self.numbers(key) == *counters,
            BatchPrecondition::Turn { no, status } => {
                some.turns.iter().any(|it| it.no == *no && it.status == *status)
            }
            BatchPrecondition::NewestTurn(no) => some.turns.iter().map(|it| it.no).max() == Some(*no),
            BatchPrecondition::KeyFree(key) => !some.turns.iter().any(|it| it.key.as_ref() == Some(key)),
            BatchPrecondition::Wait { no, status } => {
                some.waits.iter().any(|it| it.no == *no && it.status == *status)
            }
            BatchPrecondition::MailAbsent(signal) => some.mail.iter().all(|it| it.signal != *signal),
            BatchPrecondition::Idle => {
                some.turns.iter().all(|it| it.status.is_ended())
                    && some.waits.iter().all(|it| it.status != StoredWaitStatus::Pending)
            }
            BatchPrecondition::Source { session, created_at, version } => {
                let of = SessionKey::new(key.tenant.clone(), session.clone());
                let head = self.sessions.get(&of).and_then(|it| it.head.as_ref());
                head.is_some_and(|it| it.version == *version && it.created_at == *created_at)
            }
        }
    }

    fn put(&mut self, key: &SessionKey, put: &RowMutation) -> bool {
        match put {
            RowMutation::Delete => return self.sessions.remove(key).is_none_or(|it| it.head.is_some()),
            // Those are the contract's to check: they are no rows of a session.
            RowMutation::Document { .. } => {}
            RowMutation::Audit(row) => self.audit.push(row.clone()),
            RowMutation::Counters(row) => {
                self.sessions.entry(key.clone()).or_default();
                self.numbers.insert(key.clone(), self.numbers(key).max(*row));
            }
            RowMutation::Usage(row) => {
                use_more(&mut self.sessions.entry(key.clone()).or_default().usage, row);
                use_more(self.usage.entry(key.tenant.clone()).or_default(), row);
            }
            RowMutation::DropField(_)
            | RowMutation::DropMail(_)
            | RowMutation::Place { .. }
            | RowMutation::Side { .. }
            | RowMutation::FreeKey { .. }
            | RowMutation::DropPosition(_)
            | RowMutation::DropTurn { .. }
            | RowMutation::DropEvents { .. }
            | RowMutation::DropRecords { .. } => match self.sessions.get_mut(key) {
                Some(rows) => return rows.put(put),
                None => return !matches!(put, RowMutation::Place { .. } | RowMutation::Side { .. }),
            },
            RowMutation::Inherit { from, field, generation, len } => {
                let of = SessionKey::new(key.tenant.clone(), from.clone());
                let source = self.sessions.get(&of).filter(|_| of != *key);
                let is_here = |it: &&ListItemRow| {
                    let place = it.placement.as_ref();
                    place
                        .is_some_and(|it| it.field == *field && it.generation == *generation && it.seq < *len)
                };
                let items = source.map(|it| it.items.iter().filter(is_here).cloned().collect::<Vec<_>>());
                let rows = self.sessions.entry(key.clone()).or_default();
                return items.is_some_and(|items| {
                    items.len() as u64 == *len && items.into_iter().all(|it| rows.add_item(it))
                });
            }
            _ => return self.sessions.entry(key.clone()).or_default().put(put),
        }
        true
    }
}

impl Rows {
    fn put(&mut self, put: &RowMutation) -> bool {
        match put.clone() {
            RowMutation::Head(row) => self.head = Some(row),

            RowMutation::Field(row) => replace(&mut self.fields, row, |it| it.name.clone()),
            RowMutation::DropField(name) => self.fields.retain(|it| it.name != name),
            RowMutation::Item(row) => return self.add_item(row),
            RowMutation::Place { item, placement } => return self.place(item, placement),
            RowMutation::Side { item, side } => match self.items.iter_mut().find(|it| it.no == item) {
                Some(row) => row.side = Some(side),
                None => return false,
            },
            RowMutation::Turn(row) => {
                let holds = |it: &TurnRow| it.no != row.no && it.key.is_some() && it.key == row.key;
                if self.turns.iter().any(holds) {
                    return false;
                }
                replace(&mut self.turns, row, |it| it.no);
            }
            RowMutation::FreeKey { turn } => {
                for it in self.turns.iter_mut().filter(|it| it.no == turn) {
                    (it.key, it.digest) = (None, None);
                }
            }
            RowMutation::Wait(row) => replace(&mut self.waits, row, |it| it.no),
            RowMutation::Mail(row) => replace(&mut self.mail, row, |it| it.signal.clone()),
            RowMutation::DropMail(signal) => self.mail.retain(|it| it.signal != signal),
            RowMutation::Position(row) => replace(&mut self.positions, row, |it| it.invocation.clone()),
            RowMutation::DropPosition(of) => self.positions.retain(|it| it.invocation != of),
            RowMutation::Record(row) => replace(&mut self.records, row, |it| (it.turn, it.name.clone())),
            RowMutation::DropRecords { turn } => self.records.retain(|it| it.turn != turn),
            RowMutation::Event(row) => {
                if self.events.iter().any(|it| it.seq == row.seq) {
                    return false;
                }
                replace(&mut self.events, row, |it| it.seq);
            }
            RowMutation::DropTurn { turn } => return self.drop_turn(turn),
            RowMutation::DropEvents { before } => self.events.retain(|it| it.seq >= before),
            RowMutation::Counters(_)
            | RowMutation::Usage(_)
            | RowMutation::Inherit { .. }
            | RowMutation::Delete
            | RowMutation::Document { .. }
            | RowMutation::Audit(_) => {
                unreachable!("not of a session's rows")
            }
        }
        true
    }

    fn drop_turn(&mut self, no: u64) -> bool {
        let Some(of) = self.turns.iter().find(|it| it.no == no).map(|it| it.invocation.clone()) else {
            return true;
        };
        let runs = self.turns.iter().any(|it| it.invocation == of && !it.status.is_ended());
        if runs || self.waits.iter().any(|it| it.invocation == of && it.status == StoredWaitStatus::Pending) {
            return false;
        }
        self.turns.retain(|it| it.no != no);
        self.waits.retain(|it| it.turn != no || it.invocation != of);
        self.records.retain(|it| it.turn != no);
        self.items.retain(|it| it.turn != no || it.placement.is_some());
        true
    }

    fn add_item(&mut self, row: ListItemRow) -> bool {
        let is_taken = row.placement.as_ref().is_some_and(|it| self.is_taken(it));
        if is_taken || self.items.iter().any(|it| it.no == row.no) {
            return false;
        }
        replace(&mut self.items, row, |it| it.no);
        true
    }

    fn place(&mut self, item: u64, placement: ItemPlacement) -> bool {
        let is_taken = self.is_taken(&placement);
        match self.items.iter_mut().find(|it| it.no == item) {
            Some(it) if it.placement.is_none() && !is_taken => it.placement = Some(placement),
            _ => return false,
        }
        true
    }

    fn is_taken(&self, place: &ItemPlacement) -> bool {
        self.items.iter().any(|it| it.placement.as_ref() == Some(place))
    }
}

/// Compares everything that can be read of one session.
async fn same_session(store: &MemoryStore, model: &Model, key: &SessionKey) {
    let empty = Rows::default();
    let stored = model.sessions.get(key);
    let rows = stored.unwrap_or(&empty);
    let row = store.read_session(key).await.unwrap();
    assert_eq!(row.as_ref().map(|it| &it.head), rows.head.as_ref());
    assert_eq!(store.read_counters(key).await.unwrap(), model.numbers(key));
    if let Some(row) = row {
        assert_eq!((&row.key, row.counters, &row.fields), (key, model.numbers(key), &rows.fields));
    }
    same_items(store, rows, key).await;
    same_turns(store, rows, key).await;
    assert_eq!(store.read_early_signals(key).await.unwrap(), rows.mail);
    assert_eq!(store.read_model_usage(&UsageRowQuery::Session(key.clone())).await.unwrap(), rows.usage);
    let of_tenant = model.usage.get(&key.tenant).cloned().unwrap_or_default();
    assert_eq!(store.read_model_usage(&UsageRowQuery::Tenant(key.tenant.clone())).await.unwrap(), of_tenant);
    for name in NAMES {
        let of = invocation(name);
        let expected = rows.positions.iter().find(|it| it.invocation == of);
        assert_eq!(store.read_position(key, &of).await.unwrap().as_ref(), expected);
    }
    for turn in 0..4 {
        let expected: Vec<_> = rows.records.iter().filter(|it| it.turn == turn).cloned().collect();
        assert_eq!(store.read_turn_records(key, turn).await.unwrap(), expected);
        let expected: Vec<_> = rows.events.iter().filter(|it| it.seq >= turn).take(2).cloned().collect();
        assert_eq!(store.read_events(key, turn, 2).await.unwrap(), expected);
    }
}

async fn same_items(store: &MemoryStore, rows: &Rows, key: &SessionKey) {
    for from in 0..4 {
        let range = ItemRange::Numbers { from, to: 3 };
        let expected: Vec<_> = rows.items.iter().filter(|it| (from..3).contains(&it.no)).cloned().collect();
        assert_eq!(store.read_items(key, &range).await.unwrap(), expected);
        let expected: Vec<_> = rows.items.iter().filter(|it| it.turn == from).cloned().collect();
        assert_eq!(store.read_items(key, &ItemRange::Turn(from)).await.unwrap(), expected);
    }
    for (field, generation, from) in NAMES.iter().flat_map(|it| [(it, 0, 0), (it, 1, 1)]) {
        let seq = |it: &ListItemRow| {
            let is_here = |it: &&ItemPlacement| it.field == **field && it.generation == generation;
            it.placement.as_ref().filter(is_here).map(|it| it.seq).filter(|it| *it >= from)
        };
        let mut expected: Vec<_> = rows.items.iter().filter(|it| seq(it).is_some()).cloned().collect();
        expected.sort_by_key(seq);
        expected.truncate(2);
        let range = ItemRange::List { field: (*field).to_owned(), generation, from, limit: 2 };
        assert_eq!(store.read_items(key, &range).await.unwrap(), expected);
    }
}

async fn same_turns(store: &MemoryStore, rows: &Rows, key: &SessionKey) {
    let one = |it: &str| it.to_owned();
    let mut queries = vec![TurnRowQuery::Open, TurnRowQuery::From { no: 1, limit: 2 }, TurnRowQuery::No(2)];
    queries.extend(NAMES.map(|it| TurnRowQuery::Key(one(it))));
    queries.extend(NAMES.map(|it| TurnRowQuery::Invocation(invocation(it))));
    for query in queries {
        let passes = |it: &&TurnRow| match &query {
            TurnRowQuery::No(no) => it.no == *no,
            TurnRowQuery::Key(key) => it.key.as_ref() == Some(key),
            TurnRowQuery::Invocation(of) => it.invocation == *of,
            TurnRowQuery::Open => !it.status.is_ended(),
            TurnRowQuery::From { no, .. } => it.no >= *no,
        };
        let mut expected: Vec<_> = rows.turns.iter().filter(passes).cloned().collect();
        if let TurnRowQuery::From { .. } = query {
            expected.truncate(2);
        }
        assert_eq!(store.read_turns(key, &query).await.unwrap(), expected, "{query:?}");
    }
}

/// Compares the reads that go across sessions.
async fn same_across(store: &MemoryStore, model: &Model) {
    let waits: Vec<_> = model
        .sessions
        .iter()
        .flat_map(|(key, rows)| rows.waits.iter().map(|it| (key.clone(), it.clone())))
        .collect();
    let mut queries: Vec<_> = keys().into_iter().map(WaitRowQuery::Pending).collect();
    for tenant in ["a", "b"].map(|it| key_of(it, "x").tenant) {
        queries.push(WaitRowQuery::PendingOf(tenant.clone(), u64::MAX));
        for name in NAMES {
            queries.push(WaitRowQuery::SignalOf(tenant.clone(), name.to_owned(), u64::MAX));
            queries.push(WaitRowQuery::Invocation(tenant.clone(), invocation(name)));
        }
    }
    queries.extend(keys().into_iter().map(|it| WaitRowQuery::Signal(it, NAMES[0].to_owned())));
    for query in queries {
        let passes = |(key, it): &&(SessionKey, WaitRow)| {
            let is_pending = it.status == StoredWaitStatus::Pending;
            match &query {
                WaitRowQuery::Pending(of) => key == of && is_pending,
                WaitRowQuery::PendingOf(tenant, _) => key.tenant == *tenant && is_pending,
                WaitRowQuery::Signal(of, signal) => key == of && it.signal == *signal,
                WaitRowQuery::SignalOf(tenant, signal, _) => {
                    key.tenant == *tenant && it.signal == *signal && is_pending
                }
                WaitRowQuery::Invocation(tenant, of) => key.tenant == *tenant && it.invocation == *of,
            }
        };
        let expected: Vec<_> = waits.iter().filter(passes).cloned().collect();
        assert_eq!(store.read_waits(&query).await.unwrap(), expected, "{query:?}");
    }
    let mut due: Vec<_> = waits
        .iter()
        .filter(|(_, it)| it.status == StoredWaitStatus::Pending && it.deadline.is_some())
        .collect();
    due.sort_by_key(|(_, it)| it.deadline);
    let found = store.read_waits_by_deadline(None, u64::MAX).await.unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), due);
    same_ownership(store, model).await;
}

async fn same_ownership(store: &MemoryStore, model: &Model) {
    let turns = model.sessions.iter().flat_map(|(key, rows)| {
        rows.turns.iter().filter(|it| !it.status.is_ended()).map(move |it| (key.clone(), it.clone()))
    });
    let expected: Vec<_> = turns.filter(|(_, it)| it.fence < FencingToken(1)).collect();
    assert_eq!(store.read_ownerless_turns(None, u64::MAX).await.unwrap(), expected);
    for key in model.sessions.keys() {
        let page = store.read_session_page(&key.tenant, Some(&key.session), 1).await.unwrap();
        let of_tenant = model.sessions.keys().filter(|it| it.tenant == key.tenant);
        let next = of_tenant.filter(|it| it.session > key.session).map(|it| it.session.clone()).next();
        assert_eq!((&page.sessions[0].key, page.next), (key, next));
    }
    for (tenant, of) in ["a", "b"].into_iter().flat_map(|tenant| NAMES.map(|of| (tenant, of))) {
        let tenant = key_of(tenant, "x").tenant;
        let has = |rows: &Rows| rows.turns.iter().any(|it| it.invocation == invocation(of));
        let mut holders = model.sessions.iter().filter(|(key, rows)| key.tenant == tenant && has(rows));
        let expected = holders.next().map(|(key, _)| key.clone());
        assert_eq!(store.find_session_of_invocation(&tenant, &invocation(of)).await.unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    // INV-3, INV-14
    #[test]
    fn the_memory_store_agrees_with_a_naive_model(batches in proptest::collection::vec(batch(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, mut model) = (MemoryStore::new(), Model::default());
            for batch in batches {
                let is_taken = model.apply(&batch, acquire(&store, &batch.key));
                let answer = store.apply(batch.clone()).await;
                assert_eq!(answer.is_ok(), is_taken, "{batch:?}: {answer:?}");
                for key in keys() {
                    same_session(&store, &model, &key).await;
                }
                same_across(&store, &model).await;
                assert_eq!(store.audit(), model.audit);
            }
        });
    }
}
