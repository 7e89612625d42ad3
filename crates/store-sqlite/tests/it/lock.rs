//! One writer at a time, any number of readers, and an orderly end.

use singletree_durable::{Error, FencingToken, Journal, PausedStore, RowMutation};
use singletree_store_sqlite::{CommitDurability, SqliteStore};
use singletree_store_testing::acquire_blocking;

use crate::made::{batch, batch_under, head, invocation, key, scratch, store, tenant};

#[tokio::test]
async fn a_second_writer_is_refused_with_pid_and_command_until_the_first_closes() {
    let scratch = scratch();
    let store = SqliteStore::options(&scratch.path).command("singletree chat\n--db x").open().await.unwrap();
    let found = match SqliteStore::open(&scratch.path).await {
        Err(Error::Locked { pid, command }) => (pid, command),
        other => panic!("{other:?}"),
    };
    assert_eq!(found, (std::process::id(), "singletree chat --db x".to_owned()));
    // Another way to the same file is the same file.
    let detour = scratch.dir.path().join("..").join(scratch.dir.path().file_name().unwrap()).join("store.db");
    assert_eq!(SqliteStore::open(detour).await.unwrap_err().category(), "store_locked");
    store.apply(batch(&store, "s", [RowMutation::Head(head(1))])).await.unwrap();

    let clone = store.clone();
    let before = acquire_blocking(&store, &key("s")).unwrap();
    store.close().await;
    assert!(matches!(clone.apply(batch_under(before, &key("s"), [])).await, Err(Error::Closed)));
    assert!(matches!(clone.acquire(&key("s")).await, Err(Error::Closed)));
    assert!(matches!(clone.read_session(&key("s")).await, Err(Error::Closed)));
    let again =
        SqliteStore::options(&scratch.path).durability(CommitDurability::Normal).open().await.unwrap();
    assert_eq!(acquire_blocking(&again, &key("s")).unwrap(), FencingToken(before.0 + 1));
    let stale = again.apply(batch_under(before, &key("s"), [RowMutation::Head(head(2))])).await;
    assert!(matches!(stale, Err(Error::LeaseLost { .. })), "{stale:?}");
}

#[tokio::test]
async fn dropping_the_last_handle_writes_what_was_handed_over_and_leaves_one_file() {
    let (scratch, store) = store().await;
    drop(store.apply(batch(&store, "s", [RowMutation::Head(head(7))])));
    drop(store);
    let mut names: Vec<_> =
        std::fs::read_dir(scratch.dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["store.db", "store.db.lock"]);
    let copy = scratch.dir.path().join("copy.db");
    std::fs::copy(&scratch.path, &copy).unwrap();
    let store = SqliteStore::open(&copy).await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head, head(7));
}

#[tokio::test]
async fn a_reader_works_beside_a_writer_and_alone_and_writes_nothing() {
    let (scratch, store) = store().await;
    store.apply(batch(&store, "s", [RowMutation::Head(head(1))])).await.unwrap();
    let reader = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    let fence = store.read_newest_fence().await.unwrap();
    assert_eq!((reader.read_newest_fence().await.unwrap(), reader.log_epoch()), (fence, store.log_epoch()));
    store.apply(batch(&store, "s", [RowMutation::Head(head(2))])).await.unwrap();
    assert_eq!(reader.read_session(&key("s")).await.unwrap().unwrap().head, head(2));
    assert!(matches!(reader.acquire(&key("s")).await, Err(Error::Closed)));
    let written = reader.apply(batch_under(fence, &key("s"), [RowMutation::Delete])).await;
    assert!(matches!(written, Err(Error::Closed)), "{written:?}");
    let claim = reader.claim(&tenant("default"), &invocation("i")).await;
    assert!(matches!(claim, Err(Error::Closed)), "{claim:?}");
    reader.close().await;
    assert!(matches!(reader.read_session(&key("s")).await, Err(Error::Closed)));
    store.close().await;

    let alone = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    assert_eq!(alone.read_session(&key("s")).await.unwrap().unwrap().head, head(2));
    assert_eq!(alone.read_newest_fence().await.unwrap(), fence);
}

#[test]
fn a_dropped_open_leaves_the_file_free() {
    let scratch = scratch();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..20 {
        let open = SqliteStore::open(&scratch.path);
        // Polled once, so that the writer's thread is on its way.
        runtime.block_on(async {
            tokio::select! { biased; _ = open => {}, () = async {} => {} }
        });
    }
    // The threads may still be on their way out: they end without being asked.
    let opened = (0..100_000).find_map(|_| match runtime.block_on(SqliteStore::open(&scratch.path)) {
        Ok(store) => Some(store),
        Err(Error::Locked { .. }) => None,
        Err(other) => panic!("{other:?}"),
    });
    assert!(opened.is_some());
}
