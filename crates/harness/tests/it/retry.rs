//! Retrying a turn that failed (D29).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use singletree_durable::InvocationId;
use singletree_engine::{Ctx, Graph, NodeError, NodeResult};
use singletree_harness::{
    Chat, ChatBuilder, ChatTurnOutcome, Durability, Limits, SendOptions, ToolCallLog, TurnContext, TurnId,
};
use singletree_llm::{ChatMessage, Role, ToolCall};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, Talk, agent, category, chain, history, key, line, user};
use crate::dying::{Ground, Kind, Round, Sweep, is_swept};

/// The effects outside of the conversations.
#[derive(Debug, Clone, Default)]
struct World {
    /// Whether the model answers.
    healed: Arc<AtomicBool>,
    effects: Arc<Mutex<Vec<String>>>,
    replies: Arc<AtomicUsize>,
}

impl World {
    fn heal(&self, healed: bool) {
        self.healed.store(healed, Ordering::SeqCst);
    }

    /// A model that calls a tool when it is asked to act, the tool, and an answer that fails until the world is healed.
    fn graph(&self, log: &Log) -> Graph<Talk> {
        let (acting, replying, log) = (self.clone(), self.clone(), log.clone());
        let builder = Graph::builder()
            .node("ask", |cx: Ctx<Talk>| async move {
                let last = cx.state().messages.last().unwrap();
                if last.role != Role::User || last.text() != "act" {
                    return Ok(Talk::update());
                }
                let call = ToolCall::new("c1", "send", serde_json::Map::new());
                Ok(Talk::update().messages([ChatMessage::assistant("").with_tool_calls([call])]))
            })
            .node("act", move |cx: Ctx<Talk>| act(acting.clone(), cx))
            .node("reply", move |_: Ctx<Talk>| {
                log.note("reply");
                let healed = replying.healed.load(Ordering::SeqCst);
                replying.replies.fetch_add(1, Ordering::SeqCst);
                async move {
                    match healed {
                        true => Ok(Talk::update().messages([ChatMessage::assistant("done")])),
                        false => Err(NodeError::new("no").with_category("provider_invalid_request")),
                    }
                }
            });
        chain(builder, &["ask", "act", "reply"])
    }

    fn builder(&self, log: &Log) -> ChatBuilder {
        Chat::builder().agent(agent(&self.graph(log), Durability::Step))
    }

    fn chat(&self) -> Chat {
        self.builder(&Log::default()).open(TestStore::new()).unwrap()
    }
}

async fn act(world: World, cx: Ctx<Talk>) -> NodeResult<Talk> {
    let messages = &cx.state().messages;
    if messages.last().unwrap().tool_calls.is_empty() {
        return Ok(Talk::update());
    }
    let (name, fact) = ToolCallLog::intent_record(messages.len() - 1, 0);
    cx.record(&name, fact).await?;
    // Idempotent: the key is the invocation's.
    let id = cx.identity().invocation_id.to_string();
    let mut effects = world.effects.lock().unwrap();
    if !effects.contains(&id) {
        effects.push(id);
    }
    Ok(Talk::update().messages([ChatMessage::tool("c1", "did it")]))
}

async fn fails(chat: &Chat, text: &str) -> TurnId {
    let turn = chat.session("s").submit(user(text), key("k").note("client", 7)).await.unwrap();
    assert_eq!(category(turn.outcome().await.as_ref()), "provider_invalid_request");
    turn.id().clone()
}

async fn refused(chat: &Chat, turn: &TurnId) -> String {
    let refused = chat.retry(turn, SendOptions::new()).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.turn, None, "nothing was accepted");
    refused.error_category
}

// D29: without effects the same message is sent again, with its sender's notes.
#[tokio::test]
async fn a_retry_of_a_turn_without_effects_sends_its_message_again() {
    let world = World::default();
    let chat = world.chat();
    let failed = fails(&chat, "m").await;
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
    world.heal(true);
    let turn = chat.retry(&failed, SendOptions::new()).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.1 [a:done]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:done"]);
    let entries = chat.session("s").history(0..9).await.unwrap();
    assert_eq!(entries[0].side, Some(serde_json::json!({ "client": 7 })));
    let turns = chat.session("s").turns(0, 9).await.unwrap().items;
    let retries: Vec<_> = turns.iter().map(|turn| turn.retries.clone()).collect();
    assert_eq!(retries, [None, Some(failed)]);
}

// D29: with effects the graph runs over the history, and nothing is done twice.
#[tokio::test]
async fn a_retry_of_a_turn_with_effects_runs_over_the_history() {
    let world = World::default();
    let chat = world.chat();
    let failed = fails(&chat, "act").await;
    assert_eq!(history(&chat, "s").await, ["u:act", "a:(c1)", "t:c1=did it"]);
    // A retry that fails is retried in its turn.
    let again = chat.retry(&failed, SendOptions::new()).await.unwrap();
    assert_eq!(category(again.outcome().await.as_ref()), "provider_invalid_request");
    world.heal(true);
    let turn = chat.retry(again.id(), SendOptions::new()).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.2 [a:done]");
    assert_eq!(history(&chat, "s").await, ["u:act", "a:(c1)", "t:c1=did it", "a:done"]);
    assert_eq!(world.effects.lock().unwrap().len(), 1);
}

// D29: once, and only the newest turn, if it failed.
#[tokio::test]
async fn only_the_newest_turn_is_retried_and_only_once() {
    let world = World::default();
    let chat = world.chat();
    let first = fails(&chat, "m").await;
    let second = chat.session("s").submit(user("n"), SendOptions::new()).await.unwrap();
    second.outcome().await;
    assert_eq!(refused(&chat, &first).await, "chat_retry_superseded");
    world.heal(true);
    let retry = chat.retry(second.id(), key("r")).await.unwrap();
    let outcome = retry.outcome().await;
    assert_eq!(refused(&chat, second.id()).await, "chat_retry_superseded");
    assert_eq!(refused(&chat, retry.id()).await, "chat_retry_superseded");
    // Under its key a retry is found again, whatever came after it.
    chat.session("s").send(user("o")).await;
    let again = chat.retry(second.id(), key("r")).await.unwrap();
    assert_eq!((again.id(), again.is_new()), (retry.id(), false));
    assert_eq!(line(again.outcome().await.as_ref()), line(outcome.as_ref()));
    let other = chat.retry(&first, key("r")).await.unwrap_err().into_errored_turn();
    assert_eq!(other.error_category, "chat_idempotency_conflict");
    let unknown = TurnId::new(InvocationId::parse("00000000-0000-0000-0000-000000000000").unwrap(), 0);
    assert_eq!(refused(&chat, &unknown).await, "chat_turn_unknown");
}

// D29: decided in the transaction that accepts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_retries_at_once_one_is_accepted() {
    for _ in 0..20 {
        let world = World::default();
        let chat = world.chat();
        let failed = fails(&chat, "m").await;
        world.heal(true);
        let retries = (0..8).map(|_| {
            let (chat, failed) = (chat.clone(), failed.clone());
            tokio::spawn(
                async move { chat.retry(&failed, SendOptions::new()).await.map(|it| it.id().clone()) },
            )
        });
        let mut accepted = 0;
        for retry in futures_util::future::join_all(retries).await {
            match retry.unwrap() {
                Ok(_) => accepted += 1,
                Err(refused) => {
                    assert_eq!(refused.into_errored_turn().error_category, "chat_retry_superseded")
                }
            }
        }
        assert_eq!(accepted, 1);
    }
}

// D29: a message that waits comes first; a turn that has not ended is not retried.
#[tokio::test]
async fn a_turn_that_runs_is_not_retried() {
    let door = Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(crate::bench::says("x"))
        }
    });
    let chat = crate::bench::chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    assert_eq!(refused(&chat, turn.id()).await, "chat_retry_superseded");
    door.open();
    assert!(matches!(turn.outcome().await.as_ref(), ChatTurnOutcome::Completed(_)));
}

// INV-2, D29: a retry is accepted as durably as a message, and lands once, wherever the process dies.
#[tokio::test]
async fn a_retry_is_made_once_wherever_the_process_dies() {
    for kind in [Kind::Memory, Kind::File] {
        if !is_swept(kind, Durability::Step) {
            continue;
        }
        for text in ["m", "act"] {
            let world = World::default();
            let what = format!("a retry of '{text}'");
            let sweep = Sweep { what: &what, kind, sessions: &["s"], again: 2 };
            let round = Round {
                prepare: async |_: &Ground| world.heal(false),
                builder: |log: &Log| world.builder(log),
                drive: async |chat: &Chat| {
                    let Ok(turn) = chat.session("s").submit(user(text), key("k")).await else { return };
                    let outcome = turn.outcome().await;
                    if !matches!(outcome.as_ref(), ChatTurnOutcome::Errored(it) if it.recorded) {
                        return;
                    }
                    world.heal(true);
                    if let Ok(retry) = chat.retry(turn.id(), key("r")).await {
                        retry.outcome().await;
                    }
                },
            };
            let writes = sweep
                .run(round, |at, found, whole| {
                    if let (Some(found), Some(whole)) = (&found["s"], &whole["s"]) {
                        assert!(whole.history.starts_with(&found.history), "{at}: {found:?}");
                    }
                })
                .await;
            assert!(writes > 5, "{what}: {writes} writes");
        }
    }
}

// D29: failed turns as people are shown them, at their places in the history.
#[tokio::test]
async fn a_turn_that_failed_is_listed_with_its_message_its_answer_and_its_error() {
    let world = World::default();
    let chat = world.chat();
    world.heal(true);
    chat.session("s").send(user("first")).await;
    world.heal(false);
    let plain = fails(&chat, "m").await;
    let acting = chat.session("s").submit(user("act"), SendOptions::new()).await.unwrap();
    acting.outcome().await;
    world.heal(true);
    let retry = chat.retry(acting.id(), SendOptions::new()).await.unwrap();
    retry.outcome().await;
    let told = |failed: &[singletree_harness::FailedTurnEntry]| -> Vec<_> {
        let text = |said: &(Arc<ChatMessage>, _)| crate::bench::short(&said.0);
        failed
            .iter()
            .map(|it| {
                let made: Vec<_> = it.made.iter().map(text).collect();
                (it.turn.id.clone(), it.place, it.effects, it.message.as_ref().map(text), made)
            })
            .collect()
    };
    let failed = chat.session("s").failed_turns(0..u64::MAX, 9).await.unwrap();
    let first = (plain, 2, false, Some("u:m".to_owned()), Vec::new());
    // Its effects are part of the history, and are not told twice.
    let second = (acting.id().clone(), 5, true, None, Vec::new());
    assert_eq!(told(&failed), [first.clone(), second.clone()]);
    assert_eq!(failed[0].error.error_category, "provider_invalid_request");
    assert_eq!(failed[0].message.as_ref().unwrap().1, Some(serde_json::json!({ "client": 7 })));
    assert_eq!((&failed[0].retried_by, &failed[1].retried_by), (&None, &Some(retry.id().clone())));
    // By parts of the history, and the newest ones.
    for (places, limit, expected) in [
        (0..2, 9, vec![]),
        (2..3, 9, vec![first.clone()]),
        (3..6, 9, vec![second.clone()]),
        (0..u64::MAX, 1, vec![second]),
    ] {
        assert_eq!(
            told(&chat.session("s").failed_turns(places.clone(), limit).await.unwrap()),
            expected,
            "{places:?}"
        );
    }
}

// Finding S5: long messages of failed turns are cut by bytes, too.
#[tokio::test]
async fn of_failed_turns_with_long_messages_the_newest_are_listed() {
    let limits = Limits { page_bytes: 1000, ..Limits::default() };
    let chat = World::default().builder(&Log::default()).limits(limits).open(TestStore::new()).unwrap();
    for n in 0..6 {
        chat.session("s").send(user(&format!("{n}{}", "x".repeat(400)))).await;
    }
    let failed = chat.session("s").failed_turns(0..u64::MAX, 9).await.unwrap();
    let texts: Vec<_> =
        failed.iter().map(|it| it.message.as_ref().unwrap().0.text()[..1].to_owned()).collect();
    assert_eq!(texts, ["3", "4", "5"]);
}

// D29: the text that was shown of an answer that failed is kept beside the history.
#[tokio::test]
async fn the_text_that_was_shown_of_a_failed_answer_is_kept_with_its_turn() {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        let turn = TurnContext::of(&cx).unwrap();
        let stream = turn.stream();
        stream.begin_message(cx.state().messages.len()).show_text_piece("half");
        Err(NodeError::new("no").with_category("provider_unavailable"))
    });
    let chat = crate::bench::chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
    let failed = chat.session("s").failed_turns(0..u64::MAX, 9).await.unwrap();
    let (text, side) = &failed[0].made[0];
    assert_eq!((text.text().as_ref(), side), ("half", &Some(serde_json::json!({ "interrupted": true }))));
}
