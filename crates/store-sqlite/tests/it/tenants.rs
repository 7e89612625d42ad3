//! No call with one tenant's key sees or changes a row of another (INV-14).

use singletree_durable::{
    ItemRange, Journal, RowMutation, StoredTurnStatus, StoredWaitStatus, TurnRowQuery, WaitRowQuery,
};

use crate::made::{batch_for, event, head, invocation, item, key_of, store, tenant, turn, wait};

#[tokio::test]
async fn two_tenants_with_the_same_names_never_meet() {
    let (_scratch, store) = store().await;
    let (mine, theirs) = (key_of("a", "s"), key_of("b", "s"));
    let puts = || {
        [
            RowMutation::Head(head(1)),
            RowMutation::Item(item(0, "1")),
            RowMutation::Turn(turn(0, StoredTurnStatus::Accepted)),
            RowMutation::Wait(wait(0, "approval", StoredWaitStatus::Pending)),
            RowMutation::Event(event(0, "a")),
        ]
    };
    store.apply(batch_for(&store, &mine, puts())).await.unwrap();
    let id = turn(0, StoredTurnStatus::Accepted).invocation;
    let (all, first) = (ItemRange::Numbers { from: 0, to: 9 }, TurnRowQuery::No(0));
    assert_eq!(store.read_session(&theirs).await.unwrap(), None);
    assert_eq!(store.read_items(&theirs, &all).await.unwrap(), []);
    assert_eq!(store.read_turns(&theirs, &first).await.unwrap(), []);
    assert_eq!(store.read_events(&theirs, 0, 9).await.unwrap(), []);
    assert_eq!(store.find_session_of_invocation(&tenant("b"), &id).await.unwrap(), None);
    for query in [
        WaitRowQuery::Pending(theirs.clone()),
        WaitRowQuery::PendingOf(tenant("b"), 9),
        WaitRowQuery::SignalOf(tenant("b"), "approval".into(), 9),
        WaitRowQuery::Invocation(tenant("b"), invocation("inv")),
    ] {
        assert_eq!(store.read_waits(&query).await.unwrap(), [], "{query:?}");
    }
    store.apply(batch_for(&store, &theirs, puts())).await.unwrap();
    assert_eq!(store.find_session_of_invocation(&tenant("b"), &id).await.unwrap(), Some(theirs.clone()));
    store.apply(batch_for(&store, &theirs, [RowMutation::Delete])).await.unwrap();
    assert_eq!(store.read_items(&mine, &all).await.unwrap(), [item(0, "1")]);
    assert_eq!(store.read_turns(&mine, &first).await.unwrap(), [turn(0, StoredTurnStatus::Accepted)]);
    assert_eq!(store.read_session_page(&tenant("b"), None, 9).await.unwrap().sessions, []);
}
