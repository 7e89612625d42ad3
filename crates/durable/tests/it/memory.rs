//! The memory store's behavior beyond the contract.

use singletree_durable::{
    DocumentStore, Error, FencingToken, ItemPlacement, Journal, ListItemRow, MemoryStore, PausedRecord,
    PausedStatus, PausedStore, RowMutation, StoredBlob, StoredTurnStatus, TurnRow,
};

use crate::rows::{acquire, batch, batch_under, head, invocation, item, key, turn};

fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Refused { .. }))
}

fn is_fenced<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Fenced { held: FencingToken(1), found: FencingToken(2) }))
}

#[tokio::test]
async fn handles_from_before_a_reopening_write_nothing_and_still_read() {
    let old = MemoryStore::new();
    let clone = old.clone();
    let before = acquire(&old, &key());
    old.apply(batch_under(before, [RowMutation::Head(head(1))])).await.unwrap();
    let new = old.reopen();
    let after = acquire(&new, &key());
    assert_eq!((before, after), (FencingToken(1), FencingToken(2)));
    for stale in [&old, &clone] {
        // Not with the new fence either: the handle itself is stale.
        for fence in [before, after] {
            assert!(is_fenced(&stale.apply(batch_under(fence, [RowMutation::Head(head(2))])).await));
        }
        assert!(is_fenced(&stale.acquire(&key()).await));
        let record = PausedRecord {
            status: PausedStatus::Suspended,
            body: singletree_durable::JsonDocument::from_text("1"),
        };
        let saved = PausedStore::save(stale, &key().tenant, &invocation("inv"), &record).await;
        assert!(is_fenced(&saved));
        assert!(is_fenced(&stale.change_documents(Vec::new()).await));
        assert!(is_fenced(&stale.expire_documents(crate::rows::at(9), 1).await));
        let blob = StoredBlob { digest: "d".to_owned(), media_type: "t".to_owned(), bytes: vec![1] };
        assert!(is_fenced(&stale.keep_blob(&key(), blob).await));
    }
    new.clone().apply(batch(&new, [RowMutation::Head(head(3))])).await.unwrap();
    assert_eq!(old.read_session(&key()).await.unwrap().unwrap().head.version, 3);
}

// INV-1
#[tokio::test]
async fn a_session_belongs_to_the_owner_that_acquired_it_last() {
    let one = MemoryStore::new();
    let first = acquire(&one, &key());
    let two = one.open_beside();
    let second = acquire(&two, &key());
    assert_eq!((first, second), (FencingToken(1), FencingToken(2)));
    let stale = one.apply(batch_under(first, [RowMutation::Head(head(1))])).await.unwrap_err();
    assert_eq!(stale.category(), "store_lease_lost");
    two.apply(batch_under(second, [RowMutation::Head(head(2))])).await.unwrap();
    let third = acquire(&one, &key());
    assert_eq!(third, FencingToken(3));
    assert!(matches!(
        two.apply(batch_under(second, [RowMutation::Head(head(3))])).await,
        Err(Error::LeaseLost { fence: FencingToken(2), .. })
    ));
    one.apply(batch_under(third, [RowMutation::Head(head(4))])).await.unwrap();
    assert_eq!(one.read_newest_fence().await.unwrap(), third);
}

#[tokio::test]
async fn batches_that_nobody_can_mean_are_refused() {
    let store = MemoryStore::new();
    let keyed = |no| {
        let (key, digest) = (Some("k".to_owned()), Some("d".to_owned()));
        RowMutation::Turn(TurnRow { key, digest, ..turn(no, StoredTurnStatus::Completed) })
    };
    let placed = |no| {
        let place = ItemPlacement { field: "f".to_owned(), generation: 0, seq: 0 };
        RowMutation::Item(ListItemRow { placement: Some(place), ..item(no) })
    };
    assert!(is_refused(&store.apply(batch(&store, [placed(0)])).await), "rows without a session");
    let orphans = [RowMutation::Head(head(1)), RowMutation::Delete, placed(0)];
    assert!(is_refused(&store.apply(batch(&store, orphans)).await), "rows after a delete");
    // The head may come last.
    store.apply(batch(&store, [placed(0), keyed(0), RowMutation::Head(head(1))])).await.unwrap();
    assert!(is_refused(&store.apply(batch(&store, [placed(1)])).await), "a place that is taken");
    assert!(is_refused(&store.apply(batch(&store, [keyed(1)])).await), "a key that is taken");
    store.apply(batch(&store, [RowMutation::FreeKey { turn: 0 }, keyed(1)])).await.unwrap();
    store.apply(batch(&store, [keyed(1)])).await.unwrap();
}

#[tokio::test]
async fn an_epoch_is_given_not_drawn() {
    assert_eq!(MemoryStore::new().log_epoch(), "m0");
    assert_eq!(MemoryStore::with_epoch("e7").reopen().log_epoch(), "e7");
}

#[tokio::test]
async fn a_copy_has_the_same_rows_until_one_of_them_is_written() {
    let store = MemoryStore::new();
    store.apply(batch(&store, [RowMutation::Head(head(1))])).await.unwrap();
    let copy = store.copy_data();
    assert!(store.has_same_data(&copy) && store.has_same_data(&store.clone()));
    let item = |at| RowMutation::Item(item(at));
    store.apply(batch(&store, [item(0), item(1)])).await.unwrap();
    assert!(!store.has_same_data(&copy));
    assert_eq!(copy.read_session(&key()).await.unwrap().unwrap().head.version, 1);
    // However the rows came: one after the other, or together.
    copy.apply(batch(&copy, [item(0)])).await.unwrap();
    copy.apply(batch(&copy, [item(1)])).await.unwrap();
    assert!(store.has_same_data(&copy));
}
