//! Ends that could not be recorded: the result is kept, and is recorded when the store works again (D20, D38).

use std::time::Duration;

use futures_util::StreamExt;
use singletree_durable::JournalRead;
use singletree_engine::Signal;
use singletree_harness::{Chat, ChatTurnOutcome, Durability, SendOptions, WhileSuspended};
use singletree_store_testing::FailedWriteEffect;
use singletree_test_store::TestStore;

use crate::bench::{
    Log, agent, approve, asking, at, category, chat_of, check_rows, history, line, plain, user,
};
use crate::doctor::sound;
use crate::sky::Sky;

fn unrecorded(outcome: &ChatTurnOutcome) -> bool {
    let ChatTurnOutcome::Errored(errored) = outcome else { return false };
    let category = errored.error_category.as_str();
    assert!(["session_save_failed", "store_full"].contains(&category) && !errored.retry_safe, "{errored:?}");
    !errored.recorded
}

// D38: who waits is told that it is not recorded; the reply is told when it is.
#[tokio::test(start_paused = true)]
async fn a_finished_reply_is_recorded_when_the_store_works_again() {
    let both = [Durability::Turn, Durability::Step];
    for (durability, is_full) in both.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (sky, log) = (Sky::over(TestStore::new()), Log::default());
        let chat = Chat::builder().agent(agent(&plain(&log), durability)).open(sky.clone()).unwrap();
        if is_full {
            sky.fill(2, 10_000);
        } else {
            sky.fail(2, 10_000, FailedWriteEffect::Before);
        }
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        assert!(unrecorded(turn.outcome().await.as_ref()), "{durability:?}");
        // Longer than any budget of the turn: it has ended, and only waits to be recorded.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        sky.clear();
        let next = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
        assert_eq!(line(next.outcome().await.as_ref()), "completed 3.2 [a:hello]", "{durability:?}");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:hello", "u:n", "a:hello"], "{durability:?}");
        assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.1 [a:hello]", "{durability:?}");
        let stored = chat.turn(turn.id()).await.unwrap().outcome().await;
        assert_eq!(line(stored.as_ref()), "completed 3.1 [a:hello]", "{durability:?}");
        assert_eq!(log.all().len(), 2, "{durability:?}: nothing runs twice");
        check_rows(&sky, "s").await;
        sound(&sky.store).await;
    }
}

// D38: one failure is bridged: nobody hears of it.
#[tokio::test(start_paused = true)]
async fn an_end_whose_first_commit_fails_is_told_as_it_ended() {
    for (write, land) in [(2, FailedWriteEffect::Before), (2, FailedWriteEffect::After)] {
        let sky = Sky::over(TestStore::new());
        let agent = agent(&plain(&Log::default()), Durability::Turn);
        let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
        sky.fail(write, 1, land);
        assert_eq!(line(&chat.session("s").send(user("m")).await), "completed 3.1 [a:hello]", "{land:?}");
        check_rows(&sky, "s").await;
    }
}

// D38, INV-7: also a suspension, and the end of a wait by a signal that came early.
#[tokio::test(start_paused = true)]
async fn a_suspension_is_recorded_when_the_store_works_again() {
    for early in [false, true] {
        let sky = Sky::over(TestStore::new());
        let graph = asking(&Log::default(), Signal::new("ok"));
        let agent = agent(&graph, Durability::Turn).early_signals(["ok"]);
        let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
        chat.create_session(singletree_harness::CreateOptions::new().session("s")).await.unwrap();
        if early {
            chat.signal(at("s", "ok"), approve(true)).await.unwrap();
        }
        sky.fail(2, 5, FailedWriteEffect::Before);
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        assert!(unrecorded(turn.outcome().await.as_ref()), "early: {early}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(turn.outcome().await.as_str(), "suspended", "early: {early}");
        if !early {
            chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
        }
        assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done"], "early: {early}");
        check_rows(&sky, "s").await;
    }
}

// D20, D38, INV-7: the turn that an answer starts has a row of its own, which is not the one that was suspended.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_answered_turn_is_told_and_recorded_when_the_store_works_again() {
    let sky = Sky::over(TestStore::new());
    let agent = agent(&asking(&Log::default(), Signal::new("ok")), Durability::Turn);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "suspended");
    // The claim lands, the end does not.
    sky.fail(2, 10_000, FailedWriteEffect::Before);
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(60), turn.outcome()).await;
    assert!(unrecorded(told.expect("it is told").as_ref()));
    sky.clear();
    // Its turn comes when the one before it is recorded.
    assert_eq!(chat.session("s").send(user("n")).await.as_str(), "suspended");
    assert_eq!(turn.outcome().await.as_str(), "completed");
    assert_eq!(history(&chat, "s").await[..3], ["u:m", "a:ask", "a:done"]);
    check_rows(&sky, "s").await;
}

// D20, D38: the end lands, its reply is lost, and the store cannot be read: another attempt would be refused, and nobody
// would hear of the end. Found by the simulation (seed 66).
#[tokio::test(start_paused = true)]
async fn an_end_whose_reply_is_lost_while_nothing_can_be_read_is_told_to_whoever_listens() {
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
    sky.fail(2, 1, FailedWriteEffect::After);
    let turn = chat.session("s").submit(user("m"), SendOptions::new().listen()).await.unwrap();
    sky.blind();
    let events = turn.events();
    tokio::time::sleep(Duration::from_secs(60)).await;
    sky.clear();
    let events: Vec<_> =
        tokio::time::timeout(Duration::from_secs(3600), events.collect()).await.expect("they end");
    let told = events
        .iter()
        .filter_map(|event| event.as_ref().unwrap().what.outcome())
        .map(|end| line(end.as_ref()));
    assert_eq!(told.collect::<Vec<_>>(), ["completed 3.1 [a:hello]"]);
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.1 [a:hello]");
    check_rows(&sky, "s").await;
}

// D20: the same for the end of a turn that does not run. Found by the simulation (seed 11492).
#[tokio::test(start_paused = true)]
async fn a_cancel_whose_reply_is_lost_while_nothing_can_be_read_is_told_to_whoever_listens() {
    let sky = Sky::over(TestStore::new());
    let agent = agent(&asking(&Log::default(), Signal::new("ok")), Durability::Turn)
        .while_suspended(WhileSuspended::Queue);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "suspended");
    let turn = chat.session("s").submit(user("n"), SendOptions::new().listen()).await.unwrap();
    let mut events = Box::pin(turn.events());
    assert_eq!(events.next().await.unwrap().unwrap().what.as_str(), "turn.accepted");
    sky.fail(1, 1, FailedWriteEffect::After);
    sky.hold();
    let cancelling = tokio::spawn({
        let (chat, id) = (chat.clone(), turn.id().clone());
        async move { chat.cancel(&id).await.map(drop) }
    });
    sky.holds(1).await;
    sky.blind();
    sky.release();
    tokio::time::sleep(Duration::from_secs(60)).await;
    sky.clear();
    let rest: Vec<_> =
        tokio::time::timeout(Duration::from_secs(3600), events.collect()).await.expect("they end");
    let told = rest.iter().filter_map(|event| event.as_ref().unwrap().what.outcome());
    assert_eq!(told.map(|end| category(end.as_ref())).collect::<Vec<_>>(), ["chat_turn_cancelled"]);
    cancelling.await.unwrap().unwrap();
    check_rows(&sky, "s").await;
}

// D20, INV-7: the claim lands, its reply is lost, and the store cannot be read: the turn that it has started runs all the
// same, and the same answer again finds it. Found by the simulation (seed 6593).
#[tokio::test(start_paused = true)]
async fn an_answer_whose_reply_is_lost_while_nothing_can_be_read_is_carried_out() {
    let sky = Sky::over(TestStore::new());
    let agent = agent(&asking(&Log::default(), Signal::new("ok")), Durability::Turn);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "suspended");
    sky.fail(1, 1, FailedWriteEffect::After);
    sky.hold();
    let answering = tokio::spawn({
        let chat = chat.clone();
        async move { chat.answer(at("s", "ok"), approve(true)).await }
    });
    sky.holds(1).await;
    sky.blind();
    sky.release();
    assert_eq!(answering.await.unwrap().unwrap_err().category(), "store_unavailable");
    tokio::time::sleep(Duration::from_secs(60)).await;
    sky.clear();
    let again = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(3600), again.outcome()).await;
    assert_eq!(ended.expect("it runs").as_str(), "completed");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:ask", "a:done"]);
    check_rows(&sky, "s").await;
}

// The same when the read takes longer than one may. Found by the simulation (seed 1235).
#[tokio::test(start_paused = true)]
async fn an_answer_whose_reply_is_lost_while_a_read_hangs_is_carried_out() {
    let sky = Sky::over(TestStore::new());
    let agent = agent(&asking(&Log::default(), Signal::new("ok")), Durability::Turn);
    let chat = Chat::builder().agent(agent).open(sky.clone()).unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "suspended");
    sky.fail(1, 1, FailedWriteEffect::After);
    sky.linger(JournalRead::Events);
    let answered = chat.answer(at("s", "ok"), approve(true)).await;
    assert_eq!(answered.unwrap_err().category(), "store_unavailable");
    sky.arrive();
    sky.clear();
    let again = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(3600), again.outcome()).await;
    assert_eq!(ended.expect("it runs").as_str(), "completed");
    check_rows(&sky, "s").await;
}

// C, low; harness-chat §10.1: a session is given up when it cannot be read, not when one read has failed.
#[tokio::test(start_paused = true)]
async fn one_failed_read_ends_no_conversation() {
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let next = chat_of(&plain(&Log::default())).open(sky.clone()).unwrap();
    sky.blind();
    let sent = tokio::spawn({
        let next = next.clone();
        async move { next.session("s").send(user("n")).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    sky.clear();
    assert_eq!(line(&sent.await.unwrap()), "completed 3.2 [a:hello]");
    sky.blind();
    let failed =
        chat_of(&plain(&Log::default())).open(sky.clone()).unwrap().session("s").send(user("o")).await;
    assert_eq!(category(&failed), "session_load_failed");
}
