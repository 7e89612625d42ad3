//! Many writers, one commit.

use singletree_durable::{BatchPrecondition, Error, ItemRange, Journal, RowMutation};

use crate::made::{batch, event, head, item, key, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_batches_share_commits_and_a_refused_one_rolls_back_alone() {
    // INV-3
    const TASKS: u64 = 64;
    const EACH: u64 = 20;
    let (_scratch, store) = store().await;
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(TASKS as usize));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, start) = (store.clone(), start.clone());
            tokio::spawn(async move {
                let name = format!("s{task}");
                start.wait().await;
                for no in 0..EACH {
                    let puts = [RowMutation::Head(head(no + 1)), RowMutation::Item(item(no, "1"))];
                    // Every fifth writes first and fails then, in the middle of the others' transaction.
                    let bad = no % 5 == 4;
                    let mut member = batch(&store, &name, puts);
                    if bad {
                        member.put(RowMutation::Event(event(0, "a"))).put(RowMutation::Event(event(0, "a")));
                    }
                    let answer = store.apply(member).await;
                    assert_eq!(matches!(answer, Err(Error::Refused { .. })), bad, "{answer:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let kept: Vec<_> = (0..EACH).filter(|no| no % 5 != 4).map(|no| item(no, "1")).collect();
    for task in 0..TASKS {
        let session = key(&format!("s{task}"));
        let found = store.read_items(&session, &ItemRange::Numbers { from: 0, to: u64::MAX }).await.unwrap();
        assert_eq!(found, kept);
        assert_eq!(store.read_events(&session, 0, 9).await.unwrap(), []);
    }
    let batches = TASKS * EACH;
    assert!(store.commit_count() * 4 < batches, "{} commits for {batches} batches", store.commit_count());
}

#[tokio::test]
async fn batches_land_in_the_order_of_the_calls_and_a_dropped_future_cancels_nothing() {
    let (_scratch, store) = store().await;
    store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap();
    let step = |version| {
        batch(&store, "s", [RowMutation::Head(head(version)), RowMutation::Item(item(version, "1"))])
            .require(BatchPrecondition::SessionVersion(version - 1))
    };
    drop(store.apply(step(1)));
    let second = store.apply(step(2));
    let third = store.apply(step(3));
    assert!(third.await.is_ok());
    assert!(second.await.is_ok());
    assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head, head(3));
}

#[tokio::test]
async fn a_read_that_begins_after_an_answer_sees_the_batch_whole() {
    let (_scratch, store) = store().await;
    for no in 0..200 {
        store
            .apply(batch(&store, "s", [RowMutation::Head(head(no)), RowMutation::Item(item(no, "1"))]))
            .await
            .unwrap();
        // Two reads for the two connections.
        for _ in 0..2 {
            assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head.version, no);
            let last =
                store.read_items(&key("s"), &ItemRange::Numbers { from: no, to: no + 1 }).await.unwrap();
            assert_eq!(last, [item(no, "1")]);
        }
    }
}

#[tokio::test]
async fn a_refused_batch_and_an_empty_one_write_nothing() {
    // INV-4
    let (_scratch, store) = store().await;
    store.apply(batch(&store, "s", [])).await.unwrap();
    let refused = batch(
        &store,
        "s",
        [RowMutation::Head(head(0)), RowMutation::Event(event(0, "a")), RowMutation::Event(event(0, "b"))],
    );
    store.apply(refused).await.unwrap_err();
    assert_eq!((store.commit_count(), store.bytes_written()), (0, 0));
    store
        .apply(batch(&store, "s", [RowMutation::Head(head(0)), RowMutation::Event(event(0, "kind"))]))
        .await
        .unwrap();
    // Names: agent, graph, kind; session: two of them, "1", version, no word for the usual policy, two times, four
    // counters, tenant, name, checksum; event: four numbers and a checksum.
    let (names, session, event) = (4 + 64 + 4, 2 * 8 + 1 + 8 + 16 + 4 * 8 + 7 + 1 + 8, 5 * 8);
    assert_eq!((store.commit_count(), store.bytes_written()), (1, names + session + event));
}
