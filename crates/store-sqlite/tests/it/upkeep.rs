//! The calls across tenants.

use singletree_durable::{
    FencingToken, Journal, JournalMaintenance, RowMutation, StoredTurnStatus, StoredWaitStatus, TurnRow,
    WaitRow,
};
use singletree_store_sqlite::SqliteStore;

use crate::made::{at, batch_for, head, key_of, store, turn, wait};

#[tokio::test]
async fn ownerless_turns_are_those_without_outcome_of_an_earlier_fence_in_order() {
    // ruling D4
    let (scratch, store) = store().await;
    let fence = store.read_newest_fence().await.unwrap();
    let open = |no| TurnRow { fence, ..turn(no, StoredTurnStatus::Accepted) };
    for (tenant, session) in [("b", "a"), ("a", "z"), ("a", "b")] {
        let done = TurnRow { fence, ..turn(1, StoredTurnStatus::Completed) };
        let puts = [
            RowMutation::Head(head(1)),
            RowMutation::Turn(open(2)),
            RowMutation::Turn(done),
            RowMutation::Turn(open(0)),
        ];
        store.apply(batch_for(&store, &key_of(tenant, session), puts)).await.unwrap();
    }
    assert_eq!(store.read_ownerless_turns(None, 99).await.unwrap(), []);
    store.close().await;
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let claimed = TurnRow { fence: store.read_newest_fence().await.unwrap(), ..open(0) };
    store.apply(batch_for(&store, &key_of("a", "z"), [RowMutation::Turn(claimed)])).await.unwrap();

    let expected = [("a", "b", 0), ("a", "b", 2), ("a", "z", 2), ("b", "a", 0), ("b", "a", 2)]
        .map(|(tenant, session, no)| (key_of(tenant, session), open(no)));
    assert_eq!(store.read_ownerless_turns(None, 99).await.unwrap(), expected);
    assert_eq!(store.read_ownerless_turns(None, 2).await.unwrap(), expected[..2]);
    let past = (key_of("a", "b"), 2);
    assert_eq!(store.read_ownerless_turns(Some(&past), 2).await.unwrap(), expected[2..4]);
    assert_eq!(store.read_newest_fence().await.unwrap(), FencingToken(fence.0 + 1));
}

#[tokio::test]
async fn deadlines_come_earliest_first_across_tenants() {
    let (_scratch, store) = store().await;
    let due = |no, millis, status| WaitRow { deadline: Some(at(millis)), ..wait(no, "a", status) };
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Wait(due(0, 30, StoredWaitStatus::Pending)),
        RowMutation::Wait(due(1, 10, StoredWaitStatus::Pending)),
        RowMutation::Wait(due(2, 5, StoredWaitStatus::Expired)),
        RowMutation::Wait(wait(3, "a", StoredWaitStatus::Pending)),
    ];
    store.apply(batch_for(&store, &key_of("b", "s"), puts)).await.unwrap();
    let puts = [RowMutation::Head(head(1)), RowMutation::Wait(due(0, 20, StoredWaitStatus::Pending))];
    store.apply(batch_for(&store, &key_of("a", "s"), puts)).await.unwrap();
    let (b, a) = (key_of("b", "s"), key_of("a", "s"));
    let expected = [
        (b.clone(), due(1, 10, StoredWaitStatus::Pending)),
        (a, due(0, 20, StoredWaitStatus::Pending)),
        (b, due(0, 30, StoredWaitStatus::Pending)),
    ];
    assert_eq!(store.read_waits_by_deadline(None, 99).await.unwrap(), expected);
    assert_eq!(store.read_waits_by_deadline(Some(at(20)), 99).await.unwrap(), expected[..2]);
    assert_eq!(store.read_waits_by_deadline(Some(at(19)), 99).await.unwrap(), expected[..1]);
    assert_eq!(store.read_waits_by_deadline(None, 1).await.unwrap(), expected[..1]);
}
