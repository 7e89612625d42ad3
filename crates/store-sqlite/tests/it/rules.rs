//! Requirements: checked on the state before the batch, in the transaction that writes it.

use singletree_durable::{
    Batch, Counters, Error, Fence, ItemRange, Journal, Json, Put, Require, TurnRow, TurnStatus, WaitStatus,
};

use crate::made::{batch, event, head, item, key, place, store, turn, wait};

const OTHER_COUNTERS: &str = "the session's counters are Counters { turns: 1, items: 0, events: 0, waits: 0 } (they are Counters { turns: 0, \
     items: 0, events: 0, waits: 0 })";

#[tokio::test]
async fn every_requirement_holds_or_refuses_the_batch_whole() {
    let (_scratch, store) = store().await;
    let keyed = TurnRow { key: Some("taken".into()), ..turn(0, TurnStatus::Completed) };
    let busy = [
        Put::Head(head(3)),
        Put::Turn(keyed.clone()),
        Put::Turn(turn(1, TurnStatus::Accepted)),
        Put::Wait(wait(0, "a", WaitStatus::Consumed)),
    ];
    store.apply(batch(&store, "busy", busy)).await.unwrap();
    let waiting = [Put::Head(head(1)), Put::Wait(wait(0, "a", WaitStatus::Pending))];
    store.apply(batch(&store, "waiting", waiting)).await.unwrap();
    store.apply(batch(&store, "idle", [Put::Head(head(1)), Put::Turn(keyed)])).await.unwrap();

    let turn_is = |no, status| Require::Turn { no, status };
    let wait_is = |no, status| Require::Wait { no, status };
    for (session, require, refused) in [
        ("none", Require::SessionAbsent, None),
        ("busy", Require::SessionAbsent, Some("the session is absent (it exists)")),
        ("busy", Require::SessionVersion(3), None),
        ("busy", Require::SessionVersion(2), Some("the session is at version 2 (it is 3)")),
        ("none", Require::SessionVersion(0), Some("the session is at version 0 (it is absent)")),
        ("busy", Require::Counters(Counters::default()), None),
        ("none", Require::Counters(Counters::default()), None),
        ("none", Require::Counters(Counters { turns: 1, ..Counters::default() }), Some(OTHER_COUNTERS)),
        ("busy", turn_is(1, TurnStatus::Accepted), None),
        ("busy", turn_is(1, TurnStatus::Completed), Some("turn 1 is completed (it is accepted)")),
        ("busy", turn_is(2, TurnStatus::Accepted), Some("turn 2 is accepted (it is absent)")),
        ("none", turn_is(0, TurnStatus::Accepted), Some("turn 0 is accepted (it is absent)")),
        ("busy", Require::NewestTurn(1), None),
        ("busy", Require::NewestTurn(0), Some("turn 0 is the newest one (that is 1)")),
        ("none", Require::NewestTurn(0), Some("turn 0 is the newest one (that is absent)")),
        ("busy", Require::KeyFree("free".into()), None),
        ("none", Require::KeyFree("taken".into()), None),
        ("busy", Require::KeyFree("taken".into()), Some("the idempotency key is free (turn 0 holds it)")),
        ("busy", wait_is(0, WaitStatus::Consumed), None),
        ("busy", wait_is(0, WaitStatus::Pending), Some("wait 0 is pending (it is consumed)")),
        ("none", wait_is(0, WaitStatus::Pending), Some("wait 0 is pending (it is absent)")),
        ("none", Require::Idle, None),
        ("idle", Require::Idle, None),
        ("busy", Require::Idle, Some("the session is idle (turn 1 is not over)")),
        ("waiting", Require::Idle, Some("the session is idle (wait 0 is not over)")),
    ] {
        let before = store.session(&key(session)).await.unwrap();
        let puts = if refused.is_some() { vec![Put::Head(head(99)), Put::Delete] } else { vec![] };
        let answer = store.apply(batch(&store, session, puts).require(require.clone())).await;
        match (answer, refused) {
            (Ok(()), None) => {}
            (Err(Error::Refused { requirement }), Some(expected)) => assert_eq!(requirement, expected),
            (answer, _) => panic!("{session} {require:?}: {answer:?}"),
        }
        assert_eq!(store.session(&key(session)).await.unwrap(), before, "{session} {require:?}");
    }
}

#[tokio::test]
async fn requirements_see_the_state_before_the_batch_and_puts_see_those_before_them() {
    let (_scratch, store) = store().await;
    let puts = [Put::Head(head(1)), Put::Item(item(0, "1")), Put::Place { item: 0, placement: place(0) }];
    store.apply(batch(&store, "s", puts).require(Require::SessionAbsent)).await.unwrap();
    // A head may stand anywhere in the batch that makes its session, but not behind its end.
    let late = batch(&store, "late", [Put::Item(item(0, "1")), Put::Head(head(1))]);
    store.apply(late).await.unwrap();
    let too_late = batch(&store, "never", [Put::Item(item(0, "1")), Put::Delete, Put::Head(head(1))]);
    assert!(matches!(store.apply(too_late).await, Err(Error::Refused { .. })));
    let again = batch(&store, "s", [Put::Head(head(2))]).require(Require::SessionVersion(2));
    assert!(matches!(store.apply(again).await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn another_fence_is_refused_whatever_else_the_batch_says() {
    // ruling D4
    let (_scratch, store) = store().await;
    for fence in [Fence(store.fence().0 - 1), Fence(store.fence().0 + 1)] {
        let mut stale = Batch::new(key("s"), fence);
        stale.put(Put::Head(head(1)));
        assert!(matches!(store.apply(stale).await, Err(Error::Refused { .. })), "{fence:?}");
    }
    assert_eq!(store.session(&key("s")).await.unwrap(), None);
}

#[tokio::test]
async fn numbers_that_are_taken_and_places_that_are_not_free_refuse_the_batch() {
    let (_scratch, store) = store().await;
    let keyed = |no| Put::Turn(TurnRow { key: Some("k".into()), ..turn(no, TurnStatus::Completed) });
    let puts = [Put::Head(head(1)), Put::Item(item(0, "1")), Put::Event(event(0, "a")), keyed(0)];
    store.apply(batch(&store, "s", puts)).await.unwrap();
    let put = |no| Put::Place { item: no, placement: place(0) };
    for puts in [
        vec![Put::Item(item(0, "2"))],
        vec![Put::Event(event(0, "b"))],
        vec![put(7)],
        vec![Put::Side { item: 7, side: Json::from_text("{}") }],
        vec![put(0), put(0)],
        vec![put(0), Put::Item(item(1, "1")), put(1)],
        vec![keyed(1)],
    ] {
        let answer = store.apply(batch(&store, "s", puts.clone())).await;
        assert!(matches!(answer, Err(Error::Refused { .. })), "{puts:?}: {answer:?}");
    }
    let all = ItemRange::Numbers { from: 0, to: 9 };
    assert_eq!(store.items(&key("s"), &all).await.unwrap(), [item(0, "1")]);
    let lonely = store.apply(batch(&store, "absent", [Put::Item(item(0, "1"))])).await;
    assert!(matches!(lonely, Err(Error::Refused { .. })), "{lonely:?}");
}
