//! Turns that end while tools run: finished calls keep their results, running calls are in doubt, the rest is closed
//! (D7, D8, D10).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::{Agent, ApprovalPolicy};
use singletree_durable::{ItemRange, Journal, MemoryStore, SessionId, SessionKey, TenantId};
use singletree_harness::{Chat, ChatBuilder, GraphAgent, Limits, SendOptions, Turn};
use singletree_llm::{ChatMessage, Script, ScriptedProvider};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_tools::{Effect, Recovery, Tool, ToolContext, TypedTool};
use tokio::sync::Notify;

use crate::probe::World;
use crate::rig::{SESSION, completed, decide, errored, script, send, toolbox, transcript};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct What {
    what: String,
}

/// Tools of which one call never ends; they tell when it has begun.
#[derive(Clone, Default)]
struct Stuck {
    at: Arc<str>,
    reached: Arc<Notify>,
}

impl Stuck {
    fn at(at: &str) -> Self {
        Self { at: at.into(), reached: Arc::default() }
    }

    fn tool(&self, name: &'static str, effect: Effect) -> Arc<dyn Tool> {
        let stuck = self.clone();
        let tool = TypedTool::new(name, "Does.", effect, move |it: What, _: ToolContext| {
            let stuck = stuck.clone();
            async move {
                if format!("{name} {}", it.what) == *stuck.at {
                    stuck.reached.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok(format!("did {}", it.what))
            }
        });
        Arc::new(tool.unwrap())
    }

    fn agent(&self) -> GraphAgent {
        let tools = toolbox(vec![
            self.tool("look", Effect::Read),
            self.tool("act", Effect::SafeWrite),
            self.tool("send", Effect::Destructive),
        ]);
        let provider = Arc::new(ScriptedProvider::new(script()));
        Agent::new("a", provider).toolbox(tools).ask_before(ApprovalPolicy::default()).build().unwrap()
    }

    fn chat(&self) -> ChatBuilder {
        Chat::builder().agent(self.agent())
    }
}

async fn submit(chat: &Chat, text: &str) -> Turn {
    chat.session(SESSION).submit(ChatMessage::user(text), SendOptions::new()).await.unwrap()
}

const UNKNOWN: &str = r#"tool: {"reason":"it ran when the turn ended; whether it took effect is not known","status":"unknown"}"#;
const FAILED: &str = r#"tool: {"reason":"chat_budget_exhausted","status":"failed"}"#;
const CANCELLED: &str = r#"tool: {"reason":"the turn was cancelled","status":"cancelled"}"#;

// D8, D10
#[tokio::test]
async fn a_cancelled_turn_keeps_what_its_calls_gave() {
    for (text, at, kept) in [
        ("acts", "act b", vec!["tool: did a", UNKNOWN]),
        ("acts", "act a", vec![UNKNOWN, CANCELLED]),
        ("mixed", "look 1", vec![CANCELLED; 5]),
        ("mixed", "act a", vec![CANCELLED, UNKNOWN, CANCELLED, CANCELLED, CANCELLED]),
        ("mixed", "look 2", vec![CANCELLED, "tool: did a", CANCELLED, CANCELLED, CANCELLED]),
        ("mixed", "act b", vec![CANCELLED, "tool: did a", CANCELLED, UNKNOWN, CANCELLED]),
        ("mixed", "look 3", vec![CANCELLED, "tool: did a", CANCELLED, "tool: did b", CANCELLED]),
    ] {
        let stuck = Stuck::at(at);
        let chat = stuck.chat().open(MemoryStore::new()).unwrap();
        let turn = submit(&chat, text).await;
        stuck.reached.notified().await;
        let outcome = chat.cancel(turn.id()).await.unwrap().outcome().await;
        assert_eq!(errored(&outcome).error_category, "chat_turn_cancelled", "{text} at {at}");
        assert_eq!(transcript(&chat).await[2..], kept, "{text} at {at}");
        // A provider takes the history as it is: the conversation goes on.
        completed(&send(&chat, "say hello").await);
    }
}

/// Approves both calls of "sends", so that its message is committed before its tools run, and waits until they are
/// stuck.
async fn approved(chat: &Chat, stuck: &Stuck) -> Turn {
    submit(chat, "sends").await.outcome().await;
    decide(chat, json!({ "approved": true })).await;
    let wait = crate::rig::waiting(chat).await;
    let turn = crate::rig::answer(chat, &wait, json!({ "approved": true })).await.unwrap();
    stuck.reached.notified().await;
    turn
}

// D8, D13: the same for a turn whose budget ends it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_runs_out_of_time_keeps_what_its_calls_gave() {
    let stuck = Stuck::at("act m");
    let limits = Limits { turn_time: Duration::from_secs(3), ..Limits::default() };
    let chat = stuck.chat().limits(limits).open(MemoryStore::new()).unwrap();
    let outcome = approved(&chat, &stuck).await.outcome().await;
    assert_eq!(errored(&outcome).error_category, "chat_budget_exhausted");
    let failed = r#"tool: {"reason":"chat_budget_exhausted","status":"failed"}"#;
    assert_eq!(transcript(&chat).await[2..], ["tool: did a", UNKNOWN, failed]);
}

// D8, D24: the same for a turn that is not run again after its process died.
#[tokio::test]
async fn a_turn_that_is_given_up_keeps_what_its_calls_gave() {
    let store = MemoryStore::new();
    let stuck = Stuck::at("act m");
    let chat = stuck.chat().open(store.clone()).unwrap();
    let turn = approved(&chat, &stuck).await;
    let after = store.reopen();
    chat.shutdown(Duration::ZERO).await;
    let limits = Limits { deaths: 1, ..Limits::default() };
    let chat = Stuck::default().chat().limits(limits).open(after).unwrap();
    chat.sweep().await.unwrap();
    let outcome = chat.turn(turn.id()).await.unwrap().outcome().await;
    assert_eq!(errored(&outcome).error_category, "chat_turn_crashed");
    let failed = r#"tool: {"reason":"chat_turn_crashed","status":"failed"}"#;
    assert_eq!(transcript(&chat).await[2..], ["tool: did a", UNKNOWN, failed]);
}

// D8, D29: the same for a turn that fails before its calls became history.
#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_keeps_what_its_calls_gave() {
    for (text, at, kept) in [
        ("acts", "act b", vec!["tool: did a", UNKNOWN]),
        ("mixed", "act a", vec![FAILED, UNKNOWN, FAILED, FAILED, FAILED]),
    ] {
        let stuck = Stuck::at(at);
        let limits = Limits { turn_time: Duration::from_secs(3), ..Limits::default() };
        let chat = stuck.chat().limits(limits).open(MemoryStore::new()).unwrap();
        let outcome = send(&chat, text).await;
        assert_eq!(errored(&outcome).error_category, "chat_budget_exhausted");
        assert_eq!(transcript(&chat).await[2..], kept, "{text} at {at}");
        completed(&send(&chat, "say hello").await);
    }
}

// D11, D29: a turn whose calls only read adds nothing; its record keeps its messages.
#[tokio::test(start_paused = true)]
async fn a_turn_that_only_read_adds_nothing_and_its_record_keeps_what_it_made() {
    let store = MemoryStore::new();
    let stuck = Stuck::at("look 1");
    let limits = Limits { turn_time: Duration::from_secs(3), ..Limits::default() };
    let chat = stuck.chat().limits(limits).open(store.clone()).unwrap();
    let outcome = send(&chat, "mixed").await;
    assert_eq!(errored(&outcome).error_category, "chat_budget_exhausted");
    assert_eq!(transcript(&chat).await, Vec::<String>::new());
    let key = SessionKey::new(TenantId::single(), SessionId::parse(SESSION).unwrap());
    let made = store.read_items(&key, &ItemRange::Turn(0)).await.unwrap();
    assert_eq!(made.len(), 2, "the user's message and the model's: {made:?}");
}

/// The small script, whose model fails after any tool with this category.
fn failing_after_tools(category: &str) -> Arc<ScriptedProvider> {
    let failing = json!({ "model": "test", "rules": [
        { "when": { "user": ["say {what}"] }, "then": { "reply": "You said: {what}" } },
        { "when": { "user": ["act"] }, "then": { "calls": crate::rig::calls(&[("act", "a")]) } },
        { "when": { "results": "any" }, "then": { "reply": "Half", "error": { "category": category, "message": "down" } } },
    ] });
    Arc::new(ScriptedProvider::new(Script::from_json(&failing.to_string()).unwrap()))
}

// C1, C2, D29: a provider that fails behind a tool; the next model call reads that the tool has run.
#[tokio::test]
async fn a_provider_that_fails_behind_an_effect_takes_nothing_back() {
    for category in ["provider_unavailable", "provider_rate_limit", "provider_authentication"] {
        let world = World::default();
        let provider = failing_after_tools(category);
        let agent = crate::rig::small_with(provider, &world, Recovery::Report).build().unwrap();
        let chat = crate::rig::open(agent, MemoryStore::new());
        for _ in 0..3 {
            let options = SendOptions::new().key("k");
            let outcome = chat.session(SESSION).send_with(ChatMessage::user("act"), options).await;
            assert_eq!(errored(&outcome).error_category, category);
            assert!(!errored(&outcome).retry_safe);
        }
        assert_eq!(world.whats(), ["act a"], "one message under one key, one effect");
        assert_eq!(transcript(&chat).await[2..], ["tool: did a"]);
        completed(&send(&chat, "say hello").await);
    }
}

// D7: in doubt is only a call that had begun: the others are run, whatever they are.
#[tokio::test(start_paused = true)]
async fn a_call_that_had_not_begun_is_run_after_a_crash() {
    let store = MemoryStore::new();
    // Accept, model; then it is recorded that the call begins.
    let dying = FaultInjectingStore::new(Arc::new(store.clone()), 3, FailedWriteEffect::Before);
    let chat = Stuck::default().chat().open(dying.clone()).unwrap();
    let turn = submit(&chat, "act").await;
    drop(tokio::time::timeout(Duration::from_secs(60), turn.outcome()).await);
    assert!(dying.fired());
    let after = store.reopen();
    chat.shutdown(Duration::ZERO).await;
    let chat = Stuck::default().chat().open(after).unwrap();
    chat.sweep().await.unwrap();
    completed(chat.turn(turn.id()).await.unwrap().outcome().await.as_ref());
    assert_eq!(transcript(&chat).await[2], "tool: did a");
}
