//! Documents that are nested so deep that they could not be read back are refused where they come in, and are never
//! stored (INV-12, INV-13).

use serde_json::{Map, Value, json};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{Answer, Chat, ChatTurnOutcome, Durability, SendOptions, TurnContext};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_store_sqlite::SqliteStore;

use crate::bench::{
    Log, Talk, agent, approve, asking, at, calling, category, chain, check_rows, history, line, user,
};
use crate::doctor::sound;

/// A value of so many levels.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!("end"), |inner, _| json!([inner]))
}

fn object(levels: usize) -> Map<String, Value> {
    Map::from_iter([("x".to_owned(), deep(levels - 1))])
}

/// A message whose arguments have so many levels. It has three more itself.
fn calls(levels: usize) -> ChatMessage {
    ChatMessage::assistant("").with_tool_calls([ToolCall::new("c1", "t", object(levels))])
}

/// Opens a chat over a file.
async fn open(
    folder: &tempfile::TempDir,
    graph: &Graph<Talk>,
    durability: Durability,
) -> (SqliteStore, Chat) {
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let chat = Chat::builder().agent(agent(graph, durability)).open(store.clone()).unwrap();
    (store, chat)
}

/// A graph that makes the test's message in its first turn, and speaks plainly after that.
fn once(make: impl Fn(&Ctx<Talk>) -> ChatMessage + Send + Sync + 'static) -> Graph<Talk> {
    let builder = Graph::builder().node("make", move |cx: Ctx<Talk>| {
        let is_first = cx.state().messages.len() <= 1;
        let made = if is_first { make(&cx) } else { ChatMessage::assistant("plain") };
        async move { Ok(Talk::update().messages([made])) }
    });
    let builder = builder.node("end", |_: Ctx<Talk>| async { Ok(Talk::update()) });
    chain(builder, &["make", "end"])
}

/// Asserts that the session goes on in a new process, and that nothing in it is unreadable.
async fn goes_on(folder: &tempfile::TempDir, at: &str) {
    let graph = chain(
        Graph::builder().node("say", |_: Ctx<Talk>| async {
            Ok(Talk::update().messages([ChatMessage::assistant("still here")]))
        }),
        &["say"],
    );
    let (store, chat) = open(folder, &graph, Durability::Step).await;
    let outcome = chat.session("s").send(user("and now?")).await;
    assert_eq!(category(&outcome), "completed", "{at}: {}", line(&outcome));
    assert_eq!(history(&chat, "s").await.last().map(String::as_str), Some("a:still here"), "{at}");
    check_rows(&store, "s").await;
    drop(chat);
    sound(&store).await;
    store.close().await;
}

#[tokio::test]
async fn a_turn_that_makes_arguments_of_125_levels_ends_and_its_session_goes_on() {
    for (levels, durability) in [61, 62, 124, 125, 126, 127]
        .into_iter()
        .flat_map(|it| [(it, Durability::Turn), (it, Durability::Step)])
    {
        let folder = tempfile::tempdir().unwrap();
        let (store, chat) = open(&folder, &once(move |_| calls(levels)), durability).await;
        let outcome = chat.session("s").send(user("m")).await;
        let expected = if levels > 61 { "chat_budget_exhausted" } else { "completed" };
        assert_eq!(category(&outcome), expected, "{levels} levels, {durability:?}");
        if let ChatTurnOutcome::Errored(errored) = &outcome {
            assert!(errored.recorded, "{levels} levels, {durability:?}");
        }
        drop(chat);
        store.close().await;
        goes_on(&folder, &format!("{levels} levels, {durability:?}")).await;
    }
}

#[tokio::test]
async fn a_side_record_and_the_metadata_of_a_wait_are_bounded_in_the_same_way() {
    let beside = once(|cx| {
        let turn = TurnContext::of(cx).unwrap();
        let sides = turn.side_records();
        sides.set_side_value(cx.state().messages.len(), "x", deep(126));
        ChatMessage::assistant("m")
    });
    let waiting = asking(&Log::default(), Signal::new("ok").metadata(deep(126)));
    for (graph, what) in [(beside, "side record"), (waiting, "metadata")] {
        let folder = tempfile::tempdir().unwrap();
        let (store, chat) = open(&folder, &graph, Durability::Step).await;
        assert_eq!(category(chat.session("s").send(user("m")).await), "chat_budget_exhausted", "{what}");
        drop(chat);
        store.close().await;
        goes_on(&folder, what).await;
    }
}

#[tokio::test]
async fn a_message_its_notes_and_a_payload_of_too_many_levels_are_refused_before_anything_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, chat) = open(&folder, &calling(&Log::default(), Signal::new("go")), Durability::Step).await;
    for (message, notes) in [(calls(125), json!(1)), (user("m"), deep(125))] {
        let refused = chat
            .session("s")
            .submit(message, SendOptions::new().note("n", notes))
            .await
            .unwrap_err()
            .into_errored_turn();
        assert_eq!(refused.error_category, "chat_message_shape_invalid");
        assert_eq!(chat.session("s").info().await.unwrap_err().category(), "chat_session_unknown");
    }
    assert_eq!(category(chat.session("s").send(user("m")).await), "suspended");
    let refused = chat.answer(at("s", "go"), Answer::new(object(125))).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "suspension_resume_payload_invalid");
    let turn = chat.answer(at("s", "go"), approve(true)).await.unwrap();
    assert_eq!(category(turn.outcome().await), "completed");
    drop(chat);
    store.close().await;
    goes_on(&folder, "refused").await;
}
