//! What tests rely on when their store is a database.
#![expect(clippy::disallowed_methods, reason = "a test measures the time of its runtime")]

use std::time::Duration;

use singletree_durable::{
    Batch, Journal, RowMutation, SessionHead, SessionId, SessionKey, TenantId, Timestamp,
};
use tokio::time::Instant;

use crate::TestStore;
use crate::server::PostgresServer;

/// Returns a store in PostgreSQL; none where there is no PostgreSQL: then the test says so.
fn store(test: &str) -> Option<TestStore> {
    PostgresServer::is_installed(test).then(TestStore::in_postgres)
}

fn session() -> SessionKey {
    SessionKey::new(TenantId::single(), SessionId::parse("s").unwrap())
}

async fn write(store: &TestStore) -> singletree_durable::Result<()> {
    let mut batch = Batch::new(session(), store.acquire(&session()).await?.fence);
    batch.put(RowMutation::Head(SessionHead {
        agent: "agent".to_owned(),
        graph: "graph".to_owned(),
        schema_version: "1".to_owned(),
        version: 1,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(1),
    }));
    store.apply(batch).await
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_stands_while_a_statement_is_on_its_way() {
    let Some(store) = store("a_paused_clock_stands_while_a_statement_is_on_its_way") else { return };
    let begin = Instant::now();
    let timer = tokio::time::sleep(Duration::from_secs(1));
    tokio::pin!(timer);
    let key = session();
    for _ in 0..20 {
        tokio::select! {
            acquired = store.acquire(&key) => drop(acquired.unwrap()),
            () = &mut timer => panic!("the clock went forward"),
        }
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    timer.await;
    assert_eq!(begin.elapsed(), Duration::from_secs(1), "it goes forward when nothing is on its way");
}

#[tokio::test]
async fn a_store_that_was_opened_again_takes_nothing_from_older_handles() {
    let Some(store) = store("a_store_that_was_opened_again_takes_nothing_from_older_handles") else { return };
    write(&store).await.unwrap();
    let later = store.reopen();
    write(&later).await.unwrap();
    assert_eq!(write(&store).await.unwrap_err().category(), "store_fenced");
    assert!(later.is_held(&session()).await);
}

#[tokio::test]
async fn a_store_is_empty_also_where_another_test_used_its_database() {
    let Some(first) = store("a_store_is_empty_also_where_another_test_used_its_database") else { return };
    for _ in 0..8 {
        let store = TestStore::in_postgres();
        assert_eq!(store.read_session(&session()).await.unwrap(), None);
        assert!(!store.is_held(&session()).await);
        write(&store).await.unwrap();
    }
    drop(first);
}
