//! Outcomes of resumed turns for callers who only send (harness-chat §8.2, D21).

use std::sync::{Arc, Mutex};

use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    CatchUpOutcome, Chat, ChatTurnOutcome, DispatchPath, Durability, ResumedReply, WhileSuspended,
};
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, agent, approve, asking, at, chain, gate, key, line, say, says, user};

fn open(reply: ResumedReply, policy: WhileSuspended, store: TestStore) -> Chat {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let agent = agent(&graph, Durability::Step).resumed_reply(reply).while_suspended(policy);
    Chat::builder().agent(agent).open(store).unwrap()
}

async fn send(chat: &Chat, text: &str) -> (Vec<String>, String) {
    let CatchUpOutcome { resumed, outcome } =
        chat.session("s").send_catching_up(user(text), key(text)).await.unwrap();
    for it in &resumed {
        // Each outcome has the path of a resumed turn.
        assert!(
            !matches!(it.as_ref(), ChatTurnOutcome::Completed(it) if it.path != DispatchPath::SignalResume)
        );
    }
    (resumed.iter().map(|it| line(it)).collect(), line(&outcome))
}

async fn resume(chat: &Chat, approved: bool) {
    chat.answer(at("s", "ok"), approve(approved)).await.unwrap().outcome().await;
}

const NEXT: ResumedReply = ResumedReply::NextSend;

#[tokio::test]
async fn the_next_send_returns_the_resumed_outcome_first_and_once() {
    let store = TestStore::new();
    let mut chat = open(NEXT, WhileSuspended::Reject, store.clone());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    let subscribed =
        chat.session("s").subscribe(move |it| teller.lock().unwrap().push(line(it.as_ref()))).unwrap();
    let asked = "suspended 3.2 ok [a:ask]".to_owned();
    assert_eq!(send(&chat, "m1").await, (vec![], "suspended 3.1 ok [a:ask]".into()));
    resume(&chat, true).await;
    assert_eq!(*told.lock().unwrap(), ["completed 3.3 [a:done]"], "the subscription always works");
    drop(subscribed);
    // In the next process as in this one.
    chat = open(NEXT, WhileSuspended::Reject, store.reopen());
    let done = || vec!["completed 3.3 [a:done]".to_owned()];
    assert_eq!(send(&chat, "m2").await, (done(), asked.clone()));
    assert_eq!(send(&chat, "m2").await, (done(), asked.clone()), "the same send again");
    // It is told with one message, whatever becomes of that; here it is refused, since the session waits.
    assert_eq!(send(&chat, "m3").await, (vec![], "errored chat_session_suspended".into()));
    resume(&chat, false).await;
    assert_eq!(send(&chat, "m4").await, (vec!["completed 3.3 [a:not done]".into()], asked));
}

#[tokio::test]
async fn it_is_off_unless_the_agent_turns_it_on() {
    let chat = open(ResumedReply::default(), WhileSuspended::Reject, TestStore::new());
    send(&chat, "m1").await;
    resume(&chat, true).await;
    assert_eq!(send(&chat, "m2").await.0, Vec::<String>::new());
}

#[tokio::test]
async fn waits_that_were_given_up_are_told_too_and_resumed_turns_that_wait_again_are_not() {
    let builder = gate(say(Graph::builder(), &Log::default(), "ask"), &Log::default(), Signal::new("ok"));
    let builder = builder.node("again", |cx: Ctx<Talk>| async move {
        if cx.state().count < 20 {
            cx.suspend(Signal::new("ok").mark_node_completed(false)).await
        } else {
            Ok(says("done"))
        }
    });
    let graph = chain(builder, &["ask", "gate", "again"]);
    let agent = agent(&graph, Durability::Step).resumed_reply(NEXT);
    let chat = Chat::builder().agent(agent).open(TestStore::new()).unwrap();
    let first = chat.session("s").submit(user("m1"), key("m1")).await.unwrap();
    first.outcome().await;
    // More turns than are read at once.
    for count in 1..=20 {
        let fields = crate::bench::fields(&[("count", serde_json::json!(count))]);
        let answer = singletree_harness::Answer::new(fields);
        assert_eq!(
            chat.answer(at("s", "ok"), answer).await.unwrap().outcome().await.as_str(),
            if count < 20 { "suspended" } else { "completed" }
        );
    }
    assert_eq!(send(&chat, "m2").await.0, ["completed 3.3 [a:done]"]);
    let waiting = chat.session("s").pending().await.unwrap();
    let id = singletree_harness::TurnId::new(waiting[0].invocation.clone(), 0);
    let closing = chat.cancel(&id).await.unwrap();
    closing.outcome().await;
    assert_eq!(closing.resumed().await.unwrap(), [], "it answers no message");
    assert_eq!(send(&chat, "m3").await.0, ["errored chat_turn_cancelled"]);
}

// Finding F17; spec: harness-chat §8.2
#[tokio::test]
async fn a_resumed_turn_that_suspends_again_is_told_to_nobody_who_subscribed() {
    let pausing =
        |signal: &'static str| move |cx: Ctx<Talk>| async move { cx.suspend(Signal::new(signal)).await };
    let builder = say(Graph::builder().node("one", pausing("one")), &Log::default(), "between");
    let builder = say(builder.node("two", pausing("two")), &Log::default(), "done");
    let graph = chain(builder, &["one", "between", "two", "done"]);
    let chat = Chat::builder().agent(agent(&graph, Durability::Step)).open(TestStore::new()).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let teller = told.clone();
    let _subscribed =
        chat.session("s").subscribe(move |it| teller.lock().unwrap().push(line(it.as_ref()))).unwrap();
    chat.session("s").send(user("m")).await;
    let paused = chat.answer(at("s", "one"), approve(true)).await.unwrap().outcome().await;
    assert_eq!(line(&paused), "suspended 3.3 two [a:between]");
    assert_eq!(told.lock().unwrap().as_slice(), [] as [&str; 0]);
    let last = chat.answer(at("s", "two"), approve(true)).await.unwrap().outcome().await;
    let mut resumed = Box::pin(chat.session("s").resumed(None).await.unwrap());
    let first = futures_util::StreamExt::next(&mut resumed).await.unwrap().unwrap().1;
    assert_eq!(line(&first), line(&last));
    while told.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(told.lock().unwrap().as_slice(), [line(&last)]);
}
