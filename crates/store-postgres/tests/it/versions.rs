//! Servers of two versions over one database.

use std::time::Duration;

use singletree_durable::{Error, ItemRange, Journal, ServedGraph, ServedGraphs};
use singletree_env::Env;
use singletree_store_postgres::PostgresOptions;

use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open};

/// Undoes the changes of version 5. The functions of the versions before stay.
const BACK_TO_4: &str = "
    DROP TABLE singletree.follower, singletree.change;
    DROP SEQUENCE singletree.change_no;
    DROP FUNCTION singletree.follow_tenants(text, text[]);
    UPDATE singletree.meta SET version = 4, works_with = 3";

async fn open_error(server: &Server, database: &str) -> Error {
    PostgresOptions::new(server.url(database), Env::from_system()).open().await.unwrap_err()
}

#[tokio::test]
async fn a_database_of_the_version_before_is_migrated_with_its_sessions() {
    let test = "a_database_of_the_version_before_is_migrated_with_its_sessions";
    let Some(server) = Server::start(test).await else { return };
    let admin = server.database("former").await;
    let before = open(&server.url("former")).await;
    let held = fence(&before, "s").await;
    before.apply(head_batch("s", held, 1)).await.unwrap();
    before.release(vec![key("s")]).await.unwrap();
    admin.batch_execute(BACK_TO_4).await.unwrap();
    // Who only reads makes no schema.
    let options = || PostgresOptions::new(server.url("former"), Env::from_system());
    assert!(matches!(options().open_read_only().await, Err(Error::Format { .. })));

    let after = open(&server.url("former")).await;
    let taken = after.acquire(&key("s")).await.unwrap();
    assert_eq!(taken.snapshot.session.unwrap().head.version, 1);
    let newer = "SELECT to_regclass('singletree.change') IS NOT NULL";
    assert!(admin.query_one(newer, &[]).await.unwrap().get::<_, bool>(0));
    // The server that was there before goes on beside it.
    let other = fence(&before, "t").await;
    before.apply(head_batch("t", other, 1)).await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_used_if_it_works_with_this_version() {
    let Some(server) = Server::start("a_newer_schema_is_used_if_it_works_with_this_version").await else {
        return;
    };
    let admin = server.database("newer").await;
    drop(open(&server.url("newer")).await);
    let newer = "UPDATE singletree.meta SET version = version + 1, works_with = version";
    admin.batch_execute(newer).await.unwrap();
    let store = open(&server.url("newer")).await;
    let held = fence(&store, "s").await;
    store.apply(head_batch("s", held, 1)).await.unwrap();
    let reader = PostgresOptions::new(server.url("newer"), Env::from_system());
    assert!(reader.open_read_only().await.unwrap().read_session(&key("s")).await.unwrap().is_some());

    for unfit in ["works_with = version", "version = version + 1, works_with = 1"] {
        admin.batch_execute(&format!("UPDATE singletree.meta SET {unfit}")).await.unwrap();
        let error = open_error(&server, "newer").await;
        assert_eq!(error.category(), "store_format_unsupported", "{error}");
    }
    let reader = PostgresOptions::new(server.url("newer"), Env::from_system());
    assert!(matches!(reader.open_read_only().await, Err(Error::Format { .. })));
}

#[tokio::test]
async fn nothing_is_migrated_while_a_server_of_two_versions_before_runs() {
    let Some(server) = Server::start("nothing_is_migrated_while_a_server_of_two_versions_before_runs").await
    else {
        return;
    };
    let admin = server.database("oldest").await;
    drop(open(&server.url("oldest")).await);
    admin.batch_execute(BACK_TO_4).await.unwrap();
    let old = "INSERT INTO singletree.node (incarnation, name, schema_version, alive_until) \
        VALUES (-1, 'old', 3, now() + interval '1 hour')";
    admin.batch_execute(old).await.unwrap();
    let error = open_error(&server, "oldest").await;
    assert_eq!(error.category(), "store_format_unsupported", "{error}");
    let version = "SELECT version FROM singletree.meta";
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 4);
    admin.batch_execute("UPDATE singletree.node SET alive_until = now() WHERE name = 'old'").await.unwrap();
    drop(open(&server.url("oldest")).await);
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 5);
}

/// A server of version 3: its row, how it acquires a session, and a batch as it sends it.
const SERVER_OF_3: &str = r#"
    INSERT INTO singletree.node (incarnation, name, schema_version, alive_until)
      VALUES (-1, 'former', 3, now() + interval '1 hour');
    SELECT fence FROM singletree.acquire('default', 's', -1, '{}', '{}');
    SELECT singletree.apply_batch('default', 's', l.owner, l.fence, 'c', '[]', '[
      {"put": "items", "rows": [{"no": 0, "turn": 0, "list": "messages", "generation": 0, "seq": 0, "side": null, "body": "1"}]},
      {"put": "events", "rows": [{"seq": 0, "turn": 0, "kind": "turn.accepted", "item": 0, "at": 5, "body": null}]},
      {"put": "head", "agent": "a", "graph": "g", "schema_version": "1", "version": 7, "prompt_policy": "conversation",
        "parent": null, "parent_offset": null, "subject": null, "created_at": 1, "updated_at": 2,
        "turns": 1, "items": 1, "waits": 0, "events": 1}]')
    FROM singletree.lease l WHERE l.session = 's'"#;

#[tokio::test]
async fn a_server_of_the_version_before_writes_beside_this_one() {
    let Some(server) = Server::start("a_server_of_the_version_before_writes_beside_this_one").await else {
        return;
    };
    let admin = server.database("beside").await;
    let store = open(&server.url("beside")).await;
    let graph = ServedGraph { agent: "a".to_owned(), graph: "g".to_owned(), schema_version: "2".to_owned() };
    store.announce_graphs(ServedGraphs { graphs: vec![graph], tenant: None, turn_age: Duration::MAX });
    admin.batch_execute(SERVER_OF_3).await.unwrap();
    let read = store.read_session(&key("s")).await.unwrap().unwrap();
    assert_eq!((read.head.version, read.counters.items, read.counters.events), (7, 1, 1));
    let range = ItemRange::List { field: "messages".to_owned(), generation: 0, from: 0, limit: 9 };
    let items = store.read_items(&key("s"), &range).await.unwrap();
    assert_eq!(items[0].body.as_str(), "1");
    // It tells nobody which agents it has: sessions are left to it while it holds them, and no longer.
    assert!(matches!(store.acquire(&key("s")).await, Err(Error::HeldElsewhere { .. })));
    admin.batch_execute("UPDATE singletree.lease SET owner = NULL").await.unwrap();
    store.acquire(&key("s")).await.unwrap();
}
