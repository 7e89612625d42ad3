//! The history with ids and times: the same names as events give, whatever was forked, steered, cancelled or forgotten.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use serde_json::json;
use singletree_durable::{StoredTurnKind, StoredTurnStatus};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    Chat, ChatEventKind, CreateOptions, ForkOptions, Retention, SendOptions, Transcript, TurnId, TurnInfo,
    TurnPromptPolicy,
};
use singletree_llm::ChatMessage;
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, TokioClock, approve, asking, at, calling, chain, chat_of, history, plain, short, user,
};
use crate::steer::hear;

/// The messages of a session by the ids that its events gave them, and the user's own by those of their turns.
async fn named_by_events(chat: &Chat, session: &str) -> BTreeMap<String, ChatMessage> {
    let mut events = Box::pin(chat.session(session).events().stream().await.unwrap());
    let mut named = BTreeMap::new();
    // All stored events are there at once; an event that is not ready is not stored.
    while let Ok(Some(event)) = tokio::time::timeout(std::time::Duration::from_millis(1), events.next()).await
    {
        let event = event.unwrap();
        let (id, message) = match event.what {
            ChatEventKind::TurnAccepted { message: Some(message) } => (format!("{}/0", event.turn), message),
            ChatEventKind::MessageAppended { id, message, .. } => (id.to_string(), message),
            _ => continue,
        };
        named.insert(id, message.as_ref().clone());
    }
    named
}

async fn whole(chat: &Chat, session: &str) -> Transcript {
    chat.session(session).transcript(0, u64::MAX).await.unwrap()
}

/// Checks that each message has the id that its event gave it, in whatever pieces it is read.
async fn check(chat: &Chat, session: &str, named: &BTreeMap<String, ChatMessage>) {
    let all = whole(chat, session).await;
    let entries: Vec<String> = all.items.iter().map(|it| short(&it.message)).collect();
    assert_eq!(entries, history(chat, session).await);
    for it in &all.items {
        let id = it.id.as_ref().unwrap_or_else(|| panic!("no id: {it:?}")).to_string();
        assert_eq!(named.get(&id), Some(it.message.as_ref()), "{id}");
    }
    for size in [1, 2, 3] {
        let (mut pieces, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let piece = chat.session(session).transcript(at, size).await.unwrap();
            pieces.extend(piece.items);
            from = piece.next;
        }
        assert_eq!(pieces, all.items, "in pieces of {size}");
    }
}

fn ids(transcript: &Transcript) -> Vec<Option<String>> {
    transcript.items.iter().map(|it| it.id.as_ref().map(ToString::to_string)).collect()
}

// D17
#[tokio::test(start_paused = true)]
async fn messages_are_called_what_their_events_called_them() {
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(TestStore::new()).unwrap();
    for n in 0..3 {
        chat.session("s").send(user(&format!("m{n}"))).await;
        chat.answer(at("s", "ok"), approve(n > 0)).await.unwrap().outcome().await;
    }
    let named = named_by_events(&chat, "s").await;
    check(&chat, "s", &named).await;
    // Also in a fork, and in a fork of that, where numbers mean other turns from the cut on.
    chat.session("s").fork(ForkOptions::new().session("f").at(5)).await.unwrap();
    chat.session("s").send(user("more")).await;
    chat.session("f").send(user("other")).await;
    let in_fork: BTreeMap<_, _> =
        named.iter().chain(&named_by_events(&chat, "f").await).map(|(a, b)| (a.clone(), b.clone())).collect();
    chat.answer(at("f", "ok"), approve(true)).await.unwrap().outcome().await;
    let in_fork: BTreeMap<_, _> = in_fork.into_iter().chain(named_by_events(&chat, "f").await).collect();
    check(&chat, "f", &in_fork).await;
    chat.session("f").fork(ForkOptions::new().session("g").at(7)).await.unwrap();
    chat.session("g").send(user("last")).await;
    chat.answer(at("g", "ok"), approve(true)).await.unwrap().outcome().await;
    let in_both = in_fork.into_iter().chain(named_by_events(&chat, "g").await).collect();
    check(&chat, "g", &in_both).await;
    // The turns of messages that were inherited from a session that is gone are not known.
    chat.session("f").delete(None).await.unwrap();
    let known: Vec<bool> = ids(&whole(&chat, "g").await).iter().map(Option::is_some).collect();
    assert_eq!(known, [false, false, false, false, false, false, false, true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_many_messages_is_numbered_from_its_first_wherever_reading_begins() {
    let builder = Graph::builder().node("n", |_: Ctx<Talk>| async {
        let said = (0..300).map(|n| ChatMessage::assistant(format!("{n}")));
        Ok(Talk::update().messages(said))
    });
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    chat.session("s").send(user("a")).await;
    let turn = chat.session("s").send(user("b")).await;
    for seq in [301, 302, 364, 365, 366, 430, 600, 601] {
        let one = chat.session("s").transcript(seq, 1).await.unwrap();
        assert_eq!(ids(&one), [Some(format!("{}/{}", turn.turn_id().unwrap(), seq - 301))]);
    }
}

// D10, D17
#[tokio::test(start_paused = true)]
async fn what_steered_is_part_of_the_turn_that_took_it_and_has_its_own_time() {
    let door = Door::shut();
    let mut builder = Graph::<Talk>::builder();
    for name in ["one", "two"] {
        let door = door.clone();
        builder = builder.node(name, move |cx: Ctx<Talk>| {
            let door = door.clone();
            async move {
                door.pass().await;
                Ok(hear(&cx, name))
            }
        });
    }
    let clock = TokioClock::new();
    let chat = chat_of(&chain(builder, &["one", "two"])).clock(clock).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let steered = chat.session("s").steer(user("wait"), SendOptions::new()).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    door.open();
    turn.outcome().await;
    let all = whole(&chat, "s").await;
    check(&chat, "s", &named_by_events(&chat, "s").await).await;
    let k = |k| Some(format!("{}/{k}", turn.id()));
    assert_eq!(ids(&all), [k(0), k(1), k(2), k(3)]);
    let begin = all.items[0].at.unwrap().as_millis();
    let at: Vec<i64> = all.items.iter().map(|it| it.at.unwrap().as_millis() - begin).collect();
    assert_eq!(at, [0, 1000, 2000, 2000]);
    let (by, own) = (turn.id().to_string(), steered.id().to_string());
    assert_eq!(all.items[1].side, Some(json!({ "taken_by": by, "accepted_as": own })));
    assert_ne!(steered.id(), turn.id());
}

#[tokio::test(start_paused = true)]
async fn what_no_turn_made_and_what_is_forgotten_has_no_name() {
    let store = TestStore::new();
    let chat = chat_of(&calling(&Log::default(), Signal::new("ok"))).open(store).unwrap();
    chat.session("s").send(user("m")).await;
    // The call is open at the cut: the result that closes it belongs to no turn.
    chat.session("s").fork(ForkOptions::new().session("f")).await.unwrap();
    let known: Vec<bool> = ids(&whole(&chat, "f").await).iter().map(Option::is_some).collect();
    assert_eq!(known, [true, true, false]);
    chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    let export = chat.session("s").export().await.unwrap();
    chat.import_session(export, Some("i")).await.unwrap();
    let imported = whole(&chat, "i").await;
    assert_eq!(ids(&imported), [None, None, None, None]);
    assert!(imported.items.iter().all(|it| it.at.is_none()) && imported.last_event.is_none());
    chat.session("s").send(user("again")).await;
    chat.answer(at("s", "ok"), approve(true)).await.unwrap().outcome().await;
    chat.retain(&Retention { turns: Some(2), ..Retention::default() }).await.unwrap();
    let known: Vec<bool> = ids(&whole(&chat, "s").await).iter().map(Option::is_some).collect();
    assert_eq!(known, [false, false, false, false, true, true, true, true]);
}

// D9: reading the history and listening from there leaves no gap.
#[tokio::test(start_paused = true)]
async fn the_last_event_is_that_before_the_reading() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    chat.session("s").send(user("a")).await;
    let read = whole(&chat, "s").await;
    chat.session("s").send(user("b")).await;
    let mut events = Box::pin(chat.session("s").events().after(read.last_event).stream().await.unwrap());
    let next = events.next().await.unwrap().unwrap();
    let ChatEventKind::TurnAccepted { message: Some(message) } = next.what else { panic!("{next:?}") };
    assert_eq!(short(&message), "u:b");
    assert_eq!(chat.session("none").transcript(0, 9).await.unwrap_err().category(), "chat_session_unknown");
}

#[tokio::test(start_paused = true)]
async fn turns_are_looked_at_without_waiting_for_them() {
    let clock = TokioClock::new();
    let chat =
        chat_of(&asking(&Log::default(), Signal::new("ok"))).clock(clock).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let resumed = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    resumed.outcome().await;
    let page = chat.session("s").turns(0, 9).await.unwrap();
    let at = page.items[0].accepted_at;
    let info = |id: &TurnId, no, kind, status| TurnInfo {
        activity: None,
        id: id.clone(),
        no,
        session: "s".into(),
        agent: "a".into(),
        kind,
        status,
        accepted_at: at,
        ended_at: Some(at),
        retries: None,
        usage: Vec::new(),
    };
    let first = info(turn.id(), 0, StoredTurnKind::Message, StoredTurnStatus::Suspended);
    let second = info(resumed.id(), 1, StoredTurnKind::Resume, StoredTurnStatus::Completed);
    assert_eq!((page.items, page.next), (vec![first.clone(), second.clone()], None));
    let page = chat.session("s").turns(0, 1).await.unwrap();
    assert_eq!((page.items, page.next), (vec![first], Some(1)));
    assert_eq!(chat.session("s").turns(1, 1).await.unwrap().items, std::slice::from_ref(&second));
    assert_eq!(chat.session("s").turn_info(resumed.id()).await.unwrap(), second);
    for session in ["other", "none"] {
        chat.session("other").send(user("m")).await;
        let unknown = chat.session(session).turn_info(turn.id()).await.unwrap_err();
        assert_eq!(unknown.category(), "chat_turn_unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_made_once_and_then_talked_in() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let named = || CreateOptions::new().session("s");
    let made = chat.create_session(named()).await.unwrap();
    assert_eq!((made.session.as_str(), made.agent.as_str(), made.messages), ("s", "a", 0));
    assert_eq!(made, chat.session("s").info().await.unwrap());
    assert_eq!(chat.create_session(named()).await.unwrap_err().category(), "chat_session_exists");
    assert_eq!(whole(&chat, "s").await, Transcript { items: Vec::new(), next: None, last_event: None });
    chat.session("s").send(user("m")).await;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:hello"]);
    let of_nobody = chat.create_session(CreateOptions::new().agent("nobody")).await.unwrap_err();
    assert_eq!(of_nobody.category(), "chat_agent_unknown");
    let of_no_commands =
        chat.create_session(CreateOptions::new().policy(TurnPromptPolicy::Command)).await.unwrap_err();
    assert_eq!(of_no_commands.category(), "chat_policy_unsupported");
    let drawn = chat.create_session(CreateOptions::new()).await.unwrap();
    assert_eq!(chat.sessions(None, 9).await.unwrap().items.len(), 2, "{drawn:?}");
    // Of several that make the same one, one does.
    let tries = futures_util::future::join_all(
        (0..5).map(|_| chat.create_session(CreateOptions::new().session("t"))),
    );
    assert_eq!(tries.await.iter().filter(|it| it.is_ok()).count(), 1);
    // A deleted one is made anew.
    chat.session("s").delete(None).await.unwrap();
    chat.create_session(named()).await.unwrap();
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
}
