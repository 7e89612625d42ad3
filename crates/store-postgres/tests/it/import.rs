//! Rows that only applications with stores of their own have are imported, too.

use singletree_durable::{
    CheckpointRecord, Checkpointer, InvocationId, Journal, NodePosition, TenantId, Timestamp,
};
use singletree_env::Env;
use singletree_store_postgres::PostgresOptions;
use singletree_store_sqlite::SqliteStore;

use crate::ownership::key;
use crate::server::{Server, open};

fn checkpoint(invocation: &InvocationId) -> CheckpointRecord {
    let position = |step| NodePosition {
        namespace: vec!["outer".to_owned()],
        node_name: "node".to_owned(),
        step,
        attempt_index: 1,
        fan_out_index: None,
    };
    CheckpointRecord {
        invocation_id: invocation.clone(),
        correlation_id: "work".to_owned(),
        session_id: None,
        schema_version: "v1".to_owned(),
        state: Default::default(),
        parent_states: Vec::new(),
        completed_positions: [1, 2, 7].map(position).into_iter().collect(),
        fan_out_progress: Vec::new(),
        last_saved_at: Timestamp::from_millis(1000),
        cursor: None,
    }
}

#[tokio::test]
async fn checkpoints_and_the_fence_are_imported() {
    let Some(server) = Server::start("checkpoints_and_the_fence_are_imported").await else { return };
    drop(server.database("imported").await);
    let folder = tempfile::tempdir().unwrap();
    // Each opening raises the fence of a file.
    for _ in 0..9 {
        SqliteStore::options(folder.path().join("a.db")).open().await.unwrap().close().await;
    }
    let file = SqliteStore::options(folder.path().join("a.db")).open().await.unwrap();
    let (tenant, invocation) = (TenantId::single(), InvocationId::parse("i-1").unwrap());
    let saved = checkpoint(&invocation);
    Checkpointer::save(&file, &tenant, &saved).await.unwrap();
    let mut archive = file.read_archive().await.unwrap();
    let fence = archive.metadata().fence;
    assert!(fence.0 > 9, "{fence:?}");
    let options = PostgresOptions::new(server.url("imported"), Env::from_system());
    let counts = options.import(archive.as_mut()).await.unwrap();
    assert_eq!(counts.values().sum::<u64>(), 1, "{counts:?}");
    drop(archive);
    file.close().await;
    let store = open(&server.url("imported")).await;
    assert_eq!(Checkpointer::load(&store, &tenant, &invocation).await.unwrap(), Some(saved));
    // A fence of the new store is higher than those of the old one.
    let session = store.acquire(&key("s")).await.unwrap();
    assert!(session.fence > fence, "{session:?}");
    store.close().await;
}
