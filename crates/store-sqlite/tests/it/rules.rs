//! Requirements: checked on the state before the batch, in the transaction that writes it.

use singletree_durable::{
    Batch, BatchPrecondition, Counters, Error, FencingToken, ItemRange, Journal, JsonDocument, RowMutation,
    StoredTurnStatus, StoredWaitStatus, TurnRow,
};

use crate::made::{batch, event, head, item, key, place, store, turn, wait};

const OTHER_COUNTERS: &str = "the session's counters are Counters { turns: 1, items: 0, events: 0, waits: 0 } (they are Counters { turns: 0, \
     items: 0, events: 0, waits: 0 })";

#[tokio::test]
async fn every_requirement_holds_or_refuses_the_batch_whole() {
    let (_scratch, store) = store().await;
    let keyed = TurnRow { key: Some("taken".into()), ..turn(0, StoredTurnStatus::Completed) };
    let busy = [
        RowMutation::Head(head(3)),
        RowMutation::Turn(keyed.clone()),
        RowMutation::Turn(turn(1, StoredTurnStatus::Accepted)),
        RowMutation::Wait(wait(0, "a", StoredWaitStatus::Consumed)),
    ];
    store.apply(batch(&store, "busy", busy)).await.unwrap();
    let waiting = [RowMutation::Head(head(1)), RowMutation::Wait(wait(0, "a", StoredWaitStatus::Pending))];
    store.apply(batch(&store, "waiting", waiting)).await.unwrap();
    store.apply(batch(&store, "idle", [RowMutation::Head(head(1)), RowMutation::Turn(keyed)])).await.unwrap();

    let turn_is = |no, status| BatchPrecondition::Turn { no, status };
    let wait_is = |no, status| BatchPrecondition::Wait { no, status };
    for (session, require, refused) in [
        ("none", BatchPrecondition::SessionAbsent, None),
        ("busy", BatchPrecondition::SessionAbsent, Some("the session is absent (it exists)")),
        ("busy", BatchPrecondition::SessionVersion(3), None),
        ("busy", BatchPrecondition::SessionVersion(2), Some("the session is at version 2 (it is 3)")),
        ("none", BatchPrecondition::SessionVersion(0), Some("the session is at version 0 (it is absent)")),
        ("busy", BatchPrecondition::Counters(Counters::default()), None),
        ("none", BatchPrecondition::Counters(Counters::default()), None),
        (
            "none",
            BatchPrecondition::Counters(Counters { turns: 1, ..Counters::default() }),
            Some(OTHER_COUNTERS),
        ),
        ("busy", turn_is(1, StoredTurnStatus::Accepted), None),
        ("busy", turn_is(1, StoredTurnStatus::Completed), Some("turn 1 is completed (it is accepted)")),
        ("busy", turn_is(2, StoredTurnStatus::Accepted), Some("turn 2 is accepted (it is absent)")),
        ("none", turn_is(0, StoredTurnStatus::Accepted), Some("turn 0 is accepted (it is absent)")),
        ("busy", BatchPrecondition::NewestTurn(1), None),
        ("busy", BatchPrecondition::NewestTurn(0), Some("turn 0 is the newest one (that is 1)")),
        ("none", BatchPrecondition::NewestTurn(0), Some("turn 0 is the newest one (that is absent)")),
        ("busy", BatchPrecondition::KeyFree("free".into()), None),
        ("none", BatchPrecondition::KeyFree("taken".into()), None),
        (
            "busy",
            BatchPrecondition::KeyFree("taken".into()),
            Some("the idempotency key is free (turn 0 holds it)"),
        ),
        ("busy", wait_is(0, StoredWaitStatus::Consumed), None),
        ("busy", wait_is(0, StoredWaitStatus::Pending), Some("wait 0 is pending (it is consumed)")),
        ("none", wait_is(0, StoredWaitStatus::Pending), Some("wait 0 is pending (it is absent)")),
        ("none", BatchPrecondition::Idle, None),
        ("idle", BatchPrecondition::Idle, None),
        ("busy", BatchPrecondition::Idle, Some("the session is idle (turn 1 is not over)")),
        ("waiting", BatchPrecondition::Idle, Some("the session is idle (wait 0 is not over)")),
    ] {
        let before = store.read_session(&key(session)).await.unwrap();
        let puts =
            if refused.is_some() { vec![RowMutation::Head(head(99)), RowMutation::Delete] } else { vec![] };
        let answer = store.apply(batch(&store, session, puts).require(require.clone())).await;
        match (answer, refused) {
            (Ok(()), None) => {}
            (Err(Error::Refused { requirement }), Some(expected)) => assert_eq!(requirement, expected),
            (answer, _) => panic!("{session} {require:?}: {answer:?}"),
        }
        assert_eq!(store.read_session(&key(session)).await.unwrap(), before, "{session} {require:?}");
    }
}

#[tokio::test]
async fn requirements_see_the_state_before_the_batch_and_puts_see_those_before_them() {
    let (_scratch, store) = store().await;
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Item(item(0, "1")),
        RowMutation::Place { item: 0, placement: place(0) },
    ];
    store.apply(batch(&store, "s", puts).require(BatchPrecondition::SessionAbsent)).await.unwrap();
    // A head may stand anywhere in the batch that makes its session, but not behind its end.
    let late = batch(&store, "late", [RowMutation::Item(item(0, "1")), RowMutation::Head(head(1))]);
    store.apply(late).await.unwrap();
    let too_late = batch(
        &store,
        "never",
        [RowMutation::Item(item(0, "1")), RowMutation::Delete, RowMutation::Head(head(1))],
    );
    assert!(matches!(store.apply(too_late).await, Err(Error::Refused { .. })));
    let again =
        batch(&store, "s", [RowMutation::Head(head(2))]).require(BatchPrecondition::SessionVersion(2));
    assert!(matches!(store.apply(again).await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn another_fence_is_refused_as_lost_whatever_else_the_batch_says() {
    // ruling D4
    let (_scratch, store) = store().await;
    let own = store.acquire(&key("s")).await.unwrap().fence;
    for fence in [FencingToken(own.0 - 1), FencingToken(own.0 + 1)] {
        let mut stale = Batch::new(key("s"), fence);
        stale.put(RowMutation::Head(head(1)));
        assert!(matches!(store.apply(stale).await, Err(Error::LeaseLost { .. })), "{fence:?}");
    }
    assert_eq!(store.read_session(&key("s")).await.unwrap(), None);
}

#[tokio::test]
async fn numbers_that_are_taken_and_places_that_are_not_free_refuse_the_batch() {
    let (_scratch, store) = store().await;
    let keyed =
        |no| RowMutation::Turn(TurnRow { key: Some("k".into()), ..turn(no, StoredTurnStatus::Completed) });
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Item(item(0, "1")),
        RowMutation::Event(event(0, "a")),
        keyed(0),
    ];
    store.apply(batch(&store, "s", puts)).await.unwrap();
    let put = |no| RowMutation::Place { item: no, placement: place(0) };
    for puts in [
        vec![RowMutation::Item(item(0, "2"))],
        vec![RowMutation::Event(event(0, "b"))],
        vec![put(7)],
        vec![RowMutation::Side { item: 7, side: JsonDocument::from_text("{}") }],
        vec![put(0), put(0)],
        vec![put(0), RowMutation::Item(item(1, "1")), put(1)],
        vec![keyed(1)],
    ] {
        let answer = store.apply(batch(&store, "s", puts.clone())).await;
        assert!(matches!(answer, Err(Error::Refused { .. })), "{puts:?}: {answer:?}");
    }
    let all = ItemRange::Numbers { from: 0, to: 9 };
    assert_eq!(store.read_items(&key("s"), &all).await.unwrap(), [item(0, "1")]);
    let lonely = store.apply(batch(&store, "absent", [RowMutation::Item(item(0, "1"))])).await;
    assert!(matches!(lonely, Err(Error::Refused { .. })), "{lonely:?}");
}
