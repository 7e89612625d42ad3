//! Paused records (suspension §7).

use singletree_durable::{PausedRecord, PausedStatus, PausedStore};

use crate::made::{invocation, json, store, tenant};

fn record(status: PausedStatus) -> PausedRecord {
    PausedRecord { status, body: json("{\"cursor\":[1]}") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_claims_exactly_one_gets_the_record() {
    // spec: suspension §7
    let (_scratch, store) = store().await;
    let (mine, id) = (tenant("default"), invocation("i"));
    store.save(&mine, &id, &record(PausedStatus::Suspended)).await.unwrap();
    let claims: Vec<_> = (0..32)
        .map(|_| {
            let (store, mine, id) = (store.clone(), mine.clone(), id.clone());
            tokio::spawn(async move { store.claim(&mine, &id).await.unwrap() })
        })
        .collect();
    let mut got = Vec::new();
    for claim in claims {
        got.extend(claim.await.unwrap());
    }
    assert_eq!(got, [record(PausedStatus::Suspended)]);
    assert_eq!(store.load(&mine, &id).await.unwrap(), Some(record(PausedStatus::Resuming)));
}

#[tokio::test]
async fn a_record_is_saved_closed_deleted_and_belongs_to_its_tenant() {
    // INV-14
    let (_scratch, store) = store().await;
    let (mine, theirs, id) = (tenant("a"), tenant("b"), invocation("i"));
    let closed = |status| PausedStore::close(&store, &mine, &id, status);
    closed(PausedStatus::Completed).await.unwrap();
    assert_eq!(store.load(&mine, &id).await.unwrap(), None);
    for status in
        [PausedStatus::Suspended, PausedStatus::Resuming, PausedStatus::Completed, PausedStatus::Errored]
    {
        store.save(&mine, &id, &record(status)).await.unwrap();
        assert_eq!(store.load(&mine, &id).await.unwrap(), Some(record(status)));
        assert_eq!(store.claim(&theirs, &id).await.unwrap(), None);
    }
    assert_eq!(store.claim(&mine, &id).await.unwrap(), None);
    closed(PausedStatus::Completed).await.unwrap();
    store.delete(&theirs, &id).await.unwrap();
    assert_eq!(store.load(&mine, &id).await.unwrap(), Some(record(PausedStatus::Completed)));
    store.delete(&mine, &id).await.unwrap();
    store.delete(&mine, &id).await.unwrap();
    assert_eq!(store.load(&mine, &id).await.unwrap(), None);
}
