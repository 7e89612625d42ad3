//! Signals that come before anything waits for them (D2).

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use singletree_durable::{Journal, JournalRead};
use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{
    Answer, Chat, ChatBuilder, ChatEventKind, ChatTurnOutcome, Durability, Limits, SignalAddress,
    SignalDelivery, Turn, TurnId, WhileSuspended,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;
use tokio::sync::Barrier;

use crate::bench::{
    Door, Log, Talk, TokioClock, agent, approve, asking, at, chain, check_rows, fields, gate, history, key,
    line, name, says, user,
};
use crate::fails_once::FailsOnce;
use crate::sky::Sky;

/// A graph that waits at a door before it asks; after that as `asking`.
fn held(log: &Log, door: &Door, signal: Signal) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::builder().node("ask", move |_: Ctx<Talk>| {
        let door = door.clone();
        async move {
            door.pass().await;
            Ok(says("ask"))
        }
    });
    let log = log.clone();
    let builder = gate(builder, &log, signal).node("act", |cx: Ctx<Talk>| async move {
        let said = if cx.state().approved { "done" } else { "not done" };
        Ok(says(said).approved(false))
    });
    chain(builder, &["ask", "gate", "act"])
}

fn early(graph: &Graph<Talk>, policy: WhileSuspended) -> ChatBuilder {
    let agent = agent(graph, Durability::Step).while_suspended(policy);
    Chat::builder().agent(agent.early_signals(["ok", "pay-*"]))
}

fn open(signal: Signal, store: TestStore) -> (Chat, Door) {
    let door = Door::shut();
    let chat = early(&held(&Log::default(), &door, signal), WhileSuspended::Queue).open(store).unwrap();
    (chat, door)
}

async fn begin(chat: &Chat, door: &Door) -> Turn {
    let turn = chat.session("s").submit(user("m"), key("m")).await.unwrap();
    door.somebody().await;
    turn
}

/// A turn at its door whose approval is kept already; its next write is the one that suspends it.
async fn kept_under_a_sky() -> (Sky, Door, Chat, Turn) {
    let (sky, door) = (Sky::over(TestStore::new()), Door::shut());
    let graph = held(&Log::default(), &door, Signal::new("ok"));
    let agent = agent(&graph, Durability::Turn).early_signals(["ok"]);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    let first = begin(&chat, &door).await;
    chat.signal(at("s", "ok"), approve(true)).await.unwrap();
    (sky, door, chat, first)
}

async fn resumed(delivered: SignalDelivery) -> (TurnId, String) {
    let SignalDelivery::Resumed(turn) = delivered else { panic!("{delivered:?}") };
    (turn.id().clone(), line(turn.outcome().await.as_ref()))
}

async fn refused(chat: &Chat, address: SignalAddress, answer: Answer) -> String {
    chat.signal(address, answer).await.unwrap_err().category().to_owned()
}

async fn kept(chat: &Chat) -> Vec<String> {
    chat.session("s").mailbox().await.unwrap().into_iter().map(|it| it.signal).collect()
}

// D2: kept, then taken by the suspension on it; before messages that are parked behind the wait, as a signal that comes
// in time.
#[tokio::test]
async fn a_signal_that_comes_early_resumes_what_waits_for_it_later() {
    let store = TestStore::new();
    let (chat, door) = open(Signal::new("ok"), store.clone());
    let first = begin(&chat, &door).await;
    let behind = chat.session("s").submit(user("n"), key("n")).await.unwrap();
    let delivered = chat.signal(at("s", "ok"), approve(true).from("bank")).await.unwrap();
    assert!(matches!(delivered, SignalDelivery::Kept { .. }), "{delivered:?}");
    let mail = chat.session("s").mailbox().await.unwrap();
    assert_eq!((mail[0].signal.as_str(), mail[0].from.as_deref(), mail.len()), ("ok", Some("bank"), 1));
    assert_eq!(mail[0].payload, fields(&[("approved", json!(true))]));
    door.open();
    let outcome = first.outcome().await;
    assert_eq!(line(outcome.as_ref()), "suspended 3.1 ok [a:ask]");
    let ChatTurnOutcome::Suspended(suspended) = outcome.as_ref() else { panic!() };
    let by = chat.turn(suspended.resumed_by.as_ref().unwrap()).await.unwrap();
    assert_eq!(line(by.outcome().await.as_ref()), "completed 3.3 [a:done]");
    assert_eq!(line(behind.outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done", "u:n", "a:ask"]);
    assert_eq!(kept(&chat).await, Vec::<String>::new());
    // Who answered and when is recorded.
    let waits =
        store.read_waits(&singletree_durable::WaitRowQuery::Signal(name("s"), "ok".into())).await.unwrap();
    assert_eq!(waits[0].1.answered_by.as_deref(), Some("bank"));
    assert!(waits[0].1.ended_at.is_some());
    check_rows(&store, "s").await;
}

// INV-8, D2: a suspension that could not be stored has taken nothing: the next attempt takes the signal, also where the
// session could not be read in between.
#[tokio::test(start_paused = true)]
async fn a_suspension_that_fails_leaves_its_early_signal_to_the_next_attempt() {
    let (memory, door) = (TestStore::new(), Door::shut());
    let graph = held(&Log::default(), &door, Signal::new("ok"));
    let agent = agent(&graph, Durability::Turn).early_signals(["ok"]);
    let shared = Arc::new(memory.clone());
    // The writes: the message, the signal, the suspension.
    let store = FailsOnce::new(shared.clone(), shared, 3, FailedWriteEffect::Before).with_next_snapshot();
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    let first = begin(&chat, &door).await;
    chat.signal(at("s", "ok"), approve(true)).await.unwrap();
    door.open();
    first.outcome().await;
    assert!(store.failed_all(), "the write failed, and the read after it");
    assert_eq!(kept(&chat).await, Vec::<String>::new());
    let started = TurnId::new(first.id().invocation.clone(), 1);
    let turn = chat.turn(&started).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    check_rows(&memory, "s").await;
}

// D2: the same answer for the same signal, kept or taken, in this process or the next; another payload is a conflict.
#[tokio::test]
async fn a_signal_that_comes_again_gets_the_same_answer_and_another_one_is_a_conflict() {
    let store = TestStore::new();
    let (chat, door) = open(Signal::new("ok"), store.clone());
    let first = begin(&chat, &door).await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let SignalDelivery::Kept { until } = chat.signal(at("s", "ok"), approve(true)).await.unwrap() else {
            panic!()
        };
        told.push(until);
        assert_eq!(refused(&chat, at("s", "ok"), approve(false)).await, "chat_signal_conflict");
    }
    assert_eq!(told[0], told[1]);
    door.open();
    first.outcome().await;
    let (id, told) = resumed(chat.signal(at("s", "ok"), approve(true)).await.unwrap()).await;
    assert_eq!(told, "completed 3.3 [a:done]");
    for chat in [chat, open(Signal::new("ok"), store.reopen()).0] {
        assert_eq!(resumed(chat.signal(at("s", "ok"), approve(true)).await.unwrap()).await.0, id);
        assert_eq!(refused(&chat, at("s", "ok"), approve(false)).await, "chat_signal_conflict");
        assert_eq!(kept(&chat).await, Vec::<String>::new());
    }
}

// D2: only in sessions that exist, for ids that are declared, by session and signal; an approval never.
#[tokio::test]
async fn what_may_not_come_early_is_refused_and_not_kept() {
    let limits = Limits { payload_bytes: 100, key_bytes: 20, ..Limits::default() };
    let (store, door) = (TestStore::new(), Door::shut());
    let graph = held(&Log::default(), &door, Signal::new("ok"));
    let chat = early(&graph, WhileSuspended::Reject).limits(limits).open(store.clone()).unwrap();
    let turn = begin(&chat, &door).await;
    let invocation = SignalAddress::Invocation(turn.id().invocation.clone());
    let payload = |name: &str, value: &str| Answer::new(fields(&[(name, json!(value))]));
    for (address, answer, category) in [
        (at("none", "ok"), approve(true), "harness_signal_correlation_failed"),
        (at("s", "other"), approve(true), "harness_signal_correlation_failed"),
        (at("s", "pay"), approve(true), "harness_signal_correlation_failed"),
        (at("s", "pay-12345678901234567"), approve(true), "harness_signal_correlation_failed"),
        (SignalAddress::Signal("ok".into()), approve(true), "harness_signal_correlation_failed"),
        (invocation, approve(true), "harness_signal_correlation_failed"),
        (at("", "ok"), approve(true), "harness_session_id_unresolved"),
        (at("s", "ok"), approve(true).to(0, "d"), "chat_signal_mismatch"),
        (at("s", "ok"), payload("messages", "x"), "suspension_resume_payload_invalid"),
        (at("s", "ok"), payload("text", &"x".repeat(100)), "suspension_resume_payload_invalid"),
        (at("s", "ok"), approve(true).from("x".repeat(21)), "suspension_resume_payload_invalid"),
    ] {
        assert_eq!(refused(&chat, address.clone(), answer).await, category, "{address:?}");
    }
    // An answer is to something that waits.
    let unasked = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(unasked.error_category, "harness_signal_correlation_failed");
    assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), []);
    chat.signal(at("s", "pay-1"), approve(true)).await.unwrap();
    assert_eq!(kept(&chat).await, ["pay-1"]);
}

// D2, INV-12
#[tokio::test(start_paused = true)]
async fn a_mailbox_is_bounded_in_number_bytes_and_age() {
    let hour = Duration::from_secs(3600);
    // {"approved":true} is 17 bytes.
    let limits = Limits { mail: 3, mail_bytes: 36, mail_age: hour, ..Limits::default() };
    let (store, door) = (TestStore::new(), Door::shut());
    let graph = held(&Log::default(), &door, Signal::new("ok"));
    let builder = || early(&graph, WhileSuspended::Reject).limits(limits.clone()).clock(TokioClock::new());
    let chat = builder().open(store.clone()).unwrap();
    begin(&chat, &door).await;
    for id in ["ok", "pay-2"] {
        chat.signal(at("s", id), approve(true)).await.unwrap();
    }
    let full = chat.signal(at("s", "pay-3"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(
        (full.error_category.as_str(), full.error_bucket.as_str()),
        ("chat_mailbox_full", "retryable_transient")
    );
    assert!(full.diagnostic.contains("mail_bytes is 36"), "{full:?}");
    let empty = || Answer::new(fields(&[]));
    chat.signal(at("s", "pay-3"), empty()).await.unwrap();
    let full = chat.signal(at("s", "pay-4"), empty()).await.unwrap_err().into_errored_turn();
    assert!(full.diagnostic.contains("mail is 3"), "{full:?}");
    tokio::time::sleep(hour + Duration::from_secs(1)).await;
    assert_eq!(kept(&chat).await, Vec::<String>::new());
    // An expired signal conflicts with nothing and fills nothing up.
    let later = chat.signal(at("s", "pay-2"), approve(false)).await.unwrap();
    assert!(matches!(later, SignalDelivery::Kept { .. }));
    assert_eq!(store.read_early_signals(&name("s")).await.unwrap().len(), 1);
}

// D2: a signal that is too old is as if it had not come.
#[tokio::test(start_paused = true)]
async fn a_signal_that_is_too_old_ends_no_wait() {
    let hour = Duration::from_secs(3600);
    let limits = Limits { mail_age: hour, turn_time: 9 * hour, ..Limits::default() };
    for (late, told) in [(hour, 0), (hour + Duration::from_secs(1), 1)] {
        let (store, door) = (TestStore::new(), Door::shut());
        let graph = held(&Log::default(), &door, Signal::new("ok"));
        let builder = early(&graph, WhileSuspended::Reject).limits(limits.clone()).clock(TokioClock::new());
        let chat = builder.open(store.clone()).unwrap();
        let turn = begin(&chat, &door).await;
        chat.signal(at("s", "ok"), approve(true)).await.unwrap();
        tokio::time::sleep(late).await;
        door.open();
        assert_eq!(line(turn.outcome().await.as_ref()), "suspended 3.1 ok [a:ask]");
        assert_eq!(chat.pending(9).await.unwrap().len(), told);
        assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), []);
    }
}

// D2, INV-3: from the commit on that starts it, a turn is under way: also before it has its place in the queue.
#[tokio::test]
async fn a_turn_that_an_early_signal_has_started_is_waited_for_from_its_commit_on() {
    let (sky, door, chat, first) = kept_under_a_sky().await;
    sky.hold();
    door.open();
    sky.holds(1).await;
    let started = TurnId::new(first.id().invocation.clone(), 1);
    let mut turn = std::pin::pin!(chat.turn(&started));
    let early = turn.as_mut().now_or_never();
    assert!(early.is_none(), "{early:?}");
    sky.release();
    let turn = turn.await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
}

// D2: who looked for a wait before it had landed, and comes back after it is over, has not seen it.
#[tokio::test]
async fn a_signal_that_looked_before_the_suspension_landed_is_told_of_the_conflict() {
    let (sky, door, chat, first) = kept_under_a_sky().await;
    sky.delay();
    door.open();
    sky.holds(1).await;
    sky.linger(JournalRead::Waits);
    let mut other = std::pin::pin!(chat.signal(at("s", "ok"), approve(false)));
    assert!(other.as_mut().now_or_never().is_none());
    sky.release();
    first.outcome().await;
    let started = TurnId::new(first.id().invocation.clone(), 1);
    let turn = chat.turn(&started).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    sky.arrive();
    assert_eq!(other.await.unwrap_err().category(), "chat_signal_conflict");
    assert_eq!(kept(&chat).await, Vec::<String>::new());
}

// D2: an approval cannot be given in advance, and a signal that does not fit leaves the wait as it is.
#[tokio::test]
async fn a_signal_that_does_not_fit_its_wait_is_told_and_forgotten() {
    let schema = json!({ "type": "object", "required": ["who"] });
    let text = Answer::new(fields(&[("approved", json!("yes"))]));
    for (signal, answer) in [
        (Signal::new("ok").approves("digest"), approve(true)),
        (Signal::new("ok").payload_schema(schema), approve(true)),
        (Signal::new("ok"), text),
    ] {
        let store = TestStore::in_memory("it reads all events that there are in one poll");
        let (chat, door) = open(signal, store.clone());
        let turn = begin(&chat, &door).await;
        let mut events = Box::pin(chat.session("s").events().stream().await.unwrap());
        chat.signal(at("s", "ok"), answer.from("bank")).await.unwrap();
        door.open();
        let ChatTurnOutcome::Suspended(it) = turn.outcome().await.as_ref().clone() else { panic!() };
        assert_eq!(it.resumed_by, None);
        assert_eq!(chat.pending(9).await.unwrap().len(), 1);
        assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), []);
        let mut told = None;
        while let Some(Some(event)) = events.next().now_or_never() {
            if let ChatEventKind::SignalReceived { wait, signal, how, from } = event.unwrap().what {
                told = Some((wait, signal, how, from));
            }
        }
        assert_eq!(told, Some((0, "ok".into(), "refused", Some("bank".into()))));
        check_rows(&store, "s").await;
    }
}

// D2: kept signals go with the session's work, however that ends, and not before all of it has ended.
#[tokio::test]
async fn a_mailbox_is_emptied_when_the_work_is_over() {
    for how in ["complete", "fail", "cancel", "cancel the wait", "delete"] {
        let (store, door) = (TestStore::new(), Door::shut());
        let at_door = door.clone();
        let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
            let door = at_door.clone();
            async move {
                door.pass().await;
                match how {
                    "fail" => Err(NodeError::new("no").with_category("mine")),
                    "cancel the wait" => cx.suspend(Signal::new("never")).await,
                    _ => Ok(says("x")),
                }
            }
        });
        let graph = chain(builder, &["n"]);
        let chat = early(&graph, WhileSuspended::Queue).open(store.clone()).unwrap();
        let first = begin(&chat, &door).await;
        chat.signal(at("s", "pay-1"), approve(true)).await.unwrap();
        match how {
            "cancel" => drop(chat.cancel(first.id()).await.unwrap().outcome().await),
            "delete" => chat.session("s").delete(None).await.unwrap(),
            "cancel the wait" => {
                door.open();
                first.outcome().await;
                assert_eq!(kept(&chat).await, ["pay-1"], "the session waits for something else");
                chat.cancel(first.id()).await.unwrap().outcome().await;
            }
            _ => {
                let second = chat.session("s").submit(user("n"), key("n")).await.unwrap();
                door.open_once();
                first.outcome().await;
                door.somebody().await;
                assert_eq!(kept(&chat).await, ["pay-1"], "{how}: there is more to do");
                door.open();
                second.outcome().await;
            }
        }
        assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), [], "{how}");
        if how != "delete" {
            // In an idle session, a signal waits for the next work.
            chat.signal(at("s", "pay-2"), approve(true)).await.unwrap();
            assert_eq!(kept(&chat).await, ["pay-2"], "{how}");
        }
    }
}

// D2: several waits of an id are numbered; the signal that ended one of them stays its duplicate, whatever came later.
#[tokio::test]
async fn a_duplicate_of_a_consumed_wait_stays_one_when_a_later_wait_is_given_up() {
    let chat = Chat::builder()
        .agent(agent(&asking(&Log::default(), Signal::new("ok")), Durability::Step))
        .open(TestStore::new())
        .unwrap();
    chat.session("s").send(user("m")).await;
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    turn.outcome().await;
    let second = chat.session("s").submit(user("n"), key("n")).await.unwrap();
    second.outcome().await;
    assert_eq!(chat.pending(9).await.unwrap()[0].wait.no, 1);
    chat.cancel(second.id()).await.unwrap().outcome().await;
    assert_eq!(chat.answer(at("s", "ok"), approve(true)).await.unwrap().id(), turn.id());
    let other = chat.answer(at("s", "ok"), approve(false)).await.unwrap_err().into_errored_turn();
    assert_eq!(other.error_category, "harness_signal_correlation_failed");
}

// INV-2, INV-7, INV-8: the process dies at its n-th write, for every n, before and after it lands.
#[tokio::test(start_paused = true)]
async fn an_early_signal_is_kept_and_taken_wherever_the_process_dies() {
    let mut reached = 0;
    for n in 1.. {
        let mut fired = false;
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let (store, log) = (TestStore::new(), Log::default());
            let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
            let doors = [Door::shut(), Door::shut()];
            let build = |door| early(&held(&log, door, Signal::new("ok")), WhileSuspended::Queue);
            let dying = build(&doors[0]).open_shared(failing.clone(), failing.clone()).unwrap();
            drop(tokio::time::timeout(Duration::from_secs(60), drive(&dying, &doors[0])).await);
            let after = store.reopen();
            dying.shutdown(Duration::from_secs(5)).await;
            let chat = build(&doors[1]).open(after.clone()).unwrap();
            doors[1].open();
            chat.sweep().await.unwrap();
            let told = drive(&chat, &doors[1]).await;
            let place = format!("write {n}, {land:?}");
            assert_eq!(told, "completed 3.3 [a:done]", "{place}");
            assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done"], "{place}");
            assert_eq!(after.read_early_signals(&name("s")).await.unwrap(), [], "{place}");
            check_rows(&after, "s").await;
            fired |= failing.fired();
        }
        if !fired {
            break;
        }
        reached = n;
    }
    // Accept, keep, ask, suspend and take, end.
    assert!(reached >= 5, "{reached} writes");
}

/// Sends, signals early if it can, and follows to the end. Repeating a request finds the earlier result.
async fn drive(chat: &Chat, door: &Door) -> String {
    let Ok(turn) = chat.session("s").submit(user("m"), key("m")).await else { return "refused".into() };
    if chat.signal(at("s", "ok"), approve(true)).await.is_err() {
        return "refused".into();
    }
    door.open();
    turn.outcome().await;
    match chat.signal(at("s", "ok"), approve(true)).await {
        Ok(delivered) => resumed(delivered).await.1,
        Err(errored) => errored.into_errored_turn().error_category,
    }
}

// INV-7, INV-8: a signal against the suspension on it: early or in time, it resumes once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_signal_and_the_suspension_on_it_either_may_come_first() {
    let rounds = 200;
    let (mut early_ones, mut in_time) = (0, 0);
    for round in 0..rounds {
        let store = TestStore::new();
        let (chat, door) = open(Signal::new("ok"), store.clone());
        let turn = begin(&chat, &door).await;
        let barrier = Arc::new(Barrier::new(2));
        let (other, theirs) = (chat.clone(), barrier.clone());
        let signalled = tokio::spawn(async move {
            theirs.wait().await;
            for _ in 0..round % 16 {
                tokio::task::yield_now().await;
            }
            other.signal(at("s", "ok"), approve(true)).await.unwrap()
        });
        barrier.wait().await;
        door.open();
        match signalled.await.unwrap() {
            SignalDelivery::Kept { .. } => early_ones += 1,
            SignalDelivery::Resumed(_) => in_time += 1,
        }
        turn.outcome().await;
        let (_, told) = resumed(chat.signal(at("s", "ok"), approve(true)).await.unwrap()).await;
        assert_eq!(told, "completed 3.3 [a:done]");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done"]);
        assert_eq!(store.read_early_signals(&name("s")).await.unwrap(), []);
        check_rows(&store, "s").await;
    }
    assert!(early_ones > 0 && in_time > 0, "early {early_ones}, in time {in_time}");
}

// D20: a signal whose record failed is not said to be kept; the same again is.
#[tokio::test]
async fn a_signal_that_cannot_be_kept_is_refused_and_may_come_again() {
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let (sky, door) = (crate::sky::Sky::over(TestStore::new()), Door::shut());
        let graph = held(&Log::default(), &door, Signal::new("ok"));
        let chat = early(&graph, WhileSuspended::Queue).open(sky.clone()).unwrap();
        let turn = begin(&chat, &door).await;
        sky.fail(1, 1, land);
        assert_eq!(refused(&chat, at("s", "ok"), approve(true)).await, "store_unavailable");
        chat.signal(at("s", "ok"), approve(true)).await.unwrap();
        door.open();
        turn.outcome().await;
        let (_, told) = resumed(chat.signal(at("s", "ok"), approve(true)).await.unwrap()).await;
        assert_eq!(told, "completed 3.3 [a:done]");
    }
}
