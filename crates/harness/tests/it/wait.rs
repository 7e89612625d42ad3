//! Waits and their ends (D1, D2, D5, suspension, harness-chat §8).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_engine::Signal;
use singletree_harness::{Chat, ChatTurnOutcome, Durability, SignalAddress, TurnId, WhileSuspended};
use singletree_test_store::TestStore;
use tokio::sync::Barrier;

use crate::bench::{
    Log, TokioClock, agent, approve, asking, at, category, chat_of, check_rows, fields, history, line, name,
    user,
};

fn open(policy: WhileSuspended, store: TestStore) -> Chat {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let agent = agent(&graph, Durability::Step).while_suspended(policy);
    Chat::builder().agent(agent).open(store).unwrap()
}

// D1
#[tokio::test]
async fn a_send_while_suspended_is_refused_when_it_comes_to_the_head() {
    let store = TestStore::new();
    let chat = open(WhileSuspended::Reject, store.clone());
    let session = chat.session("s");
    let (first, second) = tokio::join!(session.send(user("m")), session.send(user("n")));
    assert_eq!(line(&first), "suspended 3.1 ok [a:ask]");
    let ChatTurnOutcome::Errored(refused) = second else { panic!("{second:?}") };
    assert_eq!(refused.error_category, "chat_session_suspended");
    assert_eq!(refused.error_bucket.as_str(), "user_correctable");
    assert!(refused.diagnostic.contains("ok"), "it names the waits: {}", refused.diagnostic);
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask"]);
    check_rows(&store, "s").await;
}

// D1: the end of the wait goes before messages that are parked behind it.
#[tokio::test]
async fn a_parked_send_runs_after_the_resume_also_in_another_process() {
    for restart in [false, true] {
        let store = TestStore::new();
        let mut chat = open(WhileSuspended::Queue, store.clone());
        chat.session("s").send(user("m")).await;
        let parked = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
        let id = parked.id().clone();
        if restart {
            chat = open(WhileSuspended::Queue, store.reopen());
            assert_eq!(chat.sweep().await.unwrap().len(), 1);
        }
        let parked = chat.turn(&id).await.unwrap();
        let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
        assert_eq!(line(resumed.outcome().await.as_ref()), "completed 3.3 [a:done]");
        assert_eq!(line(parked.outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done", "u:n", "a:ask"]);
    }
}

// D1
#[tokio::test]
async fn a_parked_send_runs_after_the_wait_is_cancelled() {
    let store = TestStore::new();
    let chat = open(WhileSuspended::Queue, store.clone());
    let first = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    first.outcome().await;
    let parked = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    let closing = chat.cancel(first.id()).await.unwrap();
    assert_eq!(line(closing.outcome().await.as_ref()), "errored chat_turn_cancelled");
    assert_eq!(line(parked.outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
    check_rows(&store, "s").await;
}

// D1
#[tokio::test]
async fn a_send_may_supersede_the_wait() {
    let store = TestStore::new();
    let chat = open(WhileSuspended::Supersede, store.clone());
    chat.session("s").send(user("m")).await;
    assert_eq!(line(&chat.session("s").send(user("n")).await), "suspended 3.2 ok [a:ask]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "u:n", "a:ask"]);
    assert_eq!(chat.pending(10).await.unwrap().len(), 1);
    check_rows(&store, "s").await;
}

// D2
#[tokio::test]
async fn a_signal_is_addressed_in_three_ways() {
    let chat = open(WhileSuspended::Reject, TestStore::new());
    for session in ["a", "b"] {
        chat.session(session).send(user("m")).await;
    }
    let pending = chat.session("a").pending().await.unwrap();
    let answered =
        chat.answer(SignalAddress::Signal("ok".into()), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(answered.error_category, "harness_signal_correlation_failed");
    let invocation = SignalAddress::Invocation(pending[0].invocation.clone());
    let turn = chat.answer(invocation, approve(true)).await.unwrap();
    assert_eq!((turn.session(), turn.id().ordinal), ("a", 1));
    turn.outcome().await;
    let turn = chat.answer(SignalAddress::Signal("ok".into()), approve(true)).await.unwrap();
    assert_eq!(turn.session(), "b");
    turn.outcome().await;
    for address in [at("a", "other"), at("c", "ok"), SignalAddress::Signal("ok".into())] {
        let refused = chat.answer(address, approve(true)).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "harness_signal_correlation_failed");
    }
}

// D2, INV-7
#[tokio::test]
async fn an_approval_needs_the_number_and_the_digest_of_the_action() {
    let signal = Signal::new("ok").approves("d1");
    let chat = chat_of(&asking(&Log::default(), signal)).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    let no = chat.pending(1).await.unwrap()[0].wait.no;
    let wrong = [
        approve(true),
        approve(true).to(no, "d2"),
        approve(true).to(no + 1, "d1"),
        approve(true).to(no + 1, ""),
    ];
    for answer in wrong.clone() {
        let refused = chat.answer(at("s", "ok"), answer).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "chat_signal_mismatch");
        assert_eq!(refused.error_bucket.as_str(), "user_correctable");
    }
    let turn = chat.answer(at("s", "ok"), approve(true).to(no, "d1")).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    for answer in wrong {
        let refused = chat.answer(at("s", "ok"), answer).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "chat_signal_mismatch");
    }
}

// D2, suspension §9
#[tokio::test]
async fn a_payload_that_does_not_fit_consumes_nothing() {
    let schema = json!({ "type": "object", "required": ["approved"] });
    let signal = Signal::new("ok").payload_schema(schema);
    let chat = chat_of(&asking(&Log::default(), signal)).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    let answer = |pairs: &[(&str, serde_json::Value)]| singletree_harness::Answer::new(fields(pairs));
    let long = "x".repeat(300 << 10);
    for bad in [
        answer(&[]),
        answer(&[("approved", json!("maybe"))]),
        answer(&[("approved", json!(true)), ("messages", json!([]))]),
        answer(&[("approved", json!(true)), ("text", json!(long))]),
    ] {
        let refused = chat.answer(at("s", "ok"), bad).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "suspension_resume_payload_invalid");
        assert_eq!(chat.pending(10).await.unwrap().len(), 1);
    }
    let turn = chat.answer(at("s", "ok"), approve(false)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:not done]");
}

// D2, INV-7
#[tokio::test]
async fn the_same_answer_again_is_the_same_turn_and_another_one_is_a_conflict() {
    let store = TestStore::new();
    let mut chat = open(WhileSuspended::Reject, store.clone());
    chat.session("s").send(user("m")).await;
    let turn = chat.answer(at("s", "ok"), approve(true).from("ann")).await.unwrap();
    turn.outcome().await;
    for again in 0..2 {
        let same = chat.answer(at("s", "ok"), approve(true).from("bob")).await.unwrap();
        assert_eq!(same.id(), turn.id());
        // Who answered, and when, is recorded of the first one.
        let query = singletree_durable::WaitRowQuery::Signal(name("s"), "ok".into());
        let wait = singletree_durable::Journal::read_waits(&store, &query).await.unwrap().remove(0).1;
        assert_eq!((wait.answered_by.as_deref(), wait.ended_at.is_some()), (Some("ann"), true));
        assert_eq!(line(same.outcome().await.as_ref()), "completed 3.3 [a:done]");
        let other = chat.answer(at("s", "ok"), approve(false)).await.unwrap_err().into_errored_turn();
        assert_eq!(other.error_category, "chat_signal_conflict");
        if again == 0 {
            chat = open(WhileSuspended::Reject, store.reopen());
        }
    }
}

// INV-7: two equal approvals at once, one effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_answers_at_once_start_one_turn() {
    for round in 0..60 {
        let log = Log::default();
        let chat = chat_of(&asking(&log, Signal::new("ok"))).open(TestStore::new()).unwrap();
        chat.session("s").send(user("m")).await;
        let barrier = Arc::new(Barrier::new(6));
        let answers: Vec<_> = (0..6)
            .map(|n| {
                let (chat, barrier) = (chat.clone(), barrier.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    let answer = approve(round % 2 == 0 || n % 2 == 0);
                    chat.answer(at("s", "ok"), answer).await.map(|it| it.id().clone())
                })
            })
            .collect();
        let mut won: Vec<TurnId> = Vec::new();
        for answer in answers {
            match answer.await.unwrap() {
                Ok(id) => won.push(id),
                Err(errored) => {
                    assert_eq!(errored.into_errored_turn().error_category, "chat_signal_conflict")
                }
            }
        }
        won.dedup();
        assert_eq!(won.len(), 1, "{won:?}");
        chat.turn(&won[0]).await.unwrap().outcome().await;
        assert_eq!(log.all(), ["ask", "gate", "act"]);
    }
}

fn timed(store: TestStore, clock: &Arc<TokioClock>, signal: Signal) -> Chat {
    chat_of(&asking(&Log::default(), signal)).clock(clock.clone()).open(store).unwrap()
}

const MINUTE: Duration = Duration::from_secs(60);

// D2: deadlines, also after a restart.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_or_goes_on_with_its_values() {
    let with = Signal::new("ok").expires_in(MINUTE).on_deadline(fields(&[("approved", json!(true))]));
    for (signal, tail, answered) in [
        (Signal::new("ok").expires_in(MINUTE), Vec::new(), "chat_signal_expired"),
        (with, vec!["a:done".to_owned()], "chat_signal_expired"),
    ] {
        for restart in [false, true] {
            let (store, clock) = (TestStore::new(), TokioClock::new());
            let mut chat = timed(store.clone(), &clock, signal.clone());
            chat.sweep().await.unwrap();
            chat.session("s").send(user("m")).await;
            if restart {
                chat.shutdown(MINUTE).await;
                tokio::time::sleep(2 * MINUTE).await;
                chat = timed(store.reopen(), &clock, signal.clone());
                chat.sweep().await.unwrap();
                tokio::time::sleep(Duration::from_secs(2)).await;
            } else {
                tokio::time::sleep(MINUTE - Duration::from_secs(1)).await;
                assert_eq!(chat.pending(1).await.unwrap().len(), 1);
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            assert_eq!(chat.pending(1).await.unwrap(), []);
            let expected = [vec!["u:m".to_owned(), "a:ask".to_owned()], tail.clone()].concat();
            assert_eq!(history(&chat, "s").await, expected);
            let late = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
            assert_eq!(late.error_category, answered);
            assert_eq!(line(&chat.session("s").send(user("n")).await), "suspended 3.2 ok [a:ask]");
        }
    }
}

// harness-chat §8.2, D5
#[tokio::test]
async fn a_subscription_is_told_of_each_resumed_turn_once() {
    let chat = open(WhileSuspended::Reject, TestStore::new());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    let subscribed =
        chat.session("s").subscribe(move |it| teller.lock().unwrap().push(line(it.as_ref()))).unwrap();
    let _other = chat.session("s").subscribe(|_| panic!("a listener's panic is its own")).unwrap();
    for n in 0..2 {
        chat.session("s").send(user("m")).await;
        assert_eq!(told.lock().unwrap().len(), n);
        let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
        turn.outcome().await;
        chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    }
    drop(subscribed);
    chat.session("s").send(user("m")).await;
    let turn = chat.answer(at("s", "ok"), approve(false)).await.unwrap();
    turn.outcome().await;
    assert_eq!(*told.lock().unwrap(), ["completed 3.3 [a:done]", "completed 3.3 [a:done]"]);
    assert_eq!(chat.session("").subscribe(|_| {}).unwrap_err().category(), "harness_session_id_unresolved");
}

// D2: first writer wins between an answer and a cancel.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_answer_and_cancel_exactly_one_wins() {
    let (mut answered, mut cancelled) = (0, 0);
    for _ in 0..60 {
        let store = TestStore::new();
        let chat = open(WhileSuspended::Reject, store.clone());
        let first = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
        first.outcome().await;
        let barrier = Arc::new(Barrier::new(2));
        let (a, b, id) = (chat.clone(), barrier.clone(), first.id().clone());
        let cancel = tokio::spawn(async move {
            b.wait().await;
            a.cancel(&id).await.unwrap().outcome().await
        });
        barrier.wait().await;
        let answer = chat.answer(at("s", "ok"), approve(true)).await;
        let cancel = cancel.await.unwrap();
        match answer {
            Ok(turn) => {
                answered += 1;
                assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
                assert_eq!(cancel.as_str(), "suspended", "the cancelled turn ended otherwise");
            }
            Err(errored) => {
                cancelled += 1;
                assert_eq!(errored.into_errored_turn().error_category, "harness_signal_correlation_failed");
                assert_eq!(category(cancel), "chat_turn_cancelled");
            }
        }
        check_rows(&store, "s").await;
    }
    assert_eq!(answered + cancelled, 60);
}
