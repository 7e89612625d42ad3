//! An agent as a node of another graph.

use std::sync::Arc;

use serde_json::json;
use singletree_agent::{Agent, ApprovalPolicy};
use singletree_durable::MemoryStore;
use singletree_engine::{Ctx, END, Graph, NodeResult, Projection};
use singletree_harness::{ChatEventKind, Durability, GraphAgent, Messages};
use singletree_llm::{ChatMessage, Provider, Role, Script};
use singletree_macros::State;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::{Effect, Recovery};

use crate::plays::{Plays, calls, fails, says};
use crate::probe::World;
use crate::rig::{
    SESSION, completed, decide, errored, open, probes, send, suspended, toolbox, transcript, watched,
};
use crate::watched::Watched;

/// A conversation, and the results of two researchers.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Desk {
    #[state(append)]
    messages: Messages,
    #[state(append)]
    question: Messages,
    #[state(append)]
    first: Messages,
    #[state(append)]
    second: Messages,
}

async fn brief(cx: Ctx<Desk>) -> NodeResult<Desk> {
    let question = cx.state().messages.last().unwrap().text().into_owned();
    Ok(Desk::update().question([ChatMessage::user(question)]))
}

async fn report(cx: Ctx<Desk>) -> NodeResult<Desk> {
    let found = |it: &Messages| {
        let last = it.iter().rev().find(|it| it.role == Role::Tool);
        last.map(|it| it.text().into_owned()).unwrap_or_default()
    };
    let text = format!("{} / {}", found(&cx.state().first), found(&cx.state().second));
    Ok(Desk::update().messages([ChatMessage::assistant(text)]))
}

/// A graph that lets the same loop work twice, on messages of its own.
fn desk(model: &Arc<Watched>, world: &World, approve: ApprovalPolicy) -> GraphAgent {
    desk_of(model.clone(), world, approve)
}

fn desk_of(model: Arc<dyn Provider>, world: &World, approve: ApprovalPolicy) -> GraphAgent {
    let tools = toolbox(probes(world, Recovery::Rerun));
    let research = Agent::new("research", model).toolbox(tools).ask_before(approve).graph().unwrap();
    let own = |field| Projection::by_name().inputs([("messages", "question")]).outputs([(field, "messages")]);
    let graph = Graph::<Desk>::builder()
        .node("brief", brief)
        .subgraph("first", &research, own("first"))
        .subgraph("second", &research, own("second"))
        .node("report", report)
        .edge("brief", "first")
        .edge("first", "second")
        .edge("second", "report")
        .edge("report", END)
        .entry("brief")
        .compile()
        .unwrap();
    GraphAgent::new("desk", &graph).durability(Durability::Step)
}

fn model() -> Arc<Watched> {
    let call = |tool: &str| json!([{ "tool": tool, "arguments": { "what": "a" } }]);
    let rules = [
        json!({ "when": { "user": ["act"], "results": [] }, "then": { "calls": call("act") } }),
        json!({ "when": { "results": "any" }, "then": { "reply": "Found." } }),
    ];
    Watched::scripted(Script::from_json(&json!({ "model": "test", "rules": rules }).to_string()).unwrap())
}

// INV-6, D7, D9: its messages are its own, its effects are named apart, and nothing of it is shown as the session's.
#[tokio::test]
async fn an_agent_inside_of_a_graph_works_on_messages_of_its_own() {
    let (model, world) = (model(), World::default());
    let chat = open(desk(&model, &world, ApprovalPolicy::default()), MemoryStore::new());
    let told = watched(&chat, "act", &[]).await;
    assert_eq!(transcript(&chat).await, ["user: act", "assistant: did a / did a"]);
    let keys = world.by_key();
    assert_eq!(keys.len(), 2, "two runs of one loop are two effects: {keys:?}");
    let deltas = told.iter().filter(|it| matches!(it.what, ChatEventKind::Delta { .. })).count();
    assert_eq!(deltas, 0);
    assert_eq!(model.asked()[1].len(), 3, "{:?}", model.asked());
    model.assert_legal("inside");
}

// D2: an approval inside of a graph is asked for, and given, as any other.
#[tokio::test]
async fn an_agent_inside_of_a_graph_waits_for_approval() {
    let (model, world, store) = (model(), World::default(), MemoryStore::new());
    let approve = || ApprovalPolicy::effects([Effect::SafeWrite]);
    let chat = open(desk(&model, &world, approve()), store.clone());
    suspended(&send(&chat, "act").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    let chat = open(desk(&model, &world, approve()), store.reopen());
    suspended(&decide(&chat, json!({ "approved": true })).await);
    completed(&decide(&chat, json!({ "approved": false, "reason": "no" })).await);
    assert_eq!(world.whats(), ["act a"]);
    let said = transcript(&chat).await;
    assert_eq!(said[1], r#"assistant: did a / {"reason":"no","status":"denied"}"#);
}

// D7, D26
#[tokio::test(start_paused = true)]
async fn wherever_the_process_dies_an_agent_inside_has_each_effect_once() {
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let mut n = 1;
        loop {
            let (model, world, store) = (model(), World::default(), MemoryStore::new());
            let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
            let first = open(desk(&model, &world, ApprovalPolicy::default()), dying.clone());
            let time = std::time::Duration::from_secs(60);
            drop(tokio::time::timeout(time, send(&first, "act")).await);
            let after = store.reopen();
            first.shutdown(std::time::Duration::ZERO).await;
            if !dying.fired() {
                break;
            }
            let second = open(desk(&model, &world, ApprovalPolicy::default()), after);
            let taken = second.sweep().await.unwrap();
            for turn in &taken {
                completed(turn.outcome().await.as_ref());
            }
            if !taken.is_empty() {
                assert_eq!(world.by_key().len(), 2, "dead at write {n}, {land:?}: {:?}", world.by_key());
            }
            model.assert_legal("inside, after a crash");
            n += 1;
        }
        assert!(n > 5);
    }
}

// D29: effects of an agent inside of a graph are effects of the turn, though its messages are no part of the history.
#[tokio::test]
async fn a_turn_that_fails_after_an_effect_inside_keeps_its_message_and_its_key() {
    let act = || calls(&[("a", "act", "{\"what\":\"a\"}")]);
    let plays = Plays::of([act(), says("Found."), fails(singletree_llm::Error::Unavailable)]);
    let (world, store) = (World::default(), MemoryStore::new());
    let chat = open(desk_of(plays, &world, ApprovalPolicy::default()), store);
    let key = || singletree_harness::SendOptions::new().key("k");
    let outcome = chat.session(SESSION).send_with(ChatMessage::user("act"), key()).await;
    let error = errored(&outcome);
    assert_eq!((error.error_category.as_str(), error.retry_safe), ("provider_unavailable", false));
    assert_eq!(transcript(&chat).await, ["user: act"]);
    let failed = chat.session(SESSION).failed_turns(0..9, 9).await.unwrap();
    assert!(failed[0].effects, "{failed:?}");
    let again = chat.session(SESSION).send_with(ChatMessage::user("act"), key()).await;
    assert_eq!(errored(&again).turn, error.turn);
    assert_eq!(world.whats(), ["act a"]);
}
