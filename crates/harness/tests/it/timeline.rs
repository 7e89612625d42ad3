//! Timelines: the stored entries of a turn, in the order of time, and the absent ones.

use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{Ctx, Graph, NodeError, Projection, Retry, RetryBackoff, Signal};
use singletree_harness::{
    Chat, Durability, KeptEvents, OpenCallState, Retention, SendOptions, Timeline, TimelineEntryKind,
    ToolCallLog,
};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, Talk, TokioClock, agent, approve, asking, at, chain, says, user};

fn chat(graph: &Graph<Talk>, durability: Durability) -> Chat {
    Chat::builder().agent(agent(graph, durability)).clock(TokioClock::new()).open(TestStore::new()).unwrap()
}

/// Writes each entry in a line: its time, its node, its content.
fn lines(timeline: &Timeline) -> Vec<String> {
    let begin = timeline.turns[0].accepted_at;
    let mut lines = Vec::new();
    for turn in &timeline.turns {
        for entry in &turn.entries {
            let made = entry.made_by.as_ref().map_or(String::new(), |it| format!(" {}", it.node));
            let what = match &entry.what {
                TimelineEntryKind::Accepted { text } => {
                    format!("accepted {}", text.clone().unwrap_or_default())
                }
                TimelineEntryKind::Signal { signal, how, .. } => format!("signal {signal} {how}"),
                TimelineEntryKind::Message { text, calls, .. } => format!("said {text}{}", calls.join(",")),
                TimelineEntryKind::ToolResult { call, status, text } => {
                    format!("{} {} {text}", call.tool, status.as_str())
                }
                TimelineEntryKind::Discarded { text, .. } => format!("dropped {text}"),
            };
            lines.push(format!("{}{made} {what}", entry.at.duration_since(begin).as_secs()));
        }
        let attempt = |it: Option<u32>| it.map(|it| format!("#{it}")).unwrap_or_default();
        let ended = turn.ended_in.as_ref().map(|it| format!(" at {}{}", it.node, attempt(it.attempt)));
        let ended = ended.unwrap_or_default();
        lines.push(format!("{}{ended}", turn.status.as_str()));
    }
    lines
}

/// A node that takes a second and says a word.
async fn slow(word: &'static str) -> Result<crate::bench::TalkUpdate, NodeError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(says(word))
}

fn slowly() -> Graph<Talk> {
    let builder = Graph::builder().node("one", |_| slow("1")).node("two", |_| slow("2"));
    chain(builder, &["one", "two"])
}

#[tokio::test(start_paused = true)]
async fn at_level_step_each_message_has_its_node_and_the_time_of_its_commit() {
    let chat = chat(&slowly(), Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let timeline = chat.timeline(turn.id()).await.unwrap();
    assert_eq!(lines(&timeline), ["0 accepted m", "1 one said 1", "2 two said 2", "completed"]);
    assert_eq!(timeline.turns[0].kept, KeptEvents::Whole);
}

#[tokio::test(start_paused = true)]
async fn at_level_turn_nothing_is_said_of_nodes_that_is_not_known() {
    let chat = chat(&slowly(), Durability::Turn);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let timeline = chat.timeline(turn.id()).await.unwrap();
    assert_eq!(lines(&timeline), ["0 accepted m", "2 said 1", "2 said 2", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_subgraph_said_is_its_nodes_where_that_is_known() {
    let inner = chain(Graph::builder().node("deep", |_| slow("in")), &["deep"]);
    let with = |names: &[&str]| {
        let builder = Graph::builder().node("two", |_| slow("2"));
        chain(builder.subgraph("sub", &inner, Projection::by_name()), names)
    };
    let told = async |graph: &Graph<Talk>| {
        let chat = chat(graph, Durability::Step);
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        turn.outcome().await;
        lines(&chat.timeline(turn.id()).await.unwrap())
    };
    let last = ["0 accepted m", "1 two said 2", "2 sub said in", "completed"];
    assert_eq!(told(&with(&["two", "sub"])).await, last);
    // Leaving it is committed with the node after it: which of the two made a message is not recorded.
    assert_eq!(told(&with(&["sub", "two"])).await, ["0 accepted m", "2 said in", "2 said 2", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_tried_in_vain_tells_the_last_attempt() {
    let never = |_: Ctx<Talk>| async {
        Err::<crate::bench::TalkUpdate, _>(NodeError::new("not yet").mark_transient())
    };
    let retry = Retry::new().backoff(RetryBackoff::Constant(Duration::from_secs(3)));
    let builder = Graph::builder().node("flaky", never).node_middleware("flaky", retry);
    let chat = chat(&chain(builder, &["flaky"]), Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let timeline = chat.timeline(turn.id()).await.unwrap();
    assert_eq!(lines(&timeline), ["0 accepted m", "errored at flaky#2"]);
    let span = &timeline.turns[0];
    assert_eq!(span.ended_at.unwrap().duration_since(span.accepted_at), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_tells_where_and_what_it_had_made() {
    let node = |_: Ctx<Talk>| async {
        Err::<crate::bench::TalkUpdate, _>(NodeError::new("no").with_category("c_failed"))
    };
    let builder = Graph::builder().node("one", |_| slow("1")).node("two", node);
    let graph = chain(builder, &["one", "two"]);
    // At level `turn` no event tells of discarded messages.
    for (level, made) in [(Durability::Step, "1 one said 1"), (Durability::Turn, "1 dropped 1")] {
        let chat = chat(&graph, level);
        let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
        turn.outcome().await;
        let timeline = chat.timeline(turn.id()).await.unwrap();
        assert_eq!(lines(&timeline), ["0 accepted m", made, "errored at two#0"]);
        assert_eq!(timeline.turns[0].error.as_ref().unwrap().category, "c_failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_days_stands_between_the_turns_of_its_invocation() {
    let chat = chat(&asking(&Log::default(), Signal::new("go").with("kind", "approval")), Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    // Another turn of the session is not part of it.
    chat.session("s").send(user("again")).await;
    let waiting = chat.timeline(turn.id()).await.unwrap();
    assert_eq!(lines(&waiting), ["0 accepted m", "0 ask said ask", "suspended at gate"]);
    let stands = waiting.stands.unwrap();
    assert_eq!((stands.at[0].node.as_str(), stands.open_calls.len()), ("gate", 0));
    assert_eq!((waiting.waits[0].status, waiting.waits[0].ended_at), ("pending", None));
    tokio::time::sleep(Duration::from_secs(2 * 86_400)).await;
    let resumed = chat.answer(at("s", "go"), approve(true)).await.unwrap();
    resumed.outcome().await;
    let whole = chat.timeline(resumed.id()).await.unwrap();
    let told = [
        "0 accepted m",
        "0 ask said ask",
        "suspended at gate",
        "172800 signal go consumed",
        "172800 act said done",
        "completed",
    ];
    assert_eq!(lines(&whole), told);
    let wait = &whole.waits[0];
    assert_eq!(wait.ended_at.unwrap().duration_since(wait.since), Duration::from_secs(172_800));
    assert_eq!((wait.status, &wait.metadata), ("consumed", &Some(json!({ "kind": "approval" }))));
    assert_eq!(whole.stands, None);
}

// D7
#[tokio::test(start_paused = true)]
async fn a_turn_that_runs_tells_how_far_its_calls_are() {
    let door = Door::shut();
    let inside = door.clone();
    let ask = |_: Ctx<Talk>| async {
        let calls = ["a", "b", "c"].map(|it| ToolCall::new(it, it, serde_json::Map::new()));
        Ok(Talk::update().messages([ChatMessage::assistant("").with_tool_calls(calls)]))
    };
    let act = move |cx: Ctx<Talk>| {
        let door = inside.clone();
        async move {
            for (name, fact) in
                [ToolCallLog::intent_record(1, 0), ToolCallLog::result_record(1, 0, "done", Some(1))]
            {
                cx.record(&name, fact).await?;
            }
            door.pass().await;
            let results = ["a", "b", "c"].map(|it| ChatMessage::tool(it, "error: no"));
            Ok(Talk::update().messages(results))
        }
    };
    let graph = chain(Graph::builder().node("ask", ask).node("act", act), &["ask", "act"]);
    let chat = chat(&graph, Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    door.somebody().await;
    let timeline = chat.timeline(turn.id()).await.unwrap();
    assert_eq!(lines(&timeline), ["0 accepted m", "0 ask said a,b,c", "open"]);
    let stands = timeline.stands.unwrap();
    let states: Vec<_> = stands.open_calls.iter().map(|it| (it.call.tool.as_str(), it.state)).collect();
    assert_eq!(
        states,
        [("a", OpenCallState::Gave), ("b", OpenCallState::Begun), ("c", OpenCallState::Asked)]
    );
    door.open();
    turn.outcome().await;
    let ended = chat.timeline(turn.id()).await.unwrap();
    let results = ["0 act a error error: no", "0 act b error error: no", "0 act c error error: no"];
    assert_eq!(lines(&ended)[2..5], results);
    assert_eq!(ended.stands, None);
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_told_and_what_never_was_is_unknown() {
    let chat = chat(&slowly(), Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let keep = |events| Retention { turns: None, events: Some(events), age: None };
    let kept = async |retention: Retention| {
        chat.retain(&retention).await.unwrap();
        let timeline = chat.timeline(turn.id()).await.unwrap();
        (timeline.turns[0].kept, lines(&timeline).len())
    };
    assert_eq!(kept(keep(4)).await, (KeptEvents::Whole, 4));
    assert_eq!(kept(keep(2)).await, (KeptEvents::Partly, 2));
    assert_eq!(kept(keep(0)).await, (KeptEvents::Nothing, 1));
    let unknown = chat.timeline(&"none".parse().unwrap()).await.unwrap_err();
    assert_eq!(unknown.category(), "chat_turn_unknown");
    let later = format!("{}.7", turn.id()).parse().unwrap();
    assert_eq!(chat.timeline(&later).await.unwrap_err().category(), "chat_turn_unknown");
}

// INV-4: who made a message is said in the row that tells of it; no row is added.
#[tokio::test(start_paused = true)]
async fn a_document_of_a_timeline_keeps_its_form() {
    let chat = chat(&slowly(), Durability::Step);
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    turn.outcome().await;
    let document = serde_json::to_value(chat.timeline(turn.id()).await.unwrap()).unwrap();
    let time = &document["turns"][0]["accepted_at"];
    let after = |seconds: i64| json!(time.as_i64().unwrap() + seconds * 1_000);
    let said = |at: i64, node: &str, text: &str| {
        let made_by = json!({ "node": node });
        json!({ "at": after(at), "entry": "message", "made_by": made_by, "role": "assistant", "text": text })
    };
    let expected = json!({
        "session": "s",
        "agent": "a",
        "invocation": turn.id().to_string(),
        "turns": [{
            "turn": turn.id().to_string(),
            "answers": "message",
            "status": "completed",
            "accepted_at": time,
            "ended_at": after(2),
            "deaths": 0,
            "kept": "whole",
            "entries": [
                { "at": time, "entry": "accepted", "text": "m" },
                said(1, "one", "1"),
                said(2, "two", "2"),
            ],
        }],
        "waits": Value::Array(Vec::new()),
    });
    assert_eq!(document, expected);
    assert_eq!(chat.session("s").last_turns(5).await.unwrap(), [turn.id().clone()]);
}
