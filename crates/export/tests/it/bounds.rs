//! Turns beyond the bounds are given up, the oldest first, and reported; turns of deleted sessions are not sent.

use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_export::{BackfillRange, ExportLimits, ExportProblem, SkipReason};
use singletree_telemetry::SpanRefusal;

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

#[tokio::test(start_paused = true)]
async fn a_backfill_sends_the_turns_of_a_time_and_says_what_stopped_it() {
    let (store, env) = (MemoryStore::new(), env());
    let chat = open(store.clone(), &env);
    let mut since = env.clock.now();
    for no in 0..20 {
        let tenant = tenant(["one", "two"][no % 2]);
        chat.of(tenant).session(format!("s{no}").as_str()).send("one").await;
        tokio::time::sleep(Duration::from_hours(1)).await;
        if no == 9 {
            since = env.clock.now();
        }
    }
    let until = Some(since.saturating_add(Duration::from_mins(270)));
    let receiver = ScriptedReceiver::replying([]);
    let (exporter, _) = exporter((&chat, &env), &store, &receiver);
    let report = exporter.backfill(BackfillRange { since, until }).await.unwrap();
    let mut expected = stored_spans(&chat.of(tenant("one")), "s10").await;
    for (session, name) in [("s11", "two"), ("s12", "one"), ("s13", "two"), ("s14", "one")] {
        expected.extend(stored_spans(&chat.of(tenant(name)), session).await);
    }
    assert_eq!(receiver.spans(), expected);
    assert_eq!((report.turns, report.spans), (5, expected.len() as u64));
    assert_eq!(backlog(&store, &tenant("one")).await, 10, "notes stay as they are");
    for (refusal, category) in [
        (unavailable(), "telemetry_receiver_unavailable"),
        (SpanRefusal::Destination { problem: "401".to_owned() }, "telemetry_receiver_refused"),
    ] {
        let receiver = ScriptedReceiver::replying([Reply::Refuse(refusal)]);
        let (exporter, _) = crate::rig::exporter((&chat, &env), &store, &receiver);
        let failed = exporter.backfill(BackfillRange { since, until: None }).await.unwrap_err();
        assert_eq!(failed.category(), category);
    }
}
