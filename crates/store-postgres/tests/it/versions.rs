//! Servers of two versions over one database.

use singletree_durable::{Error, ItemRange, Journal};
use singletree_env::Env;
use singletree_store_postgres::PostgresOptions;

use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open};

/// Undoes the changes of version 3. Its functions stay, but for the one that every batch calls.
const BACK_TO_2: &str = "
    ALTER TABLE singletree.session ADD CONSTRAINT session_check CHECK ((parent IS NULL) = (parent_offset IS NULL));
    ALTER TABLE singletree.field ADD CONSTRAINT field_check CHECK ((value IS NULL) = (generation IS NOT NULL)),
      ADD CONSTRAINT field_check1 CHECK ((generation IS NULL) = (len IS NULL)),
      ADD CONSTRAINT field_check2 CHECK ((generation IS NULL) = (bytes IS NULL));
    ALTER TABLE singletree.item ADD CONSTRAINT item_check CHECK ((list IS NULL) = (generation IS NULL)),
      ADD CONSTRAINT item_check1 CHECK ((list IS NULL) = (seq IS NULL));
    ALTER TABLE singletree.turn ADD CONSTRAINT turn_kind_check CHECK (kind <> ''),
      ADD CONSTRAINT turn_status_check CHECK (status <> '');
    UPDATE singletree.meta SET version = 2, works_with = 1;
    CREATE OR REPLACE FUNCTION singletree.apply_batch(of_tenant text, of_session text, by_owner bigint,
      under_fence bigint, new_commit text, requirements jsonb, puts jsonb) RETURNS void LANGUAGE sql AS ''";

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
    admin.batch_execute(BACK_TO_2).await.unwrap();
    // Who only reads makes no schema.
    let options = || PostgresOptions::new(server.url("former"), Env::from_system());
    assert!(matches!(options().open_read_only().await, Err(Error::Format { .. })));

    let after = open(&server.url("former")).await;
    let taken = after.acquire(&key("s")).await.unwrap();
    assert_eq!(taken.snapshot.session.unwrap().head.version, 1);
    // Its checks are gone: they cost every statement.
    let checks = "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND conrelid::regclass::text ~ \
        '^singletree.(session|field|item|turn)$'";
    assert_eq!(admin.query_one(checks, &[]).await.unwrap().get::<_, i64>(0), 0);
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
    admin.batch_execute(BACK_TO_2).await.unwrap();
    let old = "INSERT INTO singletree.node (incarnation, name, schema_version, alive_until) \
        VALUES (-1, 'old', 1, now() + interval '1 hour')";
    admin.batch_execute(old).await.unwrap();
    let error = open_error(&server, "oldest").await;
    assert_eq!(error.category(), "store_format_unsupported", "{error}");
    let version = "SELECT version FROM singletree.meta";
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 2);
    admin.batch_execute("UPDATE singletree.node SET alive_until = now() WHERE name = 'old'").await.unwrap();
    drop(open(&server.url("oldest")).await);
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 3);
}

/// A batch as a server of version 2 sends it: each row is a put of its own.
const BATCH_OF_2: &str = r#"
    SELECT singletree.apply_batch('default', 's', l.owner, l.fence, 'c', '[]', '[
      {"put": "item", "no": 0, "turn": 0, "list": null, "generation": null, "seq": null, "side": null, "body": "1"},
      {"put": "place", "item": 0, "list": "messages", "generation": 0, "seq": 0},
      {"put": "event", "seq": 0, "turn": 0, "kind": "turn.accepted", "item": 0, "at": 5, "body": null},
      {"put": "head", "agent": "a", "graph": "g", "schema_version": "1", "version": 7, "prompt_policy": "conversation",
        "parent": null, "parent_offset": null, "subject": null, "created_at": 1, "updated_at": 2},
      {"put": "counters", "turns": 1, "items": 1, "waits": 0, "events": 1}]')
    FROM singletree.lease l WHERE l.session = 's'"#;

#[tokio::test]
async fn a_server_of_the_version_before_writes_beside_this_one() {
    let Some(server) = Server::start("a_server_of_the_version_before_writes_beside_this_one").await else {
        return;
    };
    let admin = server.database("beside").await;
    let store = open(&server.url("beside")).await;
    fence(&store, "s").await;
    admin.batch_execute(BATCH_OF_2).await.unwrap();
    let read = store.read_session(&key("s")).await.unwrap().unwrap();
    assert_eq!((read.head.version, read.counters.items, read.counters.events), (7, 1, 1));
    let range = ItemRange::List { field: "messages".to_owned(), generation: 0, from: 0, limit: 9 };
    let items = store.read_items(&key("s"), &range).await.unwrap();
    assert_eq!(items[0].body.as_str(), "1");
}
