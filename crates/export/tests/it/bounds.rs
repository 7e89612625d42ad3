//! What is too old or too much is given up, the oldest first, and said; what is deleted is not sent.

use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_export::{ExportLimits, ExportProblem, SkipReason};

use crate::rig::{
    Reply, ScriptedReceiver, backlog, env, export_for, exporter, open, stored_spans, tenant, unavailable,
};

#[tokio::test(start_paused = true)]
async fn turns_that_ended_too_long_ago_are_given_up_and_counted() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    chat.session("old").send("one").await;
    tokio::time::sleep(Duration::from_hours(25)).await;
    chat.session("new").send("one").await;
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, Duration::from_mins(1)).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "new").await);
    let (tenant, reason) = (tenant("default"), SkipReason::Age);
    let told = ExportProblem::Skipped { tenant, turns: 1, reason };
    assert_eq!((exporter.counts().skipped_turns, problems.lock().unwrap().clone()), (1, vec![told]));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_in_bytes_the_oldest_turns_are_given_up() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) =
        (open(store.clone(), &env), ScriptedReceiver::replying(vec![Reply::Refuse(unavailable()); 3]));
    for no in 0..200 {
        chat.session(format!("s{no}").as_str()).send("one").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    let exporter = exporter.limits(ExportLimits { max_bytes: 10_000, ..ExportLimits::default() });
    export_for(&exporter, Duration::from_hours(1)).await;
    let left = exporter.counts().sent_turns;
    // A note and the records of one turn have some 300 bytes.
    assert!((20..40).contains(&left), "{left}");
    assert_eq!(exporter.counts().skipped_turns, 200 - left);
    for no in 200 - left..200 {
        let of_turn = stored_spans(&chat, &format!("s{no}")).await;
        assert!(of_turn.iter().all(|(id, span)| receiver.spans().get(id) == Some(span)), "turn {no}");
    }
    let (tenant, reason) = (tenant("default"), SkipReason::Bytes);
    let told = ExportProblem::Skipped { tenant: tenant.clone(), turns: 200 - left, reason };
    assert!(problems.lock().unwrap().contains(&told), "{problems:?}");
    assert_eq!(backlog(&store, &tenant).await, 0);
}

#[tokio::test(start_paused = true)]
async fn of_a_session_that_was_deleted_nothing_is_sent() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    for session in ["kept", "deleted"] {
        chat.session(session).send("one").await;
    }
    chat.session("deleted").delete(None).await.unwrap();
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, Duration::from_mins(1)).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "kept").await);
    assert!(problems.lock().unwrap().is_empty(), "{problems:?}");
}
