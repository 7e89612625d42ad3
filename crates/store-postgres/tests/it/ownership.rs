//! Who owns a session: living owners keep it, dead ones lose it, and a commit on its way is never missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use singletree_durable::{
    AuditRow, Batch, Counters, Error, FencingToken, Journal, JournalMaintenance, RowMutation, SessionHead,
    SessionId, SessionKey, TenantId, Timestamp,
};
use singletree_env::{Env, MonotonicClock};
use singletree_store_postgres::{PostgresOptions, PostgresStore};

use crate::server::{Server, open};

pub(crate) fn key(session: &str) -> SessionKey {
    SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
}

pub(crate) fn head_batch(session: &str, fence: FencingToken, version: u64) -> Batch {
    let mut batch = Batch::new(key(session), fence);
    batch.put(RowMutation::Head(SessionHead {
        agent: "agent".to_owned(),
        graph: "graph".to_owned(),
        schema_version: "v1".to_owned(),
        version,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(2),
    }));
    batch
}

pub(crate) async fn fence(store: &PostgresStore, session: &str) -> FencingToken {
    store.acquire(&key(session)).await.unwrap().fence
}

async fn version(store: &PostgresStore, session: &str) -> Option<u64> {
    store.read_session(&key(session)).await.unwrap().map(|row| row.head.version)
}

// INV-1
#[tokio::test]
async fn a_living_owner_keeps_its_session_until_it_gives_it_back() {
    let Some(server) = Server::start("a_living_owner_keeps_its_session_until_it_gives_it_back").await else {
        return;
    };
    drop(server.database("living").await);
    let options = PostgresOptions::new(server.url("living"), Env::from_system()).connections(4);
    let options = options.lease(Duration::from_secs(60)).node("one").address("http://one:8787");
    let (one, two) = (options.open().await.unwrap(), open(&server.url("living")).await);
    let held = fence(&one, "s").await;
    one.apply(head_batch("s", held, 1)).await.unwrap();
    let refused = two.acquire(&key("s")).await.unwrap_err();
    assert_eq!(refused.category(), "session_moving", "{refused:?}");
    let Error::HeldElsewhere { node, address, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((node.as_str(), address.as_deref()), ("one", Some("http://one:8787")));
    one.apply(head_batch("s", held, 2)).await.unwrap();

    one.release(vec![key("s")]).await.unwrap();
    let taken = two.acquire(&key("s")).await.unwrap();
    assert!(taken.fence > held);
    assert_eq!(taken.snapshot.session.unwrap().head.version, 2);
    two.apply(head_batch("s", taken.fence, 3)).await.unwrap();

    two.close().await;
    let again = fence(&one, "s").await;
    one.apply(head_batch("s", again, 4)).await.unwrap();
    assert!(matches!(two.apply(head_batch("s", taken.fence, 5)).await, Err(Error::Closed)));
    assert_eq!(version(&one, "s").await, Some(4));
}

// INV-1: the lease of a process that is gone ends.
#[tokio::test]
async fn the_sessions_of_a_silent_owner_go_to_another_after_one_lease() {
    let Some(server) = Server::start("the_sessions_of_a_silent_owner_go_to_another").await else { return };
    let admin = server.database("silent").await;
    let lease = Duration::from_secs(3);
    let options = || PostgresOptions::new(server.url("silent"), Env::from_system()).lease(lease);
    let two = options().open().await.unwrap();
    let one = options().open().await.unwrap();
    let held = fence(&one, "s").await;
    one.apply(head_batch("s", held, 1)).await.unwrap();
    drop(one);
    // The clock of the database has no part in it.
    let behind = "UPDATE singletree.node SET alive_until = alive_until + interval '1 hour'";
    admin.batch_execute(behind).await.unwrap();
    let since = Instant::now();
    let taken = loop {
        match two.acquire(&key("s")).await {
            Ok(taken) => break taken,
            Err(Error::HeldElsewhere { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    };
    // The taker has watched the beats all the time.
    assert!(since.elapsed() < lease + Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!(taken.snapshot.session.unwrap().head.version, 1);
    assert!(two.read_ownerless_turns(None, 9).await.unwrap().is_empty());
}

// INV-1: a standby whose clock is ahead takes the place of the first server.
#[tokio::test]
async fn a_step_of_the_databases_clock_ends_no_lease() {
    let Some(server) = Server::start("a_step_of_the_databases_clock_ends_no_lease").await else { return };
    let admin = server.database("step").await;
    let options =
        || PostgresOptions::new(server.url("step"), Env::from_system()).lease(Duration::from_secs(3));
    let (one, two) = (options().open().await.unwrap(), options().open().await.unwrap());
    let held = fence(&one, "s").await;
    one.apply(head_batch("s", held, 1)).await.unwrap();
    let beat = async || {
        let sql = "SELECT beat FROM singletree.node ORDER BY incarnation LIMIT 1";
        admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let since = beat().await;
    while beat().await < since + 3 {
        let ahead = "UPDATE singletree.node SET alive_until = now() - interval '1 hour'";
        admin.batch_execute(ahead).await.unwrap();
        let refused = two.acquire(&key("s")).await;
        assert!(matches!(refused, Err(Error::HeldElsewhere { .. })), "{refused:?}");
    }
    one.apply(head_batch("s", held, 2)).await.unwrap();
}

// INV-1: sessions whose statements take long do not cost the lease.
#[tokio::test]
async fn the_heartbeat_does_not_wait_behind_the_statements_of_sessions() {
    let Some(server) = Server::start("the_heartbeat_does_not_wait_behind_the_statements_of_sessions").await
    else {
        return;
    };
    let admin = server.database("busy").await;
    let options = PostgresOptions::new(server.url("busy"), Env::from_system()).connections(2);
    let store = options.lease(Duration::from_secs(3)).open().await.unwrap();
    let mut commits = Vec::new();
    for session in ["s", "t", "u"] {
        let held = fence(&store, session).await;
        store.apply(head_batch(session, held, 1)).await.unwrap();
        commits.push((session, held));
    }
    admin.batch_execute("BEGIN; LOCK TABLE singletree.session").await.unwrap();
    let commits: Vec<_> =
        commits.iter().map(|(session, held)| store.apply(head_batch(session, *held, 2))).collect();
    let beat =
        async || admin.query_one("SELECT beat FROM singletree.node", &[]).await.unwrap().get::<_, i64>(0);
    let since = beat().await;
    let beats = async { while beat().await < since + 6 {} };
    tokio::time::timeout(Duration::from_secs(20), beats).await.unwrap();
    admin.batch_execute("COMMIT").await.unwrap();
    for commit in commits {
        commit.await.unwrap();
    }
}

// INV-1, INV-3: the commit of the former owner holds the row when the other one acquires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_held_open_is_in_what_the_next_owner_reads() {
    let Some(server) = Server::start("a_commit_that_is_held_open_is_in_what_the_next_owner_reads").await
    else {
        return;
    };
    let admin = server.database("held").await;
    let (one, two) = (open(&server.url("held")).await, open(&server.url("held")).await);
    let held = fence(&one, "s").await;
    one.apply(head_batch("s", held, 1)).await.unwrap();
    admin.batch_execute("BEGIN; SELECT * FROM singletree.session FOR UPDATE").await.unwrap();
    let commit = one.apply(head_batch("s", held, 2));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'held'";
    let looker = server.database("held").await;
    let blocked = async |count: i64| {
        while looker.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < count {
            tokio::task::yield_now().await;
        }
    };
    blocked(1).await;
    // The lease of the first one has ended, and it does not know.
    looker
        .batch_execute("DELETE FROM singletree.node WHERE incarnation = (SELECT owner FROM singletree.lease)")
        .await
        .unwrap();
    let acquiring = tokio::spawn({
        let two = two.clone();
        async move { two.acquire(&key("s")).await.unwrap() }
    });
    blocked(2).await;
    admin.batch_execute("COMMIT").await.unwrap();
    commit.await.unwrap();
    let taken = acquiring.await.unwrap();
    assert_eq!(taken.snapshot.session.unwrap().head.version, 2);
    assert!(matches!(one.apply(head_batch("s", held, 3)).await, Err(Error::LeaseLost { .. })));
}

// A handle whose lease has ended goes on as another owner.
#[tokio::test]
async fn an_owner_whose_lease_has_ended_acquires_anew() {
    let Some(server) = Server::start("an_owner_whose_lease_has_ended_acquires_anew").await else { return };
    let admin = server.database("ended").await;
    let store = open(&server.url("ended")).await;
    let held = fence(&store, "s").await;
    store.apply(head_batch("s", held, 1)).await.unwrap();
    admin.batch_execute("DELETE FROM singletree.node").await.unwrap();
    let other = fence(&store, "t").await;
    assert!(matches!(store.apply(head_batch("s", held, 2)).await, Err(Error::LeaseLost { .. })));
    store.apply(head_batch("t", other, 1)).await.unwrap();
    let again = fence(&store, "s").await;
    assert!(again > held);
    store.apply(head_batch("s", again, 2)).await.unwrap();
    assert_eq!(version(&store, "s").await, Some(2));
}

/// A monotonic clock that tells what it was set to.
#[derive(Debug, Default)]
struct SetClock(AtomicU64);

impl MonotonicClock for SetClock {
    fn elapsed_since_origin(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

// INV-1: a process that stood still renews its lease before it answers from memory, and learns that it has lost it.
#[tokio::test]
async fn a_lease_of_which_little_is_left_is_renewed_before_memory_is_trusted() {
    let Some(server) = Server::start("a_lease_of_which_little_is_left_is_renewed").await else { return };
    let admin = server.database("overdue").await;
    let beat =
        async || admin.query_one("SELECT beat FROM singletree.node", &[]).await.unwrap().get::<_, i64>(0);
    let clock = Arc::new(SetClock::default());
    let env = Env { monotonic: clock.clone(), ..Env::from_system() };
    let options = PostgresOptions::new(server.url("overdue"), env).lease(Duration::from_secs(60));
    let store = options.connections(4).open().await.unwrap();
    let held = fence(&store, "s").await;
    clock.0.store(44, Ordering::SeqCst);
    store.check_lease(&key("s"), held).await.unwrap();
    assert_eq!(beat().await, 0, "nothing is asked");
    clock.0.store(45, Ordering::SeqCst);
    let s = key("s");
    let (one, two) = tokio::join!(store.check_lease(&s, held), store.check_lease(&s, held));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(beat().await, 1, "one of both renews");

    admin.batch_execute("DELETE FROM singletree.node").await.unwrap();
    store.check_lease(&key("s"), held).await.unwrap();
    clock.0.store(90, Ordering::SeqCst);
    let lost = store.check_lease(&key("s"), held).await;
    assert!(matches!(lost, Err(Error::LeaseLost { .. })), "{lost:?}");
    let again = fence(&store, "s").await;
    store.check_lease(&key("s"), again).await.unwrap();
}

// D25, INV-12: of a session that is deleted, or never came, no name stays.
#[tokio::test]
async fn nothing_tells_the_name_of_a_session_that_does_not_exist() {
    let Some(server) = Server::start("nothing_tells_the_name_of_a_session_that_does_not_exist").await else {
        return;
    };
    let admin = server.database("names").await;
    let store = open(&server.url("names")).await;
    let held = fence(&store, "deleted-name").await;
    let mut made = head_batch("deleted-name", held, 1);
    made.put(RowMutation::Counters(Counters { turns: 3, ..Counters::default() }));
    store.apply(made).await.unwrap();
    let mut deleted = Batch::new(key("deleted-name"), held);
    deleted.put(RowMutation::Delete);
    deleted.put(RowMutation::Audit(AuditRow {
        at: Timestamp::from_millis(3),
        action: "session.deleted".to_owned(),
        key: key("deleted-name"),
        by: Some("actor-name".to_owned()),
    }));
    store.apply(deleted).await.unwrap();
    fence(&store, "deleted-name-too").await;
    store.release(vec![key("deleted-name"), key("deleted-name-too")]).await.unwrap();
    // One whose owner ends without releasing it is forgotten when the next one registers.
    fence(&store, "deleted-name-as-well").await;
    store.close().await;
    let store = open(&server.url("names")).await;

    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'singletree'";
    for table in admin.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let rows = admin.query(&format!("SELECT to_jsonb(t)::text FROM singletree.\"{table}\" t"), &[]).await;
        for row in rows.unwrap() {
            let row: String = row.get(0);
            assert!(!row.contains("deleted-name") && !row.contains("actor-name"), "{table}: {row}");
        }
    }
    assert_eq!(store.read_counters(&key("deleted-name")).await.unwrap().turns, 3);
}

#[tokio::test]
async fn the_processes_that_share_a_database_are_listed_with_their_sessions() {
    let Some(server) =
        Server::start("the_processes_that_share_a_database_are_listed_with_their_sessions").await
    else {
        return;
    };
    let database = server.database("listed").await;
    let options = PostgresOptions::new(server.url("listed"), Env::from_system()).connections(4);
    let lease = Duration::from_secs(60);
    let one = options.lease(lease).node("one").address("http://one:8787").open().await.unwrap();
    let two =
        PostgresOptions::new(server.url("listed"), Env::from_system()).node("two").open().await.unwrap();
    for session in ["s", "t"] {
        let held = fence(&one, session).await;
        one.apply(head_batch(session, held, 1)).await.unwrap();
    }
    // Who only reads is no owner.
    let reader = PostgresOptions::new(server.url("listed"), Env::from_system());
    let reader = reader.open_read_only().await.unwrap();
    let listed = reader.nodes().await.unwrap();
    let seen: Vec<_> =
        listed.iter().map(|it| (it.name.as_str(), it.address.as_deref(), it.sessions)).collect();
    assert_eq!(seen, [("one", Some("http://one:8787"), 2), ("two", None, 0)]);
    assert!(listed.iter().all(|it| it.lease_left.is_some_and(|left| left <= lease)), "{listed:?}");
    assert!(listed[0].incarnation < listed[1].incarnation, "{listed:?}");
    one.close().await;
    let names: Vec<_> = reader.nodes().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["two"]);
    let ended = "UPDATE singletree.node SET alive_until = now() - interval '1 hour'";
    database.batch_execute(ended).await.unwrap();
    assert_eq!(two.nodes().await.unwrap()[0].lease_left, None);
}
