//! Deletions are listed in a file outside of the database before they are committed (D25).

use std::path::Path;

use singletree_durable::{
    AuditRow, Batch, BatchPrecondition, Error, FencingToken, Journal, RowMutation, Timestamp,
};
use singletree_env::Env;
use singletree_erasures::{ErasedName, ErasureList};
use singletree_store_postgres::{PostgresOptions, PostgresStore};

use crate::ownership::{fence, head_batch, key};
use crate::server::Server;

async fn open_listing(url: &str, list: &Path) -> PostgresStore {
    PostgresOptions::new(url, Env::from_system()).connections(4).list_erasures(list).open().await.unwrap()
}

fn deletion(session: &str, fence: FencingToken) -> Batch {
    let (action, at) = ("session.deleted".to_owned(), Timestamp::from_millis(7));
    let mut batch = Batch::new(key(session), fence);
    batch.put(RowMutation::Delete);
    batch.put(RowMutation::Audit(AuditRow { at, action, key: key(session), by: None }));
    batch
}

fn listed_at(list: &Path, session: &str) -> Option<Timestamp> {
    ErasureList::read_from_file(list).unwrap().erased_at(&ErasedName::Session(key(session)))
}

// D25
#[tokio::test]
async fn a_deletion_is_listed_or_not_made_and_a_refused_one_is_not_listed() {
    let test = "a_deletion_is_listed_or_not_made_and_a_refused_one_is_not_listed";
    let Some(server) = Server::start(test).await else { return };
    drop(server.database("erasures").await);
    let folder = tempfile::tempdir().unwrap();
    for (list, pooler) in [("direct", ""), ("pooled", " pooler=transaction")] {
        let (url, list) = (format!("{}{pooler}", server.url("erasures")), folder.path().join(list));
        let store = open_listing(&url, &list).await;
        let held = fence(&store, "deleted").await;
        store.apply(head_batch("deleted", held, 1)).await.unwrap();
        let refused = store.apply(deletion("deleted", held).require(BatchPrecondition::SessionAbsent)).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert_eq!(listed_at(&list, "deleted"), None);

        std::fs::create_dir(&list).unwrap();
        let failed = store.apply(deletion("deleted", held)).await;
        assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
        let names = vec![ErasedName::Session(key("other"))];
        let failed = store.list_erased(names.clone(), Timestamp::from_millis(8)).await;
        assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
        assert!(store.read_session(&key("deleted")).await.unwrap().is_some());
        store.apply(head_batch("deleted", held, 2)).await.unwrap();
        std::fs::remove_dir(&list).unwrap();

        store.apply(deletion("deleted", held)).await.unwrap();
        assert!(store.read_session(&key("deleted")).await.unwrap().is_none());
        assert_eq!(listed_at(&list, "deleted"), Some(Timestamp::from_millis(7)));
        assert_eq!(listed_at(&list, "other"), None);
        store.list_erased(names, Timestamp::from_millis(8)).await.unwrap();
        assert_eq!(listed_at(&list, "other"), Some(Timestamp::from_millis(8)));
        store.close().await;
    }
}

#[tokio::test]
async fn a_session_that_another_owner_has_taken_is_not_listed() {
    let Some(server) = Server::start("a_session_that_another_owner_has_taken_is_not_listed").await else {
        return;
    };
    drop(server.database("erasures_fenced").await);
    let folder = tempfile::tempdir().unwrap();
    let (url, list) = (server.url("erasures_fenced"), folder.path().join("list"));
    let (one, two) = (open_listing(&url, &list).await, crate::server::open(&url).await);
    let held = fence(&one, "s").await;
    one.apply(head_batch("s", held, 1)).await.unwrap();
    one.release(vec![key("s")]).await.unwrap();
    let taken = fence(&two, "s").await;
    let stale = one.apply(deletion("s", held)).await;
    assert!(matches!(stale, Err(Error::LeaseLost { .. })), "{stale:?}");
    assert_eq!(listed_at(&list, "s"), None);
    two.apply(head_batch("s", taken, 2)).await.unwrap();
}
