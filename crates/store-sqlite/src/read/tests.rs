//! How queries go through the file: by which index, and how far.

use std::cell::RefCell;

use rusqlite::Connection;
use singletree_durable::{
    FencingToken, InvocationId, ItemRange, SessionId, SessionKey, TenantId, TurnRowQuery, UsageRowQuery,
    WaitRowQuery,
};

use super::{document, event, item, position, session, turn, usage, wait};
use crate::format;

thread_local! {
    /// The queries that this thread ran, each with the steps that SQLite took for it.
    static ASKED: RefCell<Vec<(String, i32)>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn note(sql: &str, steps: i32) {
    ASKED.with_borrow_mut(|it| it.push((sql.to_owned(), steps)));
}

/// Runs reads and returns how many steps they took together.
fn steps(reads: impl FnOnce()) -> i32 {
    ASKED.take();
    reads();
    ASKED.take().iter().map(|(_, steps)| steps).sum()
}

fn key() -> SessionKey {
    SessionKey::new(TenantId::parse("t").unwrap(), SessionId::parse("s1").unwrap())
}

/// A file of so many suspended sessions, the first of which has so many messages.
fn file(sessions: u32, messages: u32) -> Connection {
    let mut file = Connection::open_in_memory().unwrap();
    file.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    format::take_over_file(&mut file).unwrap();
    file.execute_batch(&format!(
        "INSERT INTO name VALUES (1, 'a'), (2, 'g'), (3, 'messages'); \
         CREATE TEMP TABLE n AS WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 2000) \
         SELECT n FROM c; \
         INSERT INTO session (id, tenant, session, agent, graph, schema_version, version, prompt_policy, \
         created_at, updated_at) SELECT n, 't', 's' || n, 1, 2, '', 1, 'conversation', 0, 0 FROM n \
         WHERE n <= {sessions}; \
         INSERT INTO turn (id, invocation, ordinal, kind, status, fence, deaths, agent, graph, accepted_at) \
         SELECT n << 32, 'invocation-' || n, 0, 'message', 'suspended', 1, 0, 1, 2, 0 FROM n WHERE n <= {sessions}; \
         INSERT INTO wait (id, signal, invocation, turn, status, created_at) \
         SELECT n << 32, 'ok', 'invocation-' || n, 0, 'pending', 0 FROM n WHERE n <= {sessions}; \
         INSERT INTO item (id, turn, list, generation, seq, body) \
         SELECT (1 << 32) + n, 0, 3, 0, n - 1, '{{}}' FROM n WHERE n <= {messages};"
    ))
    .unwrap();
    file
}

fn last(messages: u32) -> ItemRange {
    let from = u64::from(messages) - 50;
    ItemRange::List { field: "messages".into(), generation: 0, from, limit: 50 }
}

// INV-5, D22: a read depends only on its window, however long the history is.
#[test]
fn a_window_costs_the_same_however_long_the_history_is() {
    let read = |messages| {
        let file = file(1, messages);
        steps(|| assert_eq!(item::read_items(&file, &key(), &last(messages)).unwrap().len(), 50))
    };
    assert_eq!(read(50), read(2_000));
    // The step count is meaningful: a longer read takes more steps.
    let all = ItemRange::List { field: "messages".into(), generation: 0, from: 0, limit: u64::MAX };
    let file = file(1, 2_000);
    assert!(steps(|| drop(item::read_items(&file, &key(), &all).unwrap())) > 10 * read(2_000));
}

// INV-5: a start looks for turns without an owner and for deadlines, and sees nothing of sessions that only wait.
#[test]
fn a_start_costs_the_same_however_many_sessions_wait() {
    let read = |sessions| {
        let file = file(sessions, 1);
        steps(|| {
            assert_eq!(turn::read_ownerless_turns(&file, FencingToken(9), None, 256).unwrap(), []);
            assert_eq!(wait::read_waits_by_deadline(&file, None, 1).unwrap(), []);
        })
    };
    assert_eq!(read(0), read(2_000));
}

// INV-5: who has sessions is found by a step for each tenant, however many sessions each has.
#[test]
fn the_tenants_cost_the_same_however_many_sessions_they_have() {
    let read = |sessions| {
        let file = file(sessions, 1);
        file.execute_batch("UPDATE session SET tenant = 'u' WHERE id = 2").unwrap();
        steps(|| assert_eq!(session::read_tenants(&file, None, 9).unwrap().len(), 2))
    };
    assert_eq!(read(3), read(2_000));
}

/// Runs every kind of read once.
fn every_read(file: &Connection) {
    let (key, of) = (key(), InvocationId::parse("invocation-1").unwrap());
    let tenant = &key.tenant;
    session::read_session(file, &key).unwrap();
    session::read_counters(file, &key).unwrap();
    session::read_session_page(file, tenant, None, 1).unwrap();
    session::read_recent_sessions(file, tenant, None, 1).unwrap();
    session::read_tenants(file, None, 1).unwrap();
    let named = singletree_durable::DocumentKey::new(tenant.clone(), "k", "a");
    document::read_document(file, &named).unwrap();
    for past in [None, Some("a")] {
        document::read_documents(file, (tenant, "k"), past, 1).unwrap();
    }
    document::read_blob(file, &key, "d").unwrap();
    document::count_blob_bytes(file, &key).unwrap();
    item::read_items(file, &key, &last(50)).unwrap();
    item::read_items(file, &key, &ItemRange::Numbers { from: 0, to: 1 }).unwrap();
    item::read_items(file, &key, &ItemRange::Turn(0)).unwrap();
    for query in [
        TurnRowQuery::No(0),
        TurnRowQuery::Key("k".into()),
        TurnRowQuery::Invocation(of.clone()),
        TurnRowQuery::Open,
        TurnRowQuery::From { no: 0, limit: 1 },
    ] {
        turn::read_turns(file, &key, &query).unwrap();
    }
    turn::find_session_of_invocation(file, tenant, &of).unwrap();
    turn::read_ownerless_turns(file, FencingToken(9), None, 1).unwrap();
    for query in [
        WaitRowQuery::Pending(key.clone()),
        WaitRowQuery::PendingOf(tenant.clone(), 1),
        WaitRowQuery::Signal(key.clone(), "ok".into()),
        WaitRowQuery::SignalOf(tenant.clone(), "ok".into(), 1),
        WaitRowQuery::Invocation(tenant.clone(), of.clone()),
    ] {
        wait::read_waits(file, &query).unwrap();
    }
    wait::read_waits_by_deadline(file, None, 1).unwrap();
    position::read_position(file, &key, &of).unwrap();
    usage::read_model_usage(file, &UsageRowQuery::Session(key.clone())).unwrap();
    position::read_turn_records(file, &key, 0).unwrap();
    event::read_events(file, &key, 0, 1).unwrap();
}

// INV-5: checked with SQLite's query plans. Tables are searched by a key; only indexes of pending work are scanned.
#[test]
fn every_query_searches_by_a_key_or_an_index_and_none_goes_through_a_table() {
    let file = file(1, 50);
    ASKED.take();
    every_read(&file);
    let (mut plans, mut windows) = (0, 0);
    for (sql, _) in ASKED.take() {
        let mut query = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![rusqlite::types::Null; query.parameter_count()];
        let lines =
            query.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
        for line in lines.map(Result::unwrap) {
            let is_todo =
                ["turn_open", "wait_due", "SCAN found", "CONSTANT ROW"].iter().any(|it| line.contains(it));
            assert!(!line.starts_with("SCAN") || is_todo, "{sql}\n{line}");
            plans += 1;
            windows += usize::from(
                line == "SEARCH item USING INDEX item_place (session=? AND list=? AND generation=? AND seq>?)",
            );
        }
    }
    assert_eq!(windows, 1, "a list is read by its index");
    assert!(plans >= 20, "{plans}");
}
