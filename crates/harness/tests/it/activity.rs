//! How far open turns are: told while they run, read at any time, stored nowhere (D36).

use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use futures_util::StreamExt;
use singletree_durable::Timestamp;
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    Chat, ChatEvent, ChatEventKind, TurnActivity, TurnActivityState, TurnContext, TurnId, WhileSuspended,
};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, agent, approve, asking, at, chain, chat_of, plain, says, user,
};

type Listening = Pin<Box<dyn Stream<Item = singletree_harness::Result<ChatEvent>> + Send>>;

async fn listen(chat: &Chat) -> Listening {
    Box::pin(chat.session("s").events().stream().await.unwrap())
}

/// Writes an event in one line: whether it is kept, its type, and its activity or thinking.
fn told(event: &ChatEvent) -> String {
    let kept = if event.id.is_some() { "kept" } else { "-" };
    let more = match &event.what {
        ChatEventKind::TurnRetrying { attempt, until, category } => {
            format!(" {attempt} {} {category}", until.as_millis())
        }
        ChatEventKind::ThinkingDelta { id, run, n, text, so_far } => {
            format!(" {} {run}.{n} {text} {so_far}", id.k)
        }
        ChatEventKind::Delta { run, n, text, so_far, .. } => format!(" {run}.{n} {text} {so_far}"),
        _ => String::new(),
    };
    format!("{kept} {}{more}", event.what.as_str())
}

async fn take(events: &mut Listening, count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(told(&events.next().await.unwrap().unwrap()));
    }
    taken
}

/// A graph whose model fails once, thinks, and says half an answer.
fn struggling(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            let turn = TurnContext::of(&cx).unwrap();
            let stream = turn.stream();
            door.pass().await;
            stream.show_retry_wait(2, Duration::from_secs(40), "provider_rate_limit");
            door.pass().await;
            stream.show_retry_start();
            let message = stream.begin_message(1);
            message.show_thinking_piece("let me");
            message.show_thinking_piece(" see");
            message.show_text_piece("half");
            door.pass().await;
            message.show_thinking_piece(" now");
            Ok(says("half"))
        }
    });
    chain(builder, &["n"])
}

fn activity(chat: &Chat, turn: &TurnId) -> Option<(&'static str, i64)> {
    chat.activity(turn).map(|activity| (activity.state.as_str(), activity.since.as_millis()))
}

#[tokio::test(start_paused = true)]
async fn a_turn_tells_that_it_starts_retries_and_thinks_and_a_late_listener_is_told_the_last_of_each() {
    let door = Door::shut();
    let chat = chat_of(&struggling(&door)).clock(TokioClock::new()).open(TestStore::new()).unwrap();
    let mut live = listen(&chat).await;
    let turn = chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    assert_eq!(take(&mut live, 2).await, ["kept turn.accepted", "- turn.started"]);
    let second = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    assert_eq!(activity(&chat, turn.id()), Some(("running", 1_000_000)));
    assert_eq!(activity(&chat, second.id()), Some(("queued", 1_000_000)));
    assert_eq!(take(&mut live, 1).await, ["kept turn.accepted"]);
    let accepted = ["kept turn.accepted", "kept turn.accepted"].map(str::to_owned);
    let so_far = async |more: &[&str]| {
        let mut late = listen(&chat).await;
        let heard = take(&mut late, 2 + more.len()).await;
        assert_eq!(heard[..2], accepted);
        assert_eq!(heard[2..], *more);
        late
    };
    drop(so_far(&["- turn.started"]).await);
    tokio::time::advance(Duration::from_secs(1)).await;
    door.open_once();
    door.somebody().await;
    let retrying = "- turn.retrying 2 1041000 provider_rate_limit";
    assert_eq!(take(&mut live, 1).await, [retrying]);
    drop(so_far(&[retrying]).await);
    let state = TurnActivityState::Retrying {
        attempt: 2,
        until: Timestamp::from_millis(1_041_000),
        category: "provider_rate_limit".into(),
    };
    let since = Timestamp::from_millis(1_001_000);
    assert_eq!(chat.activity(turn.id()), Some(TurnActivity { state, since }));
    let info = chat.session("s").turn_info(turn.id()).await.unwrap();
    assert_eq!(info.activity, chat.activity(turn.id()));
    tokio::time::advance(Duration::from_secs(40)).await;
    door.open_once();
    door.somebody().await;
    assert_eq!(activity(&chat, turn.id()), Some(("running", 1_041_000)));
    assert_eq!(
        take(&mut live, 3).await,
        [
            "- thinking.delta 1 1.0 let me false",
            "- thinking.delta 1 1.1  see false",
            "- delta 1.0 half false"
        ]
    );
    let mut late =
        so_far(&["- turn.started", "- thinking.delta 1 1.1 let me see true", "- delta 1.0 half true"]).await;
    door.open();
    let rest = ["- thinking.delta 1 1.2  now false", "kept message.appended", "kept turn.completed"];
    assert_eq!(take(&mut late, 3).await, rest);
    assert_eq!(take(&mut live, 3).await, rest);
    assert_eq!(take(&mut live, 1).await, ["- turn.started"]);
    second.outcome().await;
    assert_eq!([turn.id(), second.id()].map(|id| chat.activity(id)), [None, None]);
    let info = chat.session("s").turn_info(turn.id()).await.unwrap();
    assert_eq!(info.activity, None);
}

#[tokio::test]
async fn a_turn_that_a_dead_process_left_is_restarted() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = chat_of(&struggling(&door)).open(store.clone()).unwrap();
    chat.session("s").submit(user("m"), Default::default()).await.unwrap();
    door.somebody().await;
    let chat = chat_of(&plain(&Log::default())).open(store.reopen()).unwrap();
    let mut live = listen(&chat).await;
    assert_eq!(take(&mut live, 1).await, ["kept turn.accepted"]);
    chat.sweep().await.unwrap();
    let rest = ["- turn.restarted", "kept message.appended", "kept turn.completed"];
    assert_eq!(take(&mut live, 3).await, rest);
}

#[tokio::test]
async fn a_turn_that_answers_a_wait_starts_once_the_wait_is_claimed_and_a_parked_one_waits() {
    let graph = asking(&Log::default(), Signal::new("ok"));
    let agent = agent(&graph, singletree_harness::Durability::Step).while_suspended(WhileSuspended::Queue);
    let chat = Chat::builder().agent(agent).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    let mut live = listen(&chat).await;
    take(&mut live, 3).await;
    let parked = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    assert_eq!(take(&mut live, 1).await, ["kept turn.accepted"]);
    assert_eq!(chat.activity(parked.id()).map(|activity| activity.state), Some(TurnActivityState::Waiting));
    chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    assert_eq!(
        take(&mut live, 5).await,
        [
            "kept signal.received",
            "- turn.started",
            "kept message.appended",
            "kept turn.completed",
            "- turn.started"
        ]
    );
}
