//! The store fails, and works again (D20).

use std::sync::Arc;

use futures_util::StreamExt;
use singletree_engine::Signal;
use singletree_harness::{Chat, ChatEventKind, ChatTurnOutcome, Durability, Limits, WhileSuspended};
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, agent, approve, asking, at, calling, category, chain, chat_of, check_rows, gate, history, key,
    line, plain, say, says, user,
};
use crate::narration::Told;
use crate::sky::Sky;

// D20: refused before acceptance; the same again is accepted when the store works.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_accept_leaves_nothing() {
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
    sky.fail(1, 1, FailedWriteEffect::Before);
    let refused = chat.session("s").submit(user("m"), key("k")).await.unwrap_err().into_errored_turn();
    let seen = (refused.error_category.as_str(), refused.error_bucket.as_str(), refused.retry_safe);
    assert_eq!(seen, ("chat_accept_failed", "retryable_transient", true));
    sky.blind();
    let refused = chat.session("s").submit(user("m"), key("k")).await.unwrap_err().into_errored_turn();
    // A session that cannot be read is a failed load, also here (harness-chat §10.1).
    assert_eq!(refused.error_category, "session_load_failed");
    sky.clear();
    assert_eq!(line(&chat.session("s").send_with(user("m"), key("k")).await), "completed 3.1 [a:hello]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:hello"]);
    check_rows(&sky, "s").await;
}

// D38: an accept of which it is not known whether it will be there after a restart is never told as refused, and is
// safe to send again with a key only.
#[tokio::test(start_paused = true)]
async fn a_commit_that_may_still_surface_is_told_as_unknown_and_safe_to_send_again_with_a_key_only() {
    for (options, retry_safe) in [(key("k"), true), (Default::default(), false)] {
        let sky = Sky::over(TestStore::new());
        let chat = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
        sky.fail_in_doubt();
        let unknown = chat.session("s").submit(user("m"), options).await.unwrap_err().into_errored_turn();
        let seen = (unknown.error_category.as_str(), unknown.error_bucket.as_str());
        assert_eq!(seen, ("chat_accept_unknown", "retryable_transient"));
        assert_eq!((unknown.retry_safe, unknown.recorded, unknown.turn.is_some()), (retry_safe, false, true));
        sky.clear();
        assert_eq!(line(&chat.session("s").send_with(user("m"), key("k")).await), "completed 3.1 [a:hello]");
        check_rows(&sky, "s").await;
    }
}

// D20: an accept whose answer was lost, and that cannot be looked up at once, is told like any other once it is known.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_found_accepted_later_is_told_to_listeners_before_its_turn_runs() {
    let sky = Sky::over(TestStore::new());
    let told = Arc::new(Told::default());
    let narrated = || told.0.lock().unwrap().len();
    let chat = chat_of(&plain(&Log::default())).narration(told.clone()).open(sky.clone()).unwrap();
    chat.session("s").send(user("one")).await;
    let mut events = Box::pin(chat.session("s").events().stream().await.unwrap());
    while !matches!(events.next().await.unwrap().unwrap().what, ChatEventKind::TurnCompleted { .. }) {}
    let before = narrated();
    sky.fail(1, 1, FailedWriteEffect::After);
    sky.blind();
    let unknown =
        chat.session("s").submit(user("two"), Default::default()).await.unwrap_err().into_errored_turn();
    assert_eq!(unknown.error_category, "chat_accept_unknown");
    sky.clear();
    let mut heard = Vec::new();
    while heard.last() != Some(&"turn.completed") {
        heard.push(events.next().await.unwrap().unwrap().what.as_str());
    }
    assert_eq!(heard, ["turn.accepted", "turn.started", "message.appended", "turn.completed"]);
    assert_eq!(narrated(), 2 * before, "it is narrated as the turn before");
    assert_eq!(history(&chat, "s").await, ["u:one", "a:hello", "u:two", "a:hello"]);
    check_rows(&sky, "s").await;
}

// D20: a write that landed counts, although its answer was lost.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_write_that_landed_changes_nothing() {
    for write in 1..=8 {
        let (sky, log) = (Sky::over(TestStore::new()), Log::default());
        let graph = asking(&log, Signal::new("ok"));
        let chat = chat_of(&graph).open(sky.clone()).unwrap();
        sky.fail(write, 1, FailedWriteEffect::After);
        let outcome = chat.session("s").send(user("m")).await;
        let stepped = category(&outcome) == "checkpoint_save_failed";
        if !stepped {
            assert_eq!(line(&outcome), "suspended 3.1 ok [a:ask]", "write {write}");
            let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
            assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]", "write {write}");
        }
        check_rows(&sky, "s").await;
        assert!(log.all().len() <= 3, "nothing runs twice: {:?}", log.all());
    }
}

// D20: the caller is told, nothing is run twice, and the session goes on when the store does.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_in_a_turn_is_told_and_the_turn_is_closed_later() {
    for durability in [Durability::Turn, Durability::Step] {
        for (write, land) in
            (2..=4).flat_map(|it| [(it, FailedWriteEffect::Before), (it, FailedWriteEffect::After)])
        {
            let (sky, log) = (Sky::over(TestStore::new()), Log::default());
            let graph = chain(
                say(say(singletree_engine::Graph::builder(), &log, "one"), &log, "two"),
                &["one", "two"],
            );
            let chat = Chat::builder().agent(agent(&graph, durability)).open(sky.clone()).unwrap();
            sky.fail(write, 1000, land);
            let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
            let outcome = turn.outcome().await;
            let place = format!("{durability:?}, write {write}, {land:?}");
            if let ChatTurnOutcome::Errored(errored) = outcome.as_ref()
                && !errored.recorded
            {
                let seen = (errored.error_category.as_str(), errored.retry_safe, errored.turn.as_ref());
                assert_eq!(seen, ("session_save_failed", false, Some(turn.id())), "{place}");
            }
            sky.clear();
            let next = chat.session("s").send(user("o")).await;
            assert_eq!(next.as_str(), "completed", "{place}: {next:?}");
            let stored = chat.turn(turn.id()).await.unwrap().outcome().await;
            assert!(stored.as_str() != "suspended", "{place}");
            check_rows(&sky, "s").await;
            let ones = log.all().iter().filter(|it| *it == "one").count();
            assert!(ones <= 2, "{place}: {:?}", log.all());
        }
    }
}

// D10, D20: a cancel that comes while the end is being written waits for it, and who listens hears of it.
#[tokio::test]
async fn a_cancel_during_a_commit_does_not_tear_it() {
    let sky = Sky::over(TestStore::in_memory("it counts the steps of tasks"));
    let door = Door::shut();
    let at_door = door.clone();
    let builder = singletree_engine::Graph::builder().node("ask", move |_| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("ask"))
        }
    });
    let builder = say(gate(builder, &Log::default(), Signal::new("ok")), &Log::default(), "done");
    let graph = chain(builder, &["ask", "gate", "done"]);
    let agent = agent(&graph, Durability::Turn).while_suspended(WhileSuspended::Queue);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    sky.hold();
    door.open();
    sky.holds(1).await;
    let events = tokio::spawn({
        let turn = turn.clone();
        async move {
            use futures_util::StreamExt;
            turn.events().count().await
        }
    });
    let cancelled = tokio::spawn({
        let (chat, id) = (chat.clone(), turn.id().clone());
        async move { chat.cancel(&id).await.unwrap() }
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    sky.release();
    cancelled.await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "suspended 3.1 ok [a:ask]");
    assert_eq!(events.await.unwrap(), 3);
    let parked = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(resumed.outcome().await.as_ref()), "completed 3.3 [a:done]");
    assert_eq!(line(parked.outcome().await.as_ref()), "suspended 3.2 ok [a:ask]");
}

// D20: an answer whose claim fails consumes nothing, and names the failure.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_a_claim_consumes_nothing() {
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&calling(&Log::default(), Signal::new("ok"))).open(sky.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    sky.fail(1, 1, FailedWriteEffect::Before);
    let refused = chat.answer(at("s", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "store_unavailable");
    assert_eq!(chat.pending(9).await.unwrap().len(), 1);
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [t:c1=ok, a:done]");
}

// INV-12: a field that is too long ends the turn, and is stored nowhere.
#[tokio::test]
async fn a_field_has_a_length() {
    let builder = singletree_engine::Graph::builder()
        .node("n", |_| async { Ok(crate::bench::Talk::update().words(vec!["x".repeat(100)])) });
    let limits = Limits { field_bytes: 64, ..Limits::default() };
    let chat = chat_of(&chain(builder, &["n"])).limits(limits).open(TestStore::new()).unwrap();
    assert_eq!(category(&chat.session("s").send(user("m")).await), "chat_budget_exhausted");
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
}
