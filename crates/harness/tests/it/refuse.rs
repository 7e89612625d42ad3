//! A request that is refused before acceptance leaves nothing (harness-chat §3.1, §5.1, D3).

use singletree_durable::{Journal, TurnRowQuery};
use singletree_engine::{Ctx, Graph};
use singletree_harness::{Chat, ChatTurnOutcome, Limits, SendOptions};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_test_store::TestStore;

use crate::bench::{
    Door, Log, Talk, called, category, chain, chat_of, history, key, name, plain, says, user,
};
use crate::sky::Sky;

// spec: harness-chat §3.1: no store is touched before the input is known to be valid.
#[tokio::test]
async fn nothing_is_read_or_written_before_the_input_is_known_to_be_valid() {
    let sky = Sky::over(TestStore::new());
    let limits = Limits { message_bytes: 200, ..Limits::default() };
    let builder = chat_of(&plain(&Log::default())).limits(limits);
    let chat = builder.open(sky.clone()).unwrap();
    let long = "x".repeat(513);
    for session in ["", "a\nb", "\u{7f}", long.as_str()] {
        let refused = chat.session(session).send(user("m")).await;
        assert_eq!(category(&refused), "harness_session_id_unresolved", "{session:?}");
        let ChatTurnOutcome::Errored(errored) = refused else { panic!() };
        assert_eq!((errored.error_bucket.as_str(), errored.turn), ("session_terminating", None));
    }
    let call = ToolCall::new("", "f", serde_json::Map::new());
    for message in [
        user(""),
        ChatMessage::system(""),
        ChatMessage::assistant(""),
        ChatMessage::tool("", "x"),
        ChatMessage::assistant("").with_tool_calls([call]),
        user(&"x".repeat(200)),
    ] {
        let refused = chat.session("s").send(message.clone()).await;
        assert_eq!(category(&refused), "chat_message_shape_invalid", "{message:?}");
        let ChatTurnOutcome::Errored(errored) = refused else { panic!() };
        assert_eq!(errored.error_bucket.as_str(), "user_correctable");
    }
    let options = SendOptions::new().agent("nobody");
    assert_eq!(category(&chat.session("s").send_with(user("m"), options).await), "chat_agent_unknown");
    assert_eq!(sky.calls(), 0);
}

async fn turns(store: &TestStore) -> usize {
    store.read_turns(&name("s"), &TurnRowQuery::From { no: 0, limit: 100 }).await.unwrap().len()
}

// INV-12
#[tokio::test]
async fn a_full_queue_refuses_and_keeps_no_key() {
    let door = Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let (store, limits) = (TestStore::new(), Limits { queue: 2, ..Limits::default() });
    let chat = chat_of(&chain(builder, &["n"])).limits(limits).open(store.clone()).unwrap();
    let submit =
        |chat: Chat, k: &'static str| async move { chat.session("s").submit(user("m"), key(k)).await };
    let first = submit(chat.clone(), "1").await.unwrap();
    door.somebody().await;
    let second = submit(chat.clone(), "2").await.unwrap();
    submit(chat.clone(), "3").await.unwrap();
    let refused = submit(chat.clone(), "4").await.unwrap_err().into_errored_turn();
    assert_eq!((refused.error_category.as_str(), refused.retry_safe), ("chat_queue_full", true));
    assert_eq!(submit(chat.clone(), "2").await.unwrap().id(), second.id(), "a duplicate takes no place");
    assert_eq!(turns(&store).await, 3);
    door.open();
    first.outcome().await;
    second.outcome().await;
    assert_eq!(submit(chat.clone(), "4").await.unwrap().outcome().await.as_str(), "completed");
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_nothing_is_accepted_and_what_was_waits_for_the_next_sweep() {
    let door = Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let (store, graph) = (
        TestStore::in_memory("over a shared store who waits for a turn is told what its next owner records"),
        chain(builder, &["n"]),
    );
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let first = chat.session("s").submit(user("m"), key("1")).await.unwrap();
    door.somebody().await;
    let second = chat.session("s").submit(user("n"), key("2")).await.unwrap();
    let closing = tokio::spawn({
        let chat = chat.clone();
        async move { chat.shutdown(std::time::Duration::from_secs(60)).await }
    });
    // Who waits for a turn that does not run any more is told so.
    let ChatTurnOutcome::Errored(unfinished) = second.outcome().await.as_ref().clone() else { panic!() };
    assert_eq!((unfinished.error_category.as_str(), unfinished.recorded), ("chat_shutting_down", false));
    assert_eq!(category(&chat.session("s").send(user("o")).await), "chat_shutting_down");
    door.open();
    assert!(closing.await.unwrap());
    assert_eq!(first.outcome().await.as_str(), "completed");
    assert_eq!(turns(&store).await, 2);
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    let swept = chat.sweep().await.unwrap();
    assert_eq!(swept.iter().map(|it| it.id()).collect::<Vec<_>>(), [second.id()]);
    assert_eq!(swept[0].outcome().await.as_str(), "completed");
}

/// A graph that leaves a call open for the sender of the message, and goes on when its result is sent.
fn leaving_a_call_open() -> Graph<Talk> {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        let last = cx.state().messages.last().unwrap();
        Ok(match last.tool_call_id.as_deref() {
            Some(_) => says(&format!("it gave {}", last.text())),
            None => called("c1"),
        })
    });
    chain(builder, &["n"])
}

// Finding F18; spec: harness-chat §10.4
#[tokio::test]
async fn a_tool_message_is_taken_where_it_answers_an_open_call_and_nowhere_else() {
    let store = TestStore::new();
    let chat = chat_of(&leaving_a_call_open()).open(store.clone()).unwrap();
    let refused = async |id: &str, turns_before: usize| {
        let outcome = chat.session("s").send(ChatMessage::tool(id, "4")).await;
        assert_eq!(category(&outcome), "chat_message_shape_invalid", "{id}");
        assert_eq!(turns(&store).await, turns_before, "refused before acceptance");
    };
    refused("c1", 0).await;
    chat.session("s").send(user("m")).await;
    refused("c2", 1).await;
    chat.session("s").send(ChatMessage::tool("c1", "4")).await;
    assert_eq!(history(&chat, "s").await, ["u:m", "a:(c1)", "t:c1=4", "a:it gave 4"]);
    refused("c1", 2).await;
}

// Finding F18
#[tokio::test]
async fn a_tool_message_in_the_queue_is_looked_at_when_its_turn_comes() {
    let door = Door::shut();
    let at_door = door.clone();
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let door = at_door.clone();
        async move {
            door.pass().await;
            Ok(says("x"))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    let first = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let second = chat.session("s").submit(ChatMessage::tool("c1", "4"), SendOptions::new()).await.unwrap();
    door.open();
    first.outcome().await;
    assert_eq!(category(second.outcome().await.as_ref()), "chat_message_shape_invalid");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:x"]);
}
