//! Receivers that are away, refuse, drop and hang: nothing within the bounds is lost.

use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_export::{ExportProblem, SkipReason, TraceSampling};
use singletree_harness::SendOptions;
use singletree_llm::ChatMessage;
use singletree_telemetry::{SpanRefusal, SpanSettings};

use crate::rig::{
    Reply, ScriptedReceiver, approve, backlog, env, export_for, exporter, open, stored_spans, tenant,
    unavailable,
};

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn each_turn_of_each_tenant_is_sent_once_soon_after_its_end() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    let other = chat.of(tenant("other"));
    chat.session("s").send("before").await;
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    let talking = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(receiver.requests(), 1, "what was there is sent at once");
        other.session("s").send_with("go", SendOptions::new().agent("asking")).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(receiver.requests(), 2, "a turn that waits is sent up to its wait");
        approve(&other, "s").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    exporter.run(talking).await;
    let mut expected = stored_spans(&chat, "s").await;
    expected.extend(stored_spans(&other, "s").await);
    assert_eq!(receiver.spans(), expected);
    assert_eq!(receiver.count(), expected.len());
    let counts = exporter.counts();
    assert_eq!((counts.sent_turns, counts.sent_spans), (3, expected.len() as u64));
    assert_eq!((backlog(&store, &tenant("default")).await, backlog(&store, &tenant("other")).await), (0, 0));
    assert!(problems.lock().unwrap().is_empty(), "{problems:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_receiver_does_not_take_is_sent_again_until_it_does() {
    let wait = Some(Duration::from_secs(90));
    let busy = SpanRefusal::Unavailable { problem: "429".to_owned(), wait };
    let closed = SpanRefusal::Destination { problem: "401".to_owned() };
    for (replies, most) in [
        (vec![Reply::Refuse(unavailable()); 20], 20 * 5),
        (vec![Reply::Refuse(busy); 3], 3 * 90),
        (vec![Reply::Refuse(closed.clone()); 3], 3 * 60),
        (vec![Reply::TakeAndFail], 5),
    ] {
        let (store, env) = (MemoryStore::new(), env());
        let failures = replies.len();
        let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying(replies));
        chat.session("s").send("one").await;
        let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
        export_for(&exporter, Duration::from_secs(most - 2)).await;
        assert_eq!(exporter.counts().sent_turns, 0);
        assert_eq!(backlog(&store, &tenant("default")).await, 1);
        export_for(&exporter, HOUR).await;
        assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
        assert_eq!(backlog(&store, &tenant("default")).await, 0);
        assert!(problems.lock().unwrap().len() >= failures.min(3), "{problems:?}");
        assert_eq!(exporter.counts().skipped_turns, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_a_receiver_loses_nothing_and_holds_up_no_turn() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) =
        (open(store.clone(), &env), ScriptedReceiver::replying(vec![Reply::Refuse(unavailable()); 900]));
    let (exporter, _) = exporter((&chat, &env), &store, &receiver);
    let talking = async {
        for _ in 0..60 {
            let began = tokio::time::Instant::now();
            chat.session("s").send("again").await;
            assert!(began.elapsed() < Duration::from_millis(1), "no turn waits for an export");
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    };
    exporter.run(talking).await;
    assert_eq!(backlog(&store, &tenant("default")).await, 60);
    export_for(&exporter, HOUR).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
    assert_eq!(exporter.counts().sent_turns, 60);
}

// A request that hangs ends with the process; the next one sends the same spans.
#[tokio::test(start_paused = true)]
async fn a_stop_leaves_what_is_on_its_way_to_the_next_process() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([Reply::Hang]));
    chat.session("s").send("one").await;
    let (first, _) = exporter((&chat, &env), &store, &receiver);
    export_for(&first, HOUR).await;
    assert_eq!((first.counts().sent_turns, backlog(&store, &tenant("default")).await), (0, 1));
    let store = store.reopen();
    let chat = open(store.clone(), &env);
    let (second, _) = exporter((&chat, &env), &store, &receiver);
    export_for(&second, HOUR).await;
    assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_a_receiver_refuses_for_good_keeps_no_other_from_being_sent() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    for _ in 0..9 {
        chat.session("s").send("again").await;
    }
    let refused = chat.session("s").turns(0, 100).await.unwrap().items[4].id.clone();
    let refused = chat.turn_trace(&refused).await.unwrap().trace_id(&SpanSettings::new());
    receiver.refuse_trace(refused);
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, HOUR).await;
    let mut expected = stored_spans(&chat, "s").await;
    expected.retain(|(trace, _), _| *trace != refused);
    assert_eq!(receiver.spans(), expected);
    assert_eq!((exporter.counts().sent_turns, exporter.counts().skipped_turns), (8, 1));
    let (tenant, reason) = (tenant("default"), SkipReason::Refused);
    let skipped = ExportProblem::Skipped { tenant: tenant.clone(), turns: 1, reason };
    assert!(problems.lock().unwrap().contains(&skipped), "{problems:?}");
    assert_eq!(backlog(&store, &tenant).await, 0);
}

#[tokio::test(start_paused = true)]
async fn spans_that_a_receiver_drops_are_counted_and_not_sent_again() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([Reply::Drop(1)]));
    chat.session("s").send("one").await;
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, HOUR).await;
    assert_eq!((exporter.counts().rejected_spans, receiver.requests()), (1, 1));
    let told = ExportProblem::Rejected { spans: 1, message: Some("too many".to_owned()) };
    assert_eq!(*problems.lock().unwrap(), [told]);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_says_nonsense_is_neither_believed_nor_asked_without_end() {
    let (store, env) = (MemoryStore::new(), env());
    let at_once = SpanRefusal::Unavailable { problem: "0".to_owned(), wait: Some(Duration::ZERO) };
    let replies =
        std::iter::repeat_n(Reply::Refuse(at_once), 3).chain([Reply::Drop(u64::MAX), Reply::Drop(u64::MAX)]);
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying(replies));
    chat.session("s").send("one").await;
    let (exporter, _) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, Duration::from_millis(1_400)).await;
    assert_eq!(
        (receiver.requests(), exporter.counts().failed_attempts),
        (0, 3),
        "half a second between them"
    );
    export_for(&exporter, HOUR).await;
    chat.session("s").send("two").await;
    export_for(&exporter, HOUR).await;
    let counts = exporter.counts();
    assert_eq!((counts.sent_turns, counts.rejected_spans), (2, counts.sent_spans));
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_invocations_is_exported_each_whole() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(store.clone(), &env), ScriptedReceiver::replying([]));
    for no in 0..100 {
        let session = format!("s{no}");
        chat.session(session.as_str()).send_with("go", SendOptions::new().agent("asking")).await;
        approve(&chat, &session).await;
        chat.session(session.as_str())
            .send_with(ChatMessage::user("more"), SendOptions::new().agent("asking"))
            .await;
    }
    let (exporter, _) = exporter((&chat, &env), &store, &receiver);
    let exporter = exporter.sampling(TraceSampling::new().default_share(0.0).agent_share("asking", 0.5));
    export_for(&exporter, HOUR).await;
    let received = receiver.spans();
    let mut whole = 0;
    for no in 0..100 {
        let stored = stored_spans(&chat, &format!("s{no}")).await;
        let traces: std::collections::BTreeSet<_> = stored.keys().map(|(trace, _)| *trace).collect();
        for trace in traces {
            let of = |(it, _): &&(_, _)| *it == trace;
            let (sent, all) = (received.keys().filter(of).count(), stored.keys().filter(of).count());
            assert!(sent == 0 || sent == all, "{sent} of {all} spans of one trace");
            whole += usize::from(sent == all);
        }
    }
    assert!((60..140).contains(&whole), "{whole} of 200 invocations");
    assert_eq!(backlog(&store, &tenant("default")).await, 0);
}
