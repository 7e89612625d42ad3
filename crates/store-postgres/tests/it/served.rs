//! Who goes on with a session: a process that has its agent in the version that its work began with, as long as one lives.

use std::time::Duration;

use singletree_durable::{
    Batch, Counters, Error, FencingToken, InvocationId, Journal, RowMutation, ServedGraph, ServedGraphs,
    StoredTurnKind, StoredTurnStatus, StoredWaitStatus, TenantId, Timestamp, TurnRow, WaitRow,
};
use singletree_env::Env;
use singletree_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::Client;

use crate::ownership::{fence, head_batch, key};
use crate::server::Server;

const AGE: Duration = Duration::from_secs(3_600);

/// A process with an agent in one version of its graph, and of its state.
struct Node<'a> {
    name: &'a str,
    graph: &'a str,
    schema_version: &'a str,
}

impl Node<'_> {
    fn served(&self) -> ServedGraphs {
        let (agent, graph) = ("agent".to_owned(), self.graph.to_owned());
        let graph = ServedGraph { agent, graph, schema_version: self.schema_version.to_owned() };
        ServedGraphs { graphs: vec![graph], tenant: None, turn_age: AGE }
    }

    async fn open(&self, server: &Server, database: &str) -> PostgresStore {
        let options = PostgresOptions::new(server.url(database), Env::from_system()).connections(4);
        let options = options.node(self.name).address(format!("http://{}:8787", self.name));
        let store = options.lease(Duration::from_secs(60)).open().await.unwrap();
        store.announce_graphs(self.served());
        store
    }
}

/// Waits until so many processes have said which agents they have.
async fn wait_for_announcements(admin: &Client, count: i64, like: &str) {
    let sql = "SELECT count(*) FROM singletree.node WHERE serves::text LIKE $1";
    while admin.query_one(sql, &[&like]).await.unwrap().get::<_, i64>(0) < count {
        tokio::task::yield_now().await;
    }
}

fn turn(no: u64, graph: &str, status: StoredTurnStatus) -> RowMutation {
    RowMutation::Turn(TurnRow {
        no,
        invocation: InvocationId::parse(format!("i{no}")).unwrap(),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status,
        fence: FencingToken(0),
        deaths: 0,
        agent: "agent".to_owned(),
        graph: graph.to_owned(),
        message: None,
        wait: None,
        key: None,
        digest: None,
        accepted_at: Timestamp::from_millis(Env::from_system().clock.now().as_millis()),
        ended_at: None,
        outcome: None,
        retries: None,
    })
}

/// Has a process write a session with these rows, and give it back.
async fn leave(store: &PostgresStore, session: &str, rows: Vec<RowMutation>) {
    let mut batch: Batch = head_batch(session, fence(store, session).await, 1);
    batch.put(RowMutation::Counters(Counters { turns: 9, waits: 9, ..Counters::default() }));
    for row in rows {
        batch.put(row);
    }
    store.apply(batch).await.unwrap();
    store.release(vec![key(session)]).await.unwrap();
}

/// Tells which process is named when a session is asked for; none when it is given.
async fn refused_for(store: &PostgresStore, session: &str) -> Option<String> {
    match store.acquire(&key(session)).await {
        Ok(_) => {
            store.release(vec![key(session)]).await.unwrap();
            None
        }
        Err(Error::HeldElsewhere { node, address, .. }) => {
            assert_eq!(address, Some(format!("http://{node}:8787")));
            Some(node)
        }
        Err(error) => panic!("{error}"),
    }
}

const OLD: Node<'static> = Node { name: "old", graph: "graph", schema_version: "v1" };
const NEW: Node<'static> = Node { name: "new", graph: "changed", schema_version: "v1" };

#[tokio::test]
async fn a_turn_that_has_begun_is_left_to_a_living_process_with_its_graph() {
    let test = "a_turn_that_has_begun_is_left_to_a_living_process_with_its_graph";
    let Some(server) = Server::start(test).await else { return };
    let admin = server.database("begun").await;
    let (old, new) = (OLD.open(&server, "begun").await, NEW.open(&server, "begun").await);
    wait_for_announcements(&admin, 2, "%").await;
    leave(&old, "running", vec![turn(0, "graph", StoredTurnStatus::Accepted)]).await;
    let ended = turn(0, "graph", StoredTurnStatus::Completed);
    leave(&old, "ended", vec![ended, turn(1, "changed", StoredTurnStatus::Accepted)]).await;
    let queued = turn(1, "changed", StoredTurnStatus::Accepted);
    leave(&old, "queued", vec![turn(0, "graph", StoredTurnStatus::Accepted), queued]).await;
    leave(&old, "idle", vec![]).await;

    assert_eq!(refused_for(&new, "running").await.as_deref(), Some("old"));
    assert_eq!(refused_for(&old, "running").await, None);
    assert_eq!(refused_for(&old, "ended").await.as_deref(), Some("new"));
    // The first one decides: the others are behind it.
    assert_eq!(refused_for(&new, "queued").await.as_deref(), Some("old"));
    assert_eq!(refused_for(&old, "queued").await, None);
    for store in [&old, &new] {
        assert_eq!(refused_for(store, "idle").await, None);
        assert_eq!(refused_for(store, "not-there").await, None);
    }

    // One that lives and holds it is named, whatever it has.
    let held = new.acquire(&key("idle")).await.unwrap().fence;
    let mut begun = Batch::new(key("idle"), held);
    begun.put(turn(0, "graph", StoredTurnStatus::Accepted));
    new.apply(begun).await.unwrap();
    let third = Node { name: "third", graph: "a third one", ..OLD }.open(&server, "begun").await;
    wait_for_announcements(&admin, 3, "%").await;
    assert_eq!(refused_for(&third, "idle").await.as_deref(), Some("new"));

    // Who takes no more work gets none; when nobody else can, any process takes the session, and decides by itself.
    third.close().await;
    old.announce_graphs(ServedGraphs { graphs: vec![], tenant: None, turn_age: AGE });
    wait_for_announcements(&admin, 1, r#"%"graphs": []%"#).await;
    let listed = new.nodes().await.unwrap();
    let draining: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.is_draining)).collect();
    assert_eq!(draining, [("old", true), ("new", false)]);
    assert_eq!(refused_for(&new, "running").await, None);
    assert_eq!(refused_for(&old, "ended").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn a_suspended_turn_is_left_like_one_that_runs() {
    let Some(server) = Server::start("a_suspended_turn_is_left_like_one_that_runs").await else { return };
    let admin = server.database("suspended").await;
    let (old, new) = (OLD.open(&server, "suspended").await, NEW.open(&server, "suspended").await);
    wait_for_announcements(&admin, 2, "%").await;
    let wait = |status| {
        RowMutation::Wait(WaitRow {
            no: 3,
            signal: "approval".to_owned(),
            invocation: InvocationId::parse("i0").unwrap(),
            turn: 0,
            status,
            metadata: None,
            action: None,
            deadline: None,
            payload_schema: None,
            on_deadline: None,
            created_at: Timestamp::from_millis(1),
            ended_by: None,
            answer: None,
            answered_by: None,
            ended_at: None,
        })
    };
    let suspended = || turn(0, "graph", StoredTurnStatus::Suspended);
    leave(&old, "waits", vec![suspended(), wait(StoredWaitStatus::Pending)]).await;
    // A message that came behind the wait is behind its turn.
    let behind = turn(1, "changed", StoredTurnStatus::Accepted);
    leave(&old, "behind", vec![suspended(), wait(StoredWaitStatus::Pending), behind]).await;
    leave(&old, "answered", vec![suspended(), wait(StoredWaitStatus::Consumed)]).await;
    for session in ["waits", "behind"] {
        assert_eq!(refused_for(&new, session).await.as_deref(), Some("old"), "{session}");
        assert_eq!(refused_for(&old, session).await, None, "{session}");
    }
    assert_eq!(refused_for(&new, "answered").await, None);
}

#[tokio::test]
async fn an_idle_session_is_left_when_its_state_is_of_another_version() {
    let test = "an_idle_session_is_left_when_its_state_is_of_another_version";
    let Some(server) = Server::start(test).await else { return };
    let admin = server.database("idle").await;
    let newer = Node { name: "newer", graph: "changed", schema_version: "v2" };
    let (old, new) = (OLD.open(&server, "idle").await, newer.open(&server, "idle").await);
    wait_for_announcements(&admin, 2, "%").await;
    leave(&old, "s", vec![]).await;
    assert_eq!(refused_for(&new, "s").await.as_deref(), Some("old"));
    assert_eq!(refused_for(&old, "s").await, None);
    // Who takes over no turns says nothing, and gets every session that nobody holds.
    let options = PostgresOptions::new(server.url("idle"), Env::from_system()).connections(4);
    assert_eq!(refused_for(&options.open().await.unwrap(), "s").await, None);
    old.close().await;
    assert_eq!(refused_for(&new, "s").await, None);
}

#[tokio::test]
async fn what_is_too_old_or_of_another_tenant_is_left_to_nobody() {
    let test = "what_is_too_old_or_of_another_tenant_is_left_to_nobody";
    let Some(server) = Server::start(test).await else { return };
    let admin = server.database("older").await;
    let (old, new) = (OLD.open(&server, "older").await, NEW.open(&server, "older").await);
    wait_for_announcements(&admin, 2, "%").await;
    leave(&old, "s", vec![turn(0, "graph", StoredTurnStatus::Accepted)]).await;
    assert_eq!(refused_for(&new, "s").await.as_deref(), Some("old"));
    let other = TenantId::parse("other").unwrap();
    old.announce_graphs(ServedGraphs { tenant: Some(other), ..OLD.served() });
    wait_for_announcements(&admin, 1, "%other%").await;
    assert_eq!(refused_for(&new, "s").await, None);
    old.announce_graphs(OLD.served());
    wait_for_announcements(&admin, 2, r#"%"tenant": null%"#).await;
    assert_eq!(refused_for(&new, "s").await.as_deref(), Some("old"));
    let hour = i64::try_from(AGE.as_millis()).unwrap();
    admin.execute("UPDATE singletree.turn SET accepted_at = accepted_at - $1", &[&hour]).await.unwrap();
    assert_eq!(refused_for(&new, "s").await, None);
}

// A process that died is waited for as long as its lease lasts, and no longer.
#[tokio::test]
async fn a_turn_is_not_left_to_a_process_that_is_dead() {
    let Some(server) = Server::start("a_turn_is_not_left_to_a_process_that_is_dead").await else { return };
    let admin = server.database("dead").await;
    let lease = Duration::from_secs(3);
    let options = PostgresOptions::new(server.url("dead"), Env::from_system()).connections(4).lease(lease);
    let new = options.open().await.unwrap();
    new.announce_graphs(NEW.served());
    let old = OLD.open(&server, "dead").await;
    wait_for_announcements(&admin, 2, "%").await;
    leave(&old, "s", vec![turn(0, "graph", StoredTurnStatus::Accepted)]).await;
    assert_eq!(refused_for(&new, "s").await.as_deref(), Some("old"));
    drop(old);
    let taken = async {
        while refused_for(&new, "s").await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(4 * lease, taken).await.expect("its row is there for a day");
}

// A process that was taken for dead says again which agents it has.
#[tokio::test]
async fn a_process_that_lost_its_lease_announces_its_agents_anew() {
    let test = "a_process_that_lost_its_lease_announces_its_agents_anew";
    let Some(server) = Server::start(test).await else { return };
    let admin = server.database("anew").await;
    let old = OLD.open(&server, "anew").await;
    wait_for_announcements(&admin, 1, "%").await;
    admin.batch_execute("DELETE FROM singletree.node").await.unwrap();
    fence(&old, "s").await;
    wait_for_announcements(&admin, 1, "%").await;
}
