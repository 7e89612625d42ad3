//! Row-level security: the database itself confines statements for a tenant to its rows.

use std::error::Error as _;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use singletree_durable::{
    Batch, CheckpointFilter, Checkpointer, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore,
    EarlySignalRow, Error, InvocationId, ItemRange, Journal, JournalMaintenance, JsonDocument,
    LoggedTurnQuery, PausedRecord, PausedStatus, PausedStore, Result, RowMutation, SessionId, SessionKey,
    StoredBlob, TenantId, Timestamp, TurnRowQuery, UsageRowQuery, WaitRowQuery,
};
use singletree_env::Env;
use singletree_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::Client;

use crate::ownership::head_batch;
use crate::server::{Server, open};

/// Makes a role, unless it is there: roles are of the server, not of the database.
async fn make_role(admin: &Client, role: &str, properties: &str) {
    admin.batch_execute(&format!("CREATE ROLE {role} NOLOGIN {properties}")).await.unwrap_or_default();
}

/// Opens a database with a role for tenants.
async fn open_as(url: &str, role: &str) -> Result<PostgresStore> {
    let options = PostgresOptions::new(format!("{url} tenant_role={role}"), Env::from_system());
    options.connections(4).lease(Duration::from_secs(60)).open().await
}

fn of_tenant(tenant: &str, session: &str) -> SessionKey {
    SessionKey::new(TenantId::parse(tenant).unwrap(), SessionId::parse(session).unwrap())
}

fn invocation() -> InvocationId {
    InvocationId::parse("0190b5a4-0000-7000-8000-000000000001").unwrap()
}

/// Writes a session of a tenant, with a document and a blob.
async fn write_session(store: &PostgresStore, key: &SessionKey) {
    let fence = store.acquire(key).await.unwrap().fence;
    let mut batch = head_batch(key.session.as_str(), fence, 1);
    batch.key = key.clone();
    batch.put(RowMutation::Mail(EarlySignalRow {
        signal: "signal".to_owned(),
        payload: JsonDocument::from_text("1".to_owned()),
        from: None,
        at: Timestamp::from_millis(1),
    }));
    store.apply(batch).await.unwrap();
    let blob = StoredBlob { digest: "d".to_owned(), media_type: "text/plain".to_owned(), bytes: vec![1] };
    store.keep_blob(key, blob).await.unwrap();
    store.change_documents(vec![change(&key.tenant)]).await.unwrap();
}

fn change(tenant: &TenantId) -> DocumentChange {
    DocumentChange::Write {
        key: DocumentKey::new(tenant.clone(), "kind", "id"),
        expect: DocumentPrecondition::Any,
        session: None,
        body: JsonDocument::from_text("{}".to_owned()),
        expires_at: None,
    }
}

// INV-14
#[tokio::test]
async fn the_role_of_tenants_sees_and_changes_the_rows_of_one_tenant_only() {
    let test = "the_role_of_tenants_sees_and_changes_the_rows_of_one_tenant_only";
    let Some(server) = Server::start(test).await else { return };
    let mut admin = server.database("rows_of_one").await;
    make_role(&admin, "rows_of_one", "").await;
    let store = open_as(&server.url("rows_of_one"), "rows_of_one").await.unwrap();
    for tenant in ["one", "two"] {
        write_session(&store, &of_tenant(tenant, "s")).await;
    }
    // A session last: its rows are deleted with it.
    let tables = ["mail", "document", "blob_use", "blob", "lease", "session"];
    for (named, expected) in [(Some("one"), 1_i64), (Some("three"), 0), (None, 0)] {
        let change = admin.transaction().await.unwrap();
        change.batch_execute("SET LOCAL ROLE rows_of_one").await.unwrap();
        if let Some(tenant) = named {
            let confine = "SELECT set_config('singletree.tenant', $1, true)";
            change.query(confine, &[&tenant]).await.unwrap();
        }
        for table in tables {
            let sql = format!("SELECT count(*) FROM singletree.{table}");
            let seen: i64 = change.query_one(&sql, &[]).await.unwrap().get(0);
            assert_eq!(seen, expected, "{table} for {named:?}");
            let deleted = change.execute(&format!("DELETE FROM singletree.{table}"), &[]).await.unwrap();
            assert_eq!(deleted, u64::try_from(expected).unwrap(), "{table} for {named:?}");
        }
    }
    // No row of another tenant is made, nor one of another tenant's session.
    let other = "SELECT id FROM singletree.session WHERE tenant = 'two'";
    let other: i64 = admin.query_one(other, &[]).await.unwrap().get(0);
    for sql in [
        "INSERT INTO singletree.document (tenant, kind, id, version, body) VALUES ('two', 'k', 'x', 1, '{}')"
            .to_owned(),
        format!("INSERT INTO singletree.mail (session, signal, payload, at) VALUES ({other}, 'x', '1', 1)"),
    ] {
        let change = admin.transaction().await.unwrap();
        change
            .batch_execute("SET LOCAL ROLE rows_of_one; SET LOCAL singletree.tenant = 'one'")
            .await
            .unwrap();
        let refused = change.batch_execute(&sql).await.unwrap_err();
        assert!(refused.as_db_error().unwrap().message().contains("row-level security"), "{refused:?}");
    }
    let every = "SELECT count(*) FROM pg_class c WHERE relnamespace = 'singletree'::regnamespace AND relkind = 'r' \
        AND NOT relrowsecurity AND relname NOT IN ('meta', 'node')";
    let open: i64 = admin.query_one(every, &[]).await.unwrap().get(0);
    assert_eq!(open, 0, "tables without policies");
    store.close().await;
}

/// One call of a store, by name.
type NamedCall<'a> = (&'static str, BoxFuture<'a, Result<()>>);

/// Every call of a store that concerns one tenant.
fn calls_of_a_tenant<'a>(
    store: &'a PostgresStore,
    key: &'a SessionKey,
    invocation: &'a InvocationId,
) -> Vec<NamedCall<'a>> {
    macro_rules! calls {
        ($($name:literal: $call:expr),* $(,)?) => {
            vec![$(($name, async move { $call.await.map(drop) }.boxed())),*]
        };
    }
    let tenant = &key.tenant;
    let query = LoggedTurnQuery { key: key.clone(), no: 0, from: 0, limit: 1 };
    let blob = StoredBlob { digest: "e".to_owned(), media_type: "text/plain".to_owned(), bytes: vec![1] };
    let record =
        PausedRecord { status: PausedStatus::Suspended, body: JsonDocument::from_text("{}".to_owned()) };
    calls! {
        "acquire": store.acquire(key),
        "read_session": store.read_session(key),
        "read_session_snapshot": store.read_session_snapshot(key),
        "read_counters": store.read_counters(key),
        "read_session_page": store.read_session_page(tenant, None, 1),
        "read_recent_sessions": store.read_recent_sessions(tenant, None, 1),
        "read_items of a list": store.read_items(key, &ItemRange::List {
            field: "list".to_owned(), generation: 0, from: 0, limit: 1 }),
        "read_items, page": store.read_items(key, &ItemRange::Page {
            field: "list".to_owned(), generation: 0, from: 0, limit: 1, bytes: 1 }),
        "read_items, page before": store.read_items(key, &ItemRange::PageBefore {
            field: "list".to_owned(), generation: 0, before: 1, limit: 1, bytes: 1 }),
        "read_items by number": store.read_items(key, &ItemRange::Numbers { from: 0, to: 1 }),
        "read_items of a turn": store.read_items(key, &ItemRange::Turn(0)),
        "read_turns, one": store.read_turns(key, &TurnRowQuery::No(0)),
        "read_turns by key": store.read_turns(key, &TurnRowQuery::Key("key".to_owned())),
        "read_turns of an invocation": store.read_turns(key, &TurnRowQuery::Invocation(invocation.clone())),
        "read_turns, open": store.read_turns(key, &TurnRowQuery::Open),
        "read_turns, page": store.read_turns(key, &TurnRowQuery::From { no: 0, limit: 1 }),
        "other_owner": store.other_owner(key),
        "find_session_of_invocation": store.find_session_of_invocation(tenant, invocation),
        "read_waits, pending": store.read_waits(&WaitRowQuery::Pending(key.clone())),
        "read_waits, pending of a tenant": store.read_waits(&WaitRowQuery::PendingOf(tenant.clone(), 1)),
        "read_waits of a signal": store.read_waits(&WaitRowQuery::Signal(key.clone(), "signal".to_owned())),
        "read_waits of a tenant's signal":
            store.read_waits(&WaitRowQuery::SignalOf(tenant.clone(), "signal".to_owned(), 1)),
        "read_waits of an invocation":
            store.read_waits(&WaitRowQuery::Invocation(tenant.clone(), invocation.clone())),
        "read_early_signals": store.read_early_signals(key),
        "read_position": store.read_position(key, invocation),
        "read_positions": store.read_positions(key),
        "read_turn_records": store.read_turn_records(key, 0),
        "read_events": store.read_events(key, 0, 1),
        "read_logged_turns": store.read_logged_turns(std::slice::from_ref(&query)),
        "read_model_usage of a session": store.read_model_usage(&UsageRowQuery::Session(key.clone())),
        "read_model_usage of a tenant": store.read_model_usage(&UsageRowQuery::Tenant(tenant.clone())),
        "read_document": store.read_document(&DocumentKey::new(tenant.clone(), "kind", "id")),
        "read_documents": store.read_documents(tenant, "kind", None, 1),
        "change_documents": store.change_documents(vec![change(tenant)]),
        "keep_blob": store.keep_blob(key, blob.clone()),
        "read_blob": store.read_blob(key, "d"),
        "read_blob_metadata": store.read_blob_metadata(key, "d"),
        "read_blob_totals": store.read_blob_totals(tenant, "holder"),
        "count_blob_bytes": store.count_blob_bytes(key),
        "save a paused record": PausedStore::save(store, tenant, invocation, &record),
        "load a paused record": PausedStore::load(store, tenant, invocation),
        "claim a paused record": store.claim(tenant, invocation),
        "close a paused record": PausedStore::close(store, tenant, invocation, PausedStatus::Completed),
        "delete a paused record": PausedStore::delete(store, tenant, invocation),
        "load a checkpoint": Checkpointer::load(store, tenant, invocation),
        "list checkpoints": store.list(tenant, &CheckpointFilter::default()),
        "delete a checkpoint": Checkpointer::delete(store, tenant, invocation),
    }
}

fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

// Without the rights of the role each of them fails: none runs as the user of the address.
#[tokio::test]
async fn every_statement_for_a_tenant_runs_under_the_role() {
    let Some(server) = Server::start("every_statement_for_a_tenant_runs_under_the_role").await else {
        return;
    };
    let admin = server.database("under_role").await;
    make_role(&admin, "under_role", "").await;
    let store = open_as(&server.url("under_role"), "under_role").await.unwrap();
    let (held, other) = (of_tenant("one", "s"), of_tenant("one", "t"));
    write_session(&store, &held).await;
    let fence = store.acquire(&held).await.unwrap().fence;
    let revoke = "REVOKE ALL ON ALL TABLES IN SCHEMA singletree FROM under_role";
    admin.batch_execute(revoke).await.unwrap();
    let invocation = invocation();
    let mut calls = calls_of_a_tenant(&store, &other, &invocation);
    let batch = Batch { key: held.clone(), ..head_batch("s", fence, 2) };
    calls.push(("apply", store.apply(batch)));
    for (name, call) in calls {
        let failed = call.await.expect_err(name);
        let text = text_of(&failed);
        assert!(text.contains("permission denied"), "{name}: {text}");
    }
    // Statements about all tenants do not need the role.
    store.read_tenants(None, 1).await.unwrap();
    store.read_ownerless_turns(None, 1).await.unwrap();
    store.read_waits_by_deadline(None, 1).await.unwrap();
    store.expire_documents(Timestamp::from_millis(0), 1).await.unwrap();
    store.probe_write().await.unwrap();
}

#[tokio::test]
async fn a_role_that_confines_nothing_is_refused() {
    let Some(server) = Server::start("a_role_that_confines_nothing_is_refused").await else { return };
    let admin = server.database("refused_roles").await;
    let url = server.url("refused_roles");
    open(&url).await.close().await;
    make_role(&admin, "above_policies", "BYPASSRLS").await;
    make_role(&admin, "not_a_member_of_it", "").await;
    make_role(&admin, "no_owner", "").await;
    admin.batch_execute("ALTER ROLE no_owner LOGIN").await.unwrap();
    let as_no_owner = url.replace("user=postgres", "user=no_owner");
    for (url, role, expected) in [
        (&url, "no_such_role", "there is no role no_such_role"),
        (&url, "above_policies", "bypasses row-level security"),
        (&url, "postgres", "bypasses row-level security"),
    ] {
        let refused = text_of(&open_as(url, role).await.unwrap_err());
        assert!(refused.contains(expected), "{role}: {refused}");
    }
    let reader =
        PostgresOptions::new(format!("{as_no_owner} tenant_role=not_a_member_of_it"), Env::from_system());
    admin
        .batch_execute(
            "GRANT USAGE ON SCHEMA singletree TO no_owner; GRANT SELECT ON singletree.meta TO no_owner",
        )
        .await
        .unwrap();
    let refused = text_of(&reader.clone().open_read_only().await.unwrap_err());
    assert!(refused.contains("no member of the role not_a_member_of_it"), "{refused}");
    admin.batch_execute("GRANT not_a_member_of_it TO no_owner").await.unwrap();
    let refused = text_of(&reader.open_read_only().await.unwrap_err());
    assert!(refused.contains("does not own the tables"), "{refused}");
}
