//! A small agent to test the loop with: its script, its tools, and how to talk to it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use singletree_agent::Agent;
use singletree_durable::{Journal, JournalMaintenance, MemoryStore};
use singletree_harness::{
    Answer, Chat, ChatEvent, ChatTurnOutcome, CompletedTurn, ErroredTurn, GraphAgent, IntoAgent, PendingWait,
    SignalAddress, SuspendedTurn, Turn,
};
use singletree_llm::{ChatMessage, Provider, Role, Script, ScriptedProvider};
use singletree_tools::{Effect, Recovery, Tool, ToolLimits, Toolbox};

use crate::probe::{Probe, World};

/// The session of all tests.
pub(crate) const SESSION: &str = "s";

/// Makes the calls of one message.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Value {
    calls.iter().map(|(tool, what)| json!({ "tool": tool, "arguments": { "what": what } })).collect()
}

/// The user's text, and the tools that the model then calls, each with its argument `what`.
const ASKED: &[(&str, &[(&str, &str)])] = &[
    ("look", &[("look", "a")]),
    ("act", &[("act", "a")]),
    ("acts", &[("act", "a"), ("act", "b")]),
    ("mixed", &[("look", "1"), ("act", "a"), ("look", "2"), ("act", "b"), ("look", "3")]),
    ("send", &[("send", "a")]),
    ("sends", &[("send", "a"), ("act", "m"), ("send", "b")]),
    ("meet", &[("meet", "a"), ("meet", "b")]),
];

/// A model that makes the requested tool calls, and then repeats their results.
pub(crate) fn script() -> Script {
    let mut rules = vec![
        json!({ "when": { "user": ["loop"], "results": "any" }, "then": { "calls": calls(&[("look", "a")]) } }),
        json!({ "when": { "user": ["think"] },
            "then": { "thinking": "Nobody may see this.", "reply": "I have thought." } }),
        json!({ "when": { "user": ["cut"] }, "then": { "reply": "Half an", "finish": "error" } }),
        json!({ "when": { "user": ["garble"] }, "then": { "finish": "error", "calls": [
            { "tool": "act", "raw_arguments": "{\"what\":" }, { "tool": "fly", "arguments": {} },
            { "tool": "send", "arguments": { "wot": "a" } } ] } }),
    ];
    for (asked, called) in ASKED {
        rules.push(json!({ "when": { "user": [asked] }, "then": { "calls": calls(called) } }));
    }
    rules.push(json!({ "when": { "user": ["say {what}"] }, "then": { "reply": "You said: {what}" } }));
    rules.push(json!({ "when": { "user": ["fail {category}"] }, "then": { "reply": "never" } }));
    rules.push(json!({ "when": { "results": "any" }, "then": { "reply": "All done." } }));
    Script::from_json(&json!({ "model": "test", "rules": rules }).to_string()).unwrap()
}

/// The tools of the small agent: `look` reads, `act` changes, `send` needs approval.
pub(crate) fn probes(world: &World, recovery: Recovery) -> Vec<Arc<dyn Tool>> {
    vec![
        Probe::shared("look", Effect::Read, Recovery::Rerun, world),
        Probe::shared("act", Effect::SafeWrite, recovery, world),
        Probe::shared("send", Effect::Destructive, recovery, world),
    ]
}

pub(crate) fn toolbox(tools: Vec<Arc<dyn Tool>>) -> Toolbox {
    Toolbox::new(tools, ToolLimits { time: Duration::from_secs(5), output_bytes: 1000 }).unwrap()
}

pub(crate) fn small_with(model: impl Provider + 'static, world: &World, recovery: Recovery) -> Agent {
    Agent::new("small", model).instructions("Be brief.").toolbox(toolbox(probes(world, recovery)))
}

pub(crate) fn small(world: &World, recovery: Recovery) -> GraphAgent {
    small_with(Arc::new(ScriptedProvider::new(script())), world, recovery).build().unwrap()
}

pub(crate) fn open(agent: impl IntoAgent, store: impl Journal + JournalMaintenance + 'static) -> Chat {
    Chat::builder().agent(agent).open(store).unwrap()
}

/// Opens a chat of the small agent on an empty store.
pub(crate) fn chat() -> (Chat, World) {
    let world = World::default();
    (open(small(&world, Recovery::Report), MemoryStore::new()), world)
}

pub(crate) async fn send(chat: &Chat, text: &str) -> ChatTurnOutcome {
    chat.session(SESSION).send(ChatMessage::user(text)).await
}

pub(crate) fn completed(outcome: &ChatTurnOutcome) -> &CompletedTurn {
    let ChatTurnOutcome::Completed(turn) = outcome else { panic!("it does not complete: {outcome:?}") };
    turn
}

pub(crate) fn suspended(outcome: &ChatTurnOutcome) -> &SuspendedTurn {
    let ChatTurnOutcome::Suspended(turn) = outcome else { panic!("it does not suspend: {outcome:?}") };
    turn
}

pub(crate) fn errored(outcome: &ChatTurnOutcome) -> &ErroredTurn {
    let ChatTurnOutcome::Errored(turn) = outcome else { panic!("it does not fail: {outcome:?}") };
    turn
}

/// Returns the one thing that waits.
pub(crate) async fn waiting(chat: &Chat) -> PendingWait {
    let mut pending = chat.session(SESSION).pending().await.unwrap();
    assert_eq!(pending.len(), 1, "{pending:?}");
    pending.remove(0).wait().clone()
}

pub(crate) fn payload(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Answers a wait by its number and the digest of its action.
pub(crate) async fn answer(
    chat: &Chat,
    wait: &PendingWait,
    value: Value,
) -> Result<Turn, singletree_harness::Error> {
    let answer = Answer::new(payload(value)).to(wait.wait.no, wait.wait.action.clone().unwrap_or_default());
    let signal = wait.descriptor.signal_id.clone();
    chat.answer(SignalAddress::Session { session: SESSION.into(), signal }, answer).await
}

/// Answers the one thing that waits, and returns how the turn ends that this starts.
pub(crate) async fn decide(chat: &Chat, value: Value) -> ChatTurnOutcome {
    let turn = answer(chat, &waiting(chat).await, value).await.unwrap();
    turn.outcome().await.as_ref().clone()
}

/// Returns the history, as lines of role and text; calls as `tool(arguments)`.
pub(crate) async fn transcript(chat: &Chat) -> Vec<String> {
    let history = chat.session(SESSION).history(0..1000).await.unwrap_or_default();
    history.iter().map(|it| line(&it.message)).collect()
}

pub(crate) fn line(message: &ChatMessage) -> String {
    let calls = message.tool_calls.iter().map(|it| {
        let arguments = it.arguments.clone().map_or(Value::Null, Value::Object);
        format!("[{}{}]", it.name, arguments)
    });
    let calls: String = calls.collect();
    match message.role {
        Role::Assistant => format!("assistant: {}{calls}", message.text()),
        role @ (Role::System | Role::User | Role::Tool) => format!("{role}: {}", message.text()),
    }
}

/// Sends a message and returns all events of its turn, as a subscriber that was there before receives them. Subscribes
/// at the end of the log, after the events `told`.
pub(crate) async fn watched(chat: &Chat, text: &str, told: &[ChatEvent]) -> Vec<ChatEvent> {
    let after = told.iter().rev().find_map(|it| it.id.clone());
    let mut events = chat.session(SESSION).events().after(after).stream().await.unwrap();
    let listening = async {
        let mut told = Vec::new();
        while told.last().is_none_or(|it: &ChatEvent| it.what.outcome().is_none()) {
            told.push(events.next().await.unwrap().unwrap());
        }
        told
    };
    // Polled in this order: who listens does so before the turn begins.
    tokio::join!(biased; listening, send(chat, text)).0
}
