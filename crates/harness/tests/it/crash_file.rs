//! The crash sweep on a file: the next process finds exactly the committed data (INV-2, INV-3, INV-8).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Graph, Signal};
use singletree_harness::{Chat, Durability, Limits};
use singletree_store_sqlite::SqliteStore;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use crate::bench::{Log, Talk, agent, approve, asking, at, check_rows, history, key, line, user};
use crate::doctor::sound;

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::options(path)
        .durability(singletree_store_sqlite::CommitDurability::Normal)
        .open()
        .await
        .unwrap()
}

async fn drive(chat: &Chat) -> Vec<String> {
    let mut told = Vec::new();
    for n in ["m1", "m2"] {
        match chat.session("s").submit(user(n), key(n)).await {
            Ok(turn) => told.push(line(turn.outcome().await.as_ref())),
            Err(errored) => told.push(errored.into_errored_turn().error_category),
        }
        match chat.answer(at("s", "ok"), approve(true)).await {
            Ok(turn) => told.push(line(turn.outcome().await.as_ref())),
            Err(errored) => told.push(errored.into_errored_turn().error_category),
        }
    }
    told
}

async fn twice(
    graph: &Graph<Talk>,
    durability: Durability,
    n: u64,
    land: FailedWriteEffect,
) -> (Vec<String>, Vec<String>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = open(&path).await;
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
    let limits = Limits { record_retry: Duration::from_millis(1), ..Limits::default() };
    let builder = || Chat::builder().agent(agent(graph, durability)).limits(limits.clone());
    let dying = builder().open_shared(failing.clone(), failing.clone()).unwrap();
    let watched = async {
        while !failing.fired() {
            tokio::task::yield_now().await;
        }
        dying.shutdown(Duration::from_secs(5)).await
    };
    // Whoever waits for a turn that cannot end any more is told so once the chat shuts down.
    tokio::select! {
        _ = drive(&dying) => {}
        _ = watched => {}
    }
    dying.shutdown(Duration::from_secs(5)).await;
    store.close().await;
    let store = open(&path).await;
    let chat = builder().open(store.clone()).unwrap();
    for turn in chat.sweep().await.unwrap() {
        turn.outcome().await;
    }
    let told = drive(&chat).await;
    check_rows(&store, "s").await;
    sound(&store).await;
    let seen = (told, history(&chat, "s").await, failing.fired());
    chat.shutdown(Duration::from_secs(5)).await;
    store.close().await;
    seen
}

// INV-2, INV-3, INV-7, INV-8
#[tokio::test]
async fn nothing_is_lost_or_doubled_wherever_a_process_over_a_file_dies() {
    let graph = asking(&Log::default(), Signal::new("ok"));
    for durability in [Durability::Turn, Durability::Step] {
        let (told, whole, _) = twice(&graph, durability, u64::MAX, FailedWriteEffect::Before).await;
        assert_eq!(whole, ["u:m1", "a:ask", "a:done", "u:m2", "a:ask", "a:done"]);
        let mut n = 1;
        loop {
            let mut fired = false;
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let seen = twice(&graph, durability, n, land).await;
                fired |= seen.2;
                assert_eq!((&seen.0, &seen.1), (&told, &whole), "{durability:?}, write {n}, {land:?}");
            }
            if !fired {
                break;
            }
            n += 1;
        }
        assert!(n > 8, "{n} writes");
    }
}
