//! Messages that steer the turn that runs.

use futures_util::StreamExt;
use serde_json::{Value, json};
use singletree_engine::{Ctx, END, Graph, NodeError, Signal, Target};
use singletree_harness::{
    Chat, ChatEventKind, Durability, GraphAgent, SendOptions, Turn, TurnContext, WhileSuspended,
};
use singletree_llm::ChatMessage;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TalkUpdate, agent, approve, at, category, chain, check_rows, gate, history, key, line,
    says, user,
};
use crate::doctor::sound;
use crate::event::{Listening, listen};

/// Takes the messages that steer, and answers to them.
pub(crate) fn hear(cx: &Ctx<Talk>, name: &str) -> TalkUpdate {
    let heard = TurnContext::of(cx).unwrap().steering().unwrap().take_messages(&cx.state().messages);
    let said = ChatMessage::assistant(name);
    Talk::update().messages(heard.into_iter().chain([said]))
}

/// Three nodes that listen; each waits at the door first.
fn listening(door: &Door) -> Graph<Talk> {
    let mut builder = Graph::<Talk>::builder();
    for name in ["one", "two", "three"] {
        let door = door.clone();
        builder = builder.node(name, move |cx: Ctx<Talk>| {
            let door = door.clone();
            async move {
                door.pass().await;
                Ok(hear(&cx, name))
            }
        });
    }
    chain(builder, &["one", "two", "three"])
}

async fn begin(chat: &Chat, door: &Door) -> Turn {
    let turn = chat.session("s").submit(user("m"), key("m")).await.unwrap();
    door.somebody().await;
    turn
}

async fn steer(chat: &Chat, text: &str) -> Turn {
    chat.session("s").steer(user(text), key(text)).await.unwrap()
}

async fn told(turn: &Turn) -> String {
    line(turn.outcome().await.as_ref())
}

fn open(store: &TestStore, graph: &Graph<Talk>, durability: Durability) -> Chat {
    Chat::builder().agent(agent(graph, durability)).open(store.clone()).unwrap()
}

// INV-1, INV-2: at both levels the same conversation and the same outcomes.
#[tokio::test]
async fn a_message_that_steers_is_taken_by_the_turn_that_runs_and_ends_with_it() {
    for durability in [Durability::Turn, Durability::Step] {
        let (store, door) = (TestStore::new(), Door::shut());
        let chat = open(&store, &listening(&door), durability);
        let turn = begin(&chat, &door).await;
        door.open_once();
        door.somebody().await;
        let (first, again) = (steer(&chat, "left").await, steer(&chat, "left").await);
        assert_eq!(first.id(), again.id(), "D3: one key, one message");
        let second = steer(&chat, "right").await;
        door.open();
        assert_eq!(told(&turn).await, "completed 3.1 [a:one, u:left, u:right, a:two, a:three]");
        assert_eq!(told(&first).await, "completed 3.2 [u:right, a:two, a:three]");
        assert_eq!(told(&second).await, "completed 3.2 [a:two, a:three]");
        assert_eq!(history(&chat, "s").await, ["u:m", "a:one", "u:left", "u:right", "a:two", "a:three"]);
        // Read back, in this process and the next, it is the same.
        for chat in [chat, open(&store.reopen(), &listening(&door), durability)] {
            let read = chat.turn(first.id()).await.unwrap();
            assert_eq!(told(&read).await, "completed 3.2 [u:right, a:two, a:three]");
        }
        check_rows(&store, "s").await;
        sound(&store).await;
    }
}

// D9, D17: the event of the message tells which turn took it, as the history does; its own events end with its outcome.
#[tokio::test]
async fn the_log_tells_who_took_it() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = open(&store, &listening(&door), Durability::Step);
    let turn = begin(&chat, &door).await;
    let steered = chat.session("s").steer(user("left"), key("left").note("client_id", "mine")).await.unwrap();
    door.open();
    told(&turn).await;
    let events: Vec<_> = steered.events().map(|it| it.unwrap().what).collect().await;
    let kinds: Vec<_> = events.iter().map(ChatEventKind::as_str).collect();
    assert_eq!(kinds, ["turn.accepted", "turn.completed"]);
    let by = Some(json!({
        "client_id": "mine", "taken_by": turn.id().to_string(), "accepted_as": steered.id().to_string(),
    }));
    let live = appended(&turn).await;
    let expect = [(1, "left", by.clone()), (2, "one", None), (3, "two", None), (4, "three", None)];
    assert_eq!(live, expect.map(|(k, text, side)| (k, text.to_owned(), side)));
    // Read back it is the same.
    let chat = open(&store.reopen(), &listening(&door), Durability::Step);
    assert_eq!(appended(&chat.turn(turn.id()).await.unwrap()).await, live);
    let history = chat.session("s").history(0..10).await.unwrap();
    let sides: Vec<_> = history.into_iter().map(|it| it.side).collect();
    assert_eq!(sides, [None, by, None, None, None]);
}

/// Returns the messages that the events of a turn tell, each with its side record.
async fn appended(turn: &Turn) -> Vec<(u64, String, Option<Value>)> {
    let appended = turn.events().filter_map(|it| async {
        match it.unwrap().what {
            ChatEventKind::MessageAppended { id, message, side } => {
                Some((id.k, message.text().into_owned(), side))
            }
            _ => None,
        }
    });
    appended.collect().await
}

// INV-2
#[tokio::test]
async fn a_message_that_nobody_takes_has_the_next_turn() {
    let (store, door) = (TestStore::new(), Door::shut());
    // This graph does not listen.
    let inside = door.clone();
    let builder = Graph::<Talk>::builder().node("deaf", move |_: Ctx<Talk>| {
        let door = inside.clone();
        async move {
            door.pass().await;
            Ok(says("deaf"))
        }
    });
    let chat = open(&store, &chain(builder, &["deaf"]), Durability::Step);
    let turn = begin(&chat, &door).await;
    let steered = steer(&chat, "left").await;
    door.open();
    assert_eq!(told(&turn).await, "completed 3.1 [a:deaf]");
    assert_eq!(told(&steered).await, "completed 3.2 [a:deaf]");
    // Where nothing runs it is as good as sent.
    let alone = steer(&chat, "right").await;
    assert_eq!(told(&alone).await, "completed 3.2 [a:deaf]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:deaf", "u:left", "a:deaf", "u:right", "a:deaf"]);
    assert!(chat.session("s").history(0..10).await.unwrap().iter().all(|it| it.side.is_none()));
    sound(&store).await;
}

// INV-1: the order of acceptance is the order of the history.
#[tokio::test]
async fn a_message_behind_one_that_was_sent_waits_its_turn() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = open(&store, &listening(&door), Durability::Step);
    let turn = begin(&chat, &door).await;
    let sent = chat.session("s").submit(user("sent"), SendOptions::new()).await.unwrap();
    let steered = steer(&chat, "left").await;
    door.open();
    assert_eq!(told(&turn).await, "completed 3.1 [a:one, a:two, a:three]");
    assert_eq!(told(&sent).await, "completed 3.2 [u:left, a:one, a:two, a:three]");
    assert_eq!(told(&steered).await, "completed 3.2 [a:one, a:two, a:three]");
}

/// Listens, then goes wrong where the state says so: `one` right where it takes, `two` after that was committed.
fn failing(door: &Door, at: &'static str) -> Graph<Talk> {
    let mut builder = Graph::<Talk>::builder();
    for name in ["one", "two"] {
        let door = door.clone();
        builder = builder.node(name, move |cx: Ctx<Talk>| {
            let door = door.clone();
            async move {
                door.pass().await;
                let update = hear(&cx, name);
                let is_first = cx.state().messages.len() < 3;
                if name == at && is_first | (at == "two") && cx.state().messages.get(0).unwrap().text() == "m"
                {
                    return Err(NodeError::new("it broke").with_category("provider_unavailable"));
                }
                Ok(update)
            }
        });
    }
    chain(builder, &["one", "two"])
}

// D11: a message that no commit records as taken is not lost with the turn; a taken one fails with it, and neither is
// history.
#[tokio::test]
async fn a_turn_that_fails_gives_back_what_it_had_not_taken() {
    for (at, steered_ends, kept) in [
        ("one", "completed 3.1 [a:one, a:two]", vec!["u:left", "a:one", "a:two"]),
        ("two", "errored provider_unavailable", vec![]),
    ] {
        let (store, door) = (TestStore::new(), Door::shut());
        let chat = open(&store, &failing(&door, at), Durability::Step);
        let turn = begin(&chat, &door).await;
        let steered = steer(&chat, "left").await;
        door.open();
        assert_eq!(told(&turn).await, "errored provider_unavailable", "{at}");
        let ended = told(&steered).await.replace("3.2", "3.1");
        assert_eq!(ended, steered_ends, "{at}");
        assert_eq!(history(&chat, "s").await, kept, "{at}");
        check_rows(&store, "s").await;
        sound(&store).await;
    }
}

// D10
#[tokio::test]
async fn cancelling_a_message_that_was_taken_cancels_the_turn_that_took_it() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = open(&store, &listening(&door), Durability::Step);
    let turn = begin(&chat, &door).await;
    let steered = steer(&chat, "left").await;
    door.open_once();
    door.somebody().await;
    let waiting = steer(&chat, "right").await;
    // One that was not handed out is cancelled alone.
    chat.cancel(waiting.id()).await.unwrap();
    assert_eq!(told(&waiting).await, "errored chat_turn_cancelled");
    chat.cancel(steered.id()).await.unwrap();
    assert_eq!(told(&turn).await, "errored chat_turn_cancelled");
    assert_eq!(told(&steered).await, "errored chat_turn_cancelled");
    assert_eq!(history(&chat, "s").await, ["u:m", "u:left", "a:one"]);
    check_rows(&store, "s").await;
    sound(&store).await;
}

// INV-8
#[tokio::test]
async fn a_message_that_was_taken_ends_where_its_turn_suspends() {
    let (store, door, log) = (TestStore::new(), Door::shut(), Log::default());
    let inside = door.clone();
    let builder = Graph::<Talk>::builder().node("ask", move |cx: Ctx<Talk>| {
        let door = inside.clone();
        async move {
            door.pass().await;
            Ok(hear(&cx, "ask"))
        }
    });
    let builder = gate(builder, &log, Signal::new("ok"));
    let builder = builder.node("act", |cx: Ctx<Talk>| async move { Ok(hear(&cx, "done")) });
    let graph = chain(builder, &["ask", "gate", "act"]);
    let queues = |agent: GraphAgent| agent.while_suspended(WhileSuspended::Queue);
    let chat = Chat::builder().agent(queues(agent(&graph, Durability::Step))).open(store.clone()).unwrap();
    let turn = begin(&chat, &door).await;
    let steered = steer(&chat, "left").await;
    door.open();
    assert_eq!(told(&turn).await, "suspended 3.1 ok [u:left, a:ask]");
    assert_eq!(told(&steered).await, "completed 3.2 [a:ask]");
    sound(&store).await;
    // While it waits, one that steers is parked; the turn that resumes takes it.
    let parked = steer(&chat, "right").await;
    let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(told(&resumed).await, "completed 3.3 [u:right, a:done]");
    assert_eq!(told(&parked).await, "completed 3.2 [a:done]");
    assert_eq!(history(&chat, "s").await, ["u:m", "u:left", "a:ask", "u:right", "a:done"]);
    check_rows(&store, "s").await;
    sound(&store).await;
}

// D17
#[tokio::test]
async fn what_a_node_says_beside_a_message_is_kept_and_told_with_it() {
    let store = TestStore::new();
    let builder = Graph::<Talk>::builder().node("say", |cx: Ctx<Talk>| async move {
        let turn = TurnContext::of(&cx).unwrap();
        let sides = turn.side_records();
        sides.set_side_value(cx.state().messages.len(), "agent", "guide");
        Ok(says("hello"))
    });
    let graph = builder.edge("say", Target::from(END)).entry("say").compile().unwrap();
    let chat = open(&store, &graph, Durability::Step);
    assert_eq!(category(chat.session("s").send(user("m")).await), "completed");
    let side = Some(json!({ "agent": "guide" }));
    for chat in [chat, open(&store.reopen(), &graph, Durability::Step)] {
        let history = chat.session("s").history(0..10).await.unwrap();
        assert_eq!([history[0].side.clone(), history[1].side.clone()], [None, side.clone()]);
    }
}

/// A node that takes messages that steer, begins to answer them, and waits at the door before each.
fn answering_slowly(door: &Door) -> Graph<Talk> {
    let door = door.clone();
    let builder = Graph::<Talk>::builder().node("n", move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            door.pass().await;
            let update = hear(&cx, "so");
            let turn = TurnContext::of(&cx).unwrap();
            turn.stream().begin_message(cx.state().messages.len() + 1).show_text_piece("s");
            door.pass().await;
            Ok(update)
        }
    });
    chain(builder, &["n"])
}

/// The next events of a session up to the first of a kind.
async fn heard_up_to(events: &mut Listening, kind: &str) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let event = events.next().await.unwrap().unwrap();
        heard.push(match &event.what {
            ChatEventKind::TurnAccepted { message: Some(message) } => format!("accepted {}", message.text()),
            ChatEventKind::MessageTaken { id, message, side } => {
                format!("taken {} {} as {}", id.k, message.text(), side["accepted_as"])
            }
            ChatEventKind::Delta { id, text, .. } => format!("delta {} {text}", id.k),
            what => what.as_str().to_owned(),
        });
        if event.what.as_str() == kind {
            return heard;
        }
    }
}

// A reply that steering caused is shown behind the message that steers, to who listened and to who comes late.
#[tokio::test]
async fn a_message_is_told_as_taken_before_the_text_that_answers_it() {
    for durability in [Durability::Turn, Durability::Step] {
        let (store, door) = (TestStore::new(), Door::shut());
        let chat = open(&store, &answering_slowly(&door), durability);
        let turn = begin(&chat, &door).await;
        let steered = steer(&chat, "left").await;
        let mut live = listen(&chat, None).await;
        assert_eq!(
            heard_up_to(&mut live, "turn.started").await,
            ["accepted m", "accepted left", "turn.started"]
        );
        door.open_once();
        door.somebody().await;
        let taken = format!("taken 1 left as {:?}", steered.id().to_string());
        assert_eq!(heard_up_to(&mut live, "delta").await, [&taken, "delta 2 s"]);
        let late = heard_up_to(&mut listen(&chat, None).await, "delta").await;
        assert_eq!(late, ["accepted m", "accepted left", "turn.started", &taken, "delta 2 s"]);
        door.open();
        assert_eq!(told(&turn).await, "completed 3.1 [u:left, a:so]");
        assert_eq!(heard_up_to(&mut live, "message.appended").await, ["message.appended"]);
    }
}

// D17: also beside a message that was taken, whose body was written before.
#[tokio::test]
async fn what_a_node_says_beside_a_message_that_it_takes_stands_with_who_took_it() {
    let (store, door) = (TestStore::new(), Door::shut());
    let inside = door.clone();
    let builder = Graph::<Talk>::builder().node("hear", move |cx: Ctx<Talk>| {
        let door = inside.clone();
        async move {
            door.pass().await;
            TurnContext::of(&cx).unwrap().side_records().set_side_value(
                cx.state().messages.len(),
                "heard",
                true,
            );
            Ok(hear(&cx, "hear"))
        }
    });
    let chat = open(&store, &chain(builder, &["hear"]), Durability::Step);
    let turn = begin(&chat, &door).await;
    let steered = steer(&chat, "left").await;
    door.open();
    assert_eq!(told(&steered).await, "completed 3.2 [a:hear]");
    let side = chat.session("s").history(1..2).await.unwrap()[0].side.clone();
    let (by, own) = (turn.id().to_string(), steered.id().to_string());
    assert_eq!(side, Some(json!({ "heard": true, "taken_by": by, "accepted_as": own })));
}

// Found by the simulation, seed 16934: the retry had the side record of the message, also which turn had taken it, and was
// read as a part of that turn.
#[tokio::test]
async fn the_retry_of_a_message_that_was_taken_is_a_turn_of_its_own() {
    let (store, door) = (TestStore::new(), Door::shut());
    let chat = open(&store, &listening(&door), Durability::Step);
    let turn = begin(&chat, &door).await;
    let steered = chat.session("s").steer(user("left"), key("left").note("client_id", "mine")).await.unwrap();
    door.open_once();
    door.somebody().await;
    chat.cancel(steered.id()).await.unwrap();
    assert_eq!(told(&turn).await, "errored chat_turn_cancelled");
    door.open();
    let retried = chat.retry(steered.id(), SendOptions::new()).await.unwrap();
    let outcome = told(&retried).await;
    assert!(outcome.starts_with("completed"), "{outcome}");
    let chat = open(&store.reopen(), &listening(&door), Durability::Step);
    assert_eq!(told(&chat.turn(retried.id()).await.unwrap()).await, outcome, "read back it is the same");
    let last = chat.session("s").history(0..100).await.unwrap();
    let said: Vec<_> = last.iter().filter(|it| it.message.text() == "left").collect();
    assert_eq!(said.last().unwrap().side, Some(json!({ "client_id": "mine" })));
    check_rows(&store, "s").await;
    sound(&store).await;
}

/// Three nodes that listen and yield.
fn busy() -> Graph<Talk> {
    let mut builder = Graph::<Talk>::builder();
    for name in ["one", "two", "three"] {
        builder = builder.node(name, move |cx: Ctx<Talk>| async move {
            tokio::task::yield_now().await;
            let update = hear(&cx, name);
            tokio::task::yield_now().await;
            Ok(update)
        });
    }
    chain(builder, &["one", "two", "three"])
}

// INV-1, INV-2: a race between the end of turns and messages that steer them, which the commit decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_steering_and_ending_race_each_message_is_answered_once_and_in_order() {
    let rounds = if std::env::var_os("SINGLETREE_DEEP").is_some() { 1000 } else { 60 };
    let mut taken = 0;
    for round in 0..rounds {
        let store = TestStore::new();
        let durability = if round % 2 == 0 { Durability::Step } else { Durability::Turn };
        let chat = open(&store, &busy(), durability);
        let sending = |from: u64| {
            let chat = chat.clone();
            tokio::spawn(async move {
                for n in 0..6 {
                    let text = format!("{from}-{n}");
                    let turn = match n % 3 {
                        0 => chat.session("s").submit(user(&text), SendOptions::new()).await.unwrap(),
                        _ => chat.session("s").steer(user(&text), SendOptions::new()).await.unwrap(),
                    };
                    if n == 4 {
                        // Cancelled or not: it ends.
                        drop(chat.cancel(turn.id()).await.unwrap());
                    }
                    turn.outcome().await;
                }
            })
        };
        let (first, second) = (sending(1), sending(2));
        first.await.unwrap();
        second.await.unwrap();
        let said = history(&chat, "s").await;
        for from in 1..=2 {
            let of = format!("u:{from}-");
            let own: Vec<_> = said.iter().filter(|it| it.starts_with(&of)).cloned().collect();
            let mut ordered = own.clone();
            ordered.sort();
            ordered.dedup();
            assert_eq!(own, ordered, "round {round}: once each, in order: {said:?}");
        }
        let kept = chat.session("s").history(0..1000).await.unwrap();
        taken +=
            kept.iter().filter(|it| it.side.as_ref().is_some_and(|it| !it["taken_by"].is_null())).count();
        check_rows(&store, "s").await;
        sound(&store).await;
    }
    assert!(taken > 0, "the race was run");
}
