//! Servers of two versions over one database.

use singletree_durable::{Error, Journal};
use singletree_env::Env;
use singletree_store_postgres::PostgresOptions;

use crate::ownership::{fence, head_batch, key};
use crate::server::{Server, open};

/// Undoes the changes of version 2.
const BACK_TO_1: &str = "
    ALTER TABLE singletree.meta DROP COLUMN works_with;
    UPDATE singletree.meta SET version = 1;
    CREATE OR REPLACE FUNCTION singletree.acquire(of_tenant text, of_session text, by_owner bigint, dead bigint[],
      beats bigint[]) RETURNS TABLE (fence bigint) LANGUAGE sql AS 'SELECT 0::bigint WHERE false'";

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
    admin.batch_execute(BACK_TO_1).await.unwrap();
    // Who only reads makes no schema.
    let options = || PostgresOptions::new(server.url("former"), Env::from_system());
    assert!(matches!(options().open_read_only().await, Err(Error::Format { .. })));

    let after = open(&server.url("former")).await;
    let taken = after.acquire(&key("s")).await.unwrap();
    assert_eq!(taken.snapshot.session.unwrap().head.version, 1);
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
    admin.batch_execute(BACK_TO_1).await.unwrap();
    let old = "INSERT INTO singletree.node (incarnation, name, schema_version, alive_until) \
        VALUES (-1, 'old', 0, now() + interval '1 hour')";
    admin.batch_execute(old).await.unwrap();
    let error = open_error(&server, "oldest").await;
    assert_eq!(error.category(), "store_format_unsupported", "{error}");
    let version = "SELECT version FROM singletree.meta";
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 1);
    admin.batch_execute("UPDATE singletree.node SET alive_until = now() WHERE name = 'old'").await.unwrap();
    drop(open(&server.url("oldest")).await);
    assert_eq!(admin.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 2);
}
