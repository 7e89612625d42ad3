//! The order of a Steerable stream, over random events.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use singletree_agent::{Agent, AgentProfile};
use singletree_durable::MemoryStore;
use singletree_harness::{Chat, ChatEvent, ChatEventKind};
use singletree_llm::{Role, Script, ScriptedProvider};
use singletree_protocol::steerable::{EventType, SseEvent};

use super::wire::SteerableEncoder;
use crate::Server;
use crate::fold::random::a_turn;
use crate::fold::{ChatProjection, agent_from_side};
use crate::shared::ServerState;

/// Returns the shared state of a server that gets no requests.
fn shared() -> Arc<ServerState> {
    let script = Script::from_json(r#"{ "model": "m", "rules": [] }"#).unwrap();
    let agent = Agent::new("a", ScriptedProvider::new(script)).build().unwrap();
    let store = MemoryStore::new();
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    let agents = [AgentProfile::new("x", "Ex", "2026-01-01T00:00:00Z")];
    Server::builder(chat, Arc::new(store)).listed_agents(agents).build().unwrap().shared()
}

/// Returns the events of a turn's stream.
fn told(shared: &Arc<ServerState>, events: &[ChatEvent]) -> Vec<SseEvent> {
    let (mut fold, mut wire) = (ChatProjection::default(), SteerableEncoder::new(shared.clone(), "s"));
    let pieces = events.iter().flat_map(|event| {
        let pieces = fold.apply_event(event);
        pieces.into_iter().flat_map(|it| wire.encode_piece(it, event.at)).collect::<Vec<_>>()
    });
    pieces.collect()
}

fn text<'a>(event: &'a SseEvent, name: &str) -> &'a str {
    event.payload.as_ref().and_then(|it| it.get(name)).and_then(Value::as_str).unwrap_or_default()
}

proptest! {
    // The order of a turn's stream; its texts equal the recorded ones.
    #[test]
    fn a_turn_is_told_in_order_and_whole(events in a_turn()) {
        let told = told(&shared(), &events);
        let ends: Vec<usize> = (0..told.len()).filter(|at| told[*at].kind == EventType::Done).collect();
        prop_assert_eq!(ends, [told.len() - 1], "a turn ends once, and that is the last that is told");
        let failed = |it: &SseEvent| matches!(it.kind, EventType::Error | EventType::BudgetExhausted);
        let failures = told.iter().filter(|it| failed(it)).count();
        let errored = matches!(events.last().unwrap().what, ChatEventKind::TurnErrored { .. });
        prop_assert_eq!(failures, usize::from(errored));
        prop_assert!(!errored || failed(&told[told.len() - 2]), "nothing but the end follows an error");

        let (mut speaker, mut calls) = (None, Vec::new());
        let mut texts: HashMap<String, (String, Option<String>)> = HashMap::new();
        for event in &told {
            match event.kind {
                EventType::Agent => speaker.clone_from(&event.agent_id),
                EventType::Content => {
                    let id = event.message_id.clone().unwrap();
                    let (said, owner) = texts.entry(id).or_insert_with(|| (String::new(), speaker.clone()));
                    prop_assert_eq!(&*owner, &speaker, "a message is of one agent");
                    said.push_str(event.content.as_deref().unwrap());
                }
                EventType::ToolCall => calls.push(text(event, "id").to_owned()),
                EventType::ToolResult => {
                    prop_assert!(calls.iter().any(|it| it == text(event, "callId")), "a call comes before its result");
                }
                EventType::Orchestration if event.event.as_deref() == Some("retracted") => {
                    texts.remove(text(event, "messageId"));
                }
                _ => {}
            }
        }
        // Text that was shown again under another name belongs to the same message.
        let said: HashMap<String, (String, Option<String>)> =
            texts.into_iter().map(|(id, said)| (id.split('~').next().unwrap().to_owned(), said)).collect();
        let kept: HashMap<String, (String, Option<String>)> = events.iter().filter_map(|it| match &it.what {
            ChatEventKind::MessageAppended { id, message, side } if message.role == Role::Assistant => {
                let owner = agent_from_side(side.as_ref()).map(str::to_owned);
                let text = message.text().into_owned();
                (!text.is_empty()).then(|| (id.to_string(), (text, owner)))
            }
            _ => None,
        }).collect();
        prop_assert_eq!(said, kept);
        // Every call is sent once, with its result, once or again with equal content.
        let made: usize = events.iter().map(|it| match &it.what {
            ChatEventKind::MessageAppended { message, .. } => message.tool_calls.len(),
            _ => 0,
        }).sum();
        prop_assert_eq!(calls.len(), made);
        prop_assert!(told.iter().filter(|it| it.kind == EventType::ToolResult).count() >= made);
    }
}
