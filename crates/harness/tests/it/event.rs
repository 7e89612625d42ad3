//! Events: the log, the live events, and no gap between them (D9).

use std::pin::Pin;

use futures_core::Stream;
use futures_util::StreamExt;
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{Chat, ChatEvent, ChatEventId, ChatEventKind, Limits, TurnContext};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, Talk, approve, asking, at, chain, chat_of, line, plain, says, short, user};

pub(crate) type Listening = Pin<Box<dyn Stream<Item = singletree_harness::Result<ChatEvent>> + Send>>;

pub(crate) async fn listen(chat: &Chat, after: Option<u64>) -> Listening {
    let after = after.map(|seq| ChatEventId { epoch: "m0".into(), seq });
    Box::pin(chat.session("s").events().after(after).stream().await.unwrap())
}

/// Writes an event in one line.
pub(crate) fn told(event: &ChatEvent) -> String {
    let id = event.id.as_ref().map_or("-".to_owned(), |it| it.seq.to_string());
    let more = match &event.what {
        ChatEventKind::TurnAccepted { message } => message.as_ref().map(|it| short(it)).unwrap_or_default(),
        ChatEventKind::MessageAppended { id, message, .. } => format!("{} {}", id.k, short(message)),
        ChatEventKind::Delta { run, n, text, so_far, .. } => format!("{run}.{n} {text} {so_far}"),
        ChatEventKind::SignalReceived { signal, how, from, .. } => format!("{signal} {how} {from:?}"),
        other => other.outcome().map(|it| line(it)).unwrap_or_default(),
    };
    format!("{id} {} {more}", event.what.as_str())
}

/// Returns the next event but those of how far a turn is, which have tests of their own.
async fn next(events: &mut Listening) -> ChatEvent {
    loop {
        let event = events.next().await.unwrap().unwrap();
        if !event.what.is_activity() {
            return event;
        }
    }
}

async fn take(events: &mut Listening, count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(told(&next(events).await));
    }
    taken
}

const STORY: [&str; 10] = [
    "0 turn.accepted u:m",
    "1 message.appended 1 a:ask",
    "2 turn.suspended suspended 3.1 ok [a:ask]",
    "3 signal.received ok consumed Some(\"ann\")",
    "4 message.appended 0 a:done",
    "5 turn.completed completed 3.3 [a:done]",
    "6 turn.accepted u:n",
    "7 message.appended 1 a:ask",
    "8 turn.suspended suspended 3.2 ok [a:ask]",
    "9 signal.received ok cancelled None",
];

async fn story(chat: &Chat) {
    chat.session("s").send(user("m")).await;
    let answer = approve(true).from("ann");
    chat.answer(at("s", "ok"), answer).await.unwrap().outcome().await;
    let last = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    last.outcome().await;
    chat.cancel(last.id()).await.unwrap().outcome().await;
}

#[tokio::test]
async fn the_log_is_the_same_live_later_and_after_a_restart() {
    let store = TestStore::new();
    let graph = asking(&Log::default(), Signal::new("ok"));
    let open = |store| chat_of(&graph).open(store).unwrap();
    let chat = open(store.clone());
    let mut live = listen(&chat, None).await;
    let live = tokio::spawn(async move { take(&mut live, 11).await });
    story(&chat).await;
    let whole = take(&mut listen(&chat, None).await, 11).await;
    assert_eq!(whole[..10], STORY);
    assert_eq!(whole[10], "10 turn.errored errored chat_turn_cancelled");
    assert_eq!(live.await.unwrap(), whole);
    for after in 0..10 {
        let chat = open(store.reopen());
        let from = usize::try_from(after).unwrap() + 1;
        assert_eq!(take(&mut listen(&chat, Some(after)).await, 11 - from).await, whole[from..]);
    }
}

#[tokio::test]
async fn a_listener_goes_on_from_the_log_to_what_happens() {
    let store = TestStore::new();
    let graph = plain(&Log::default());
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    chat.session("s").send(user("m")).await;
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    let mut events = listen(&chat, Some(1)).await;
    assert_eq!(take(&mut events, 1).await, ["2 turn.completed completed 3.1 [a:hello]"]);
    chat.session("s").send(user("n")).await;
    assert_eq!(
        take(&mut events, 3).await,
        ["3 turn.accepted u:n", "4 message.appended 1 a:hello", "5 turn.completed completed 3.2 [a:hello]"]
    );
}

#[tokio::test]
async fn a_listener_that_is_too_slow_reads_what_it_missed() {
    let limits = Limits { feed_backlog: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    let mut events = listen(&chat, None).await;
    chat.session("s").send(user("m")).await;
    take(&mut events, 3).await;
    for _ in 0..200 {
        chat.session("s").send(user("m")).await;
    }
    for seq in 3..603 {
        assert_eq!(next(&mut events).await.id.unwrap().seq, seq);
    }
}

#[tokio::test]
async fn another_log_is_told_so() {
    let chat =
        chat_of(&plain(&Log::default())).open(singletree_durable::MemoryStore::with_epoch("new")).unwrap();
    let old: ChatEventId = "m0.7".parse().unwrap();
    let Err(refused) = chat.session("s").events().after(Some(old)).stream().await else {
        panic!("an id of another log")
    };
    assert_eq!(refused.category(), "chat_events_expired");
    assert!(refused.to_string().contains("new.0"), "{refused}");
    assert_eq!("nothing".parse::<ChatEventId>().unwrap_err().category(), "chat_event_unknown");
}

pub(crate) fn streaming(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::builder().node("n", move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            let turn = TurnContext::of(&cx).unwrap();
            let stream = turn.stream();
            stream.show_tool_start("c", "clock", serde_json::json!({}));
            stream.show_tool_end("c", "clock", true, "noon");
            stream.begin_message(1).show_text_piece("wrong");
            let message = stream.begin_message(1);
            message.show_text_piece("ha");
            message.show_text_piece("lf");
            door.pass().await;
            message.show_text_piece(" more");
            Ok(says("half more"))
        }
    });
    chain(builder, &["n"])
}

#[tokio::test]
async fn a_streamed_turn_ends_with_its_outcome_and_who_comes_late_gets_the_text_so_far() {
    let door = Door::shut();
    let chat = chat_of(&streaming(&door)).open(TestStore::new()).unwrap();
    let first = chat.session("s").stream(user("m")).await.unwrap();
    let other = chat.session("s").submit(user("n"), Default::default()).await.unwrap();
    door.somebody().await;
    let mut late = listen(&chat, None).await;
    assert_eq!(
        take(&mut late, 3).await,
        ["0 turn.accepted u:m", "1 turn.accepted u:n", "- delta 2.1 half true"]
    );
    door.open();
    assert_eq!(
        take(&mut late, 3).await,
        [
            "- delta 2.2  more false",
            "2 message.appended 1 a:half more",
            "3 turn.completed completed 3.1 [a:half more]"
        ]
    );
    let outcome = other.outcome().await;
    let first: Vec<_> = first.map(|it| told(&it.unwrap())).collect().await;
    assert_eq!(first.first().unwrap(), "0 turn.accepted u:m");
    assert_eq!(first.last().unwrap(), "3 turn.completed completed 3.1 [a:half more]");
    let other: Vec<_> = other.events().map(|it| it.unwrap()).collect().await;
    assert_eq!(line(other.last().unwrap().what.outcome().unwrap()), line(&outcome));
    assert_eq!(other.iter().filter(|it| it.id.is_some()).count(), 3);
}

#[tokio::test]
async fn a_live_streamed_turn_shows_everything_in_order() {
    let door = Door::shut();
    door.open();
    let chat = chat_of(&streaming(&door)).open(TestStore::new()).unwrap();
    let mut events = listen(&chat, None).await;
    let first = tokio::spawn(async move { take(&mut events, 9).await });
    tokio::task::yield_now().await;
    chat.session("s").send(user("m")).await;
    assert_eq!(
        first.await.unwrap(),
        [
            "0 turn.accepted u:m",
            "- tool.started ",
            "- tool.finished ",
            "- delta 1.0 wrong false",
            "- delta 2.0 ha false",
            "- delta 2.1 lf false",
            "- delta 2.2  more false",
            "1 message.appended 1 a:half more",
            "2 turn.completed completed 3.1 [a:half more]",
        ]
    );
}

// D5
#[tokio::test]
async fn outcomes_of_resumed_turns_are_found_again_by_the_last_id() {
    let store = TestStore::new();
    let graph = asking(&Log::default(), Signal::new("ok"));
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    story(&chat).await;
    let all = ["5 completed 3.3 [a:done]", "10 errored chat_turn_cancelled"];
    for (after, expected) in [(None, &all[..]), (Some(4), &all), (Some(5), &all[1..]), (Some(10), &[])] {
        let chat = chat_of(&graph).open(store.reopen()).unwrap();
        let after = after.map(|seq| ChatEventId { epoch: "m0".into(), seq });
        let mut resumed = Box::pin(chat.session("s").resumed(after).await.unwrap());
        for expected in expected {
            let (id, outcome) = resumed.next().await.unwrap().unwrap();
            assert_eq!(format!("{} {}", id.seq, line(outcome.as_ref())), *expected);
        }
        // Then those to come, once each.
        chat.session("s").send(user("m")).await;
        chat.answer(at("s", "ok"), approve(false)).await.unwrap().outcome().await;
        let (id, outcome) = resumed.next().await.unwrap().unwrap();
        assert_eq!(line(outcome.as_ref()), "completed 3.3 [a:not done]");
        let mut again = Box::pin(
            chat.session("s").resumed(Some(ChatEventId { seq: id.seq - 1, ..id.clone() })).await.unwrap(),
        );
        assert_eq!(again.next().await.unwrap().unwrap().0, id);
    }
}

#[tokio::test]
async fn an_id_that_the_log_has_not_come_to_is_told() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    for (sent, after, refused) in [
        (false, 0, Some("chat_event_unknown")),
        (true, 2, None),
        (false, 3, Some("chat_event_unknown")),
        (false, u64::MAX, Some("chat_event_unknown")),
    ] {
        if sent {
            chat.session("s").send(user("m")).await;
        }
        let told = chat
            .session("s")
            .events()
            .after(Some(ChatEventId { epoch: "m0".into(), seq: after }))
            .stream()
            .await;
        assert_eq!(told.err().map(|it| it.category().to_owned()).as_deref(), refused, "{after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_that_come_while_turns_commit_miss_nothing() {
    let limits = Limits { feed_backlog: 4, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    let sending = tokio::spawn({
        let chat = chat.clone();
        async move {
            for _ in 0..200 {
                chat.session("s").send(user("m")).await;
            }
        }
    });
    let mut listening = Vec::new();
    for _ in 0..50 {
        let mut events = listen(&chat, None).await;
        listening.push(tokio::spawn(async move {
            for seq in 0..600 {
                assert_eq!(next(&mut events).await.id.unwrap().seq, seq);
            }
        }));
        tokio::task::yield_now().await;
    }
    sending.await.unwrap();
    for listening in listening {
        listening.await.unwrap();
    }
}

// D25
#[tokio::test]
async fn a_stream_ends_when_its_session_is_deleted() {
    let store = TestStore::new();
    let limits = Limits { feed_backlog: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.clone()).unwrap();
    let mut early = listen(&chat, None).await;
    chat.session("s").send(user("m")).await;
    let (mut reads, mut slow) = (listen(&chat, None).await, listen(&chat, None).await);
    take(&mut reads, 3).await;
    take(&mut slow, 1).await;
    for _ in 0..9 {
        chat.session("s").send(user("m")).await;
    }
    let turn =
        chat.session("s").submit(user("m"), singletree_harness::SendOptions::new().listen()).await.unwrap();
    turn.outcome().await;
    chat.session("s").delete(None).await.unwrap();
    // Earlier events come first, as far as they were on their way.
    assert_eq!(take(&mut slow, 2).await[1], "2 turn.completed completed 3.1 [a:hello]");
    for (who, events) in [("reads", &mut reads), ("slow", &mut slow)] {
        let rest: Vec<_> = events.collect().await;
        let last = rest.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last.category(), "chat_session_unknown", "{who}");
        assert!(rest.iter().rev().skip(1).all(Result::is_ok));
    }
    let told: Vec<_> = turn.events().collect().await;
    assert!(told.last().unwrap().is_err() || told.last().unwrap().as_ref().unwrap().what.outcome().is_some());
    // Who has seen nothing of it goes on in the session that comes next.
    chat.session("s").send(user("n")).await;
    assert_eq!(take(&mut early, 3).await[0], "33 turn.accepted u:n");
    let old = ChatEventId { epoch: "m0".into(), seq: 5 };
    let Err(told) = chat.session("s").events().after(Some(old)).stream().await else {
        panic!("its log is gone")
    };
    assert_eq!(told.category(), "chat_events_expired");
}
