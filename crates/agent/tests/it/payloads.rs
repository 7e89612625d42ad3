//! The texts of model calls and tools in the traces of turns: those that the model was shown and answered, read from the history.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::MemoryStore;
use singletree_harness::Chat;
use singletree_llm::ChatMessage;
use singletree_store_testing::FailedWriteEffect;
use singletree_telemetry::{AttributeValue, SpanSettings, TraceSpan};
use singletree_tools::Recovery;

use crate::crashes::{process, survivor_of_death_at};
use crate::probe::World;
use crate::rig::{SESSION, decide, errored, line, open, script, send, small_with, transcript};
use crate::watched::Watched;

/// The texts of one span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Model { input: Vec<String>, output: String },
    Tool { arguments: String, result: String },
}

/// Renders the turns of the session with texts, and returns those of their spans, in their order.
async fn told(chat: &Chat) -> Vec<Told> {
    let settings = SpanSettings::new().disable_provider_payload(false);
    let mut told = Vec::new();
    for turn in chat.session(SESSION).turns(0, 1000).await.unwrap().items {
        let trace = chat.turn_trace(&turn.id).await.unwrap();
        let without = trace.render_spans(&settings);
        assert_eq!(without.iter().find_map(texts_of), None, "there are none before they are read");
        let spans = trace.with_texts(chat).await.unwrap().render_spans(&settings);
        told.extend(spans.iter().filter_map(texts_of));
    }
    told
}

fn text(span: &TraceSpan, name: &str) -> Option<String> {
    match span.attributes.get(name)? {
        AttributeValue::Text(text) => Some(text.to_string()),
        other => panic!("{other:?}"),
    }
}

fn texts_of(span: &TraceSpan) -> Option<Told> {
    if let Some(input) = text(span, "openarmature.llm.input.messages") {
        let messages: Vec<ChatMessage> = serde_json::from_str(&input).unwrap();
        let calls: Vec<Value> = text(span, "openarmature.llm.output.tool_calls")
            .map_or_else(Vec::new, |calls| serde_json::from_str(&calls).unwrap());
        let calls: String = calls
            .iter()
            .map(|call| format!("[{}{}]", call["name"].as_str().unwrap(), call["arguments"]))
            .collect();
        let content = text(span, "openarmature.llm.output.content").unwrap_or_default();
        return Some(Told::Model {
            input: messages.iter().map(line).collect(),
            output: format!("assistant: {content}{calls}"),
        });
    }
    let result = text(span, "openarmature.tool.call.result")?;
    let result: String = serde_json::from_str(&result).unwrap();
    Some(Told::Tool {
        arguments: text(span, "openarmature.tool.call.arguments").unwrap(),
        result: format!("tool: {result}"),
    })
}

/// Checks the texts of a conversation against the requests that the model got, and against the history.
pub(crate) async fn check(chat: &Chat, model: &Watched) {
    let (told, history) = (told(chat).await, transcript(chat).await);
    let inputs: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            Told::Model { input, .. } => Some(input.clone()),
            Told::Tool { .. } => None,
        })
        .collect();
    let mut asked = model.asked();
    for request in &mut asked {
        if let Some(system) = request.first_mut().filter(|line| line.starts_with("system: ")) {
            *system = "system: [1 message is not recorded]".to_owned();
        }
    }
    assert_eq!(inputs, asked);
    let of =
        |role: &str| -> Vec<_> { history.iter().filter(|line| line.starts_with(role)).cloned().collect() };
    let outputs: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            Told::Model { output, .. } if output != "assistant: " => Some(output.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(outputs, of("assistant: "));
    let results: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            Told::Tool { arguments, result } => {
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                assert_eq!(*result, format!("tool: did {}", arguments["what"].as_str().unwrap()));
                Some(result.clone())
            }
            Told::Model { .. } => None,
        })
        .collect();
    let (mut results, mut expected) = (results, of("tool: "));
    // Calls that only read run side by side.
    results.sort();
    expected.sort();
    assert_eq!(results, expected);
}

fn watched_chat(window: Option<u64>) -> (Chat, Arc<Watched>) {
    let (model, world) = (Watched::scripted(script()), World::default());
    let agent = small_with(model.clone(), &world, Recovery::Report);
    let agent = match window {
        Some(messages) => agent.window(messages),
        None => agent,
    };
    (open(agent.build().unwrap(), MemoryStore::new()), model)
}

// spec: observability §5.5.1
#[tokio::test]
async fn each_call_has_the_texts_that_it_was_made_with() {
    for window in [None, Some(3)] {
        let (chat, model) = watched_chat(window);
        for text in ["say a", "mixed", "look", "say b", "sends"] {
            send(&chat, text).await;
        }
        for _ in 0..2 {
            decide(&chat, serde_json::json!({ "approved": true })).await;
        }
        send(&chat, "acts").await;
        check(&chat, &model).await;
    }
}

#[tokio::test]
async fn a_turn_that_failed_has_the_texts_that_the_model_was_shown() {
    let (chat, model) = watched_chat(None);
    send(&chat, "say a").await;
    errored(&send(&chat, "cut").await);
    send(&chat, "say b").await;
    check(&chat, &model).await;
}

#[tokio::test]
async fn a_death_at_any_write_changes_no_text() {
    for asked in ["say hello", "mixed", "sends"] {
        let whole = process(MemoryStore::new(), (&World::default(), Recovery::Rerun), asked, || true).await;
        let expected: BTreeSet<_> = told(&whole).await.into_iter().collect();
        assert!(expected.iter().any(|told| matches!(told, Told::Model { .. })), "{expected:?}");
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let mut n = 1;
            while let Some((chat, _)) = survivor_of_death_at(n, land, asked, Recovery::Rerun).await {
                let found: BTreeSet<_> = told(&chat).await.into_iter().collect();
                assert_eq!(found, expected, "{asked} dies at {n}, {land:?}");
                n += 1;
            }
            assert!(n > 2, "{asked}: the sweep has looked at something");
        }
    }
}

#[tokio::test]
async fn a_long_history_is_told_by_its_end() {
    let (chat, _) = watched_chat(None);
    for _ in 0..300 {
        send(&chat, "say a").await;
    }
    let told = told(&chat).await;
    let Some(Told::Model { input, output }) = told.last() else { panic!("{:?}", told.last()) };
    assert_eq!(
        input[..2],
        ["system: [1 message is not recorded]", "system: [86 earlier messages are left out]"]
    );
    assert_eq!((input.len(), output.as_str()), (2 + 512 + 1, "assistant: You said: a"));
}

// D25: no text of a deleted session is rendered afterwards.
#[tokio::test]
async fn the_texts_of_a_deleted_session_are_in_no_span() {
    let (chat, _) = watched_chat(None);
    send(&chat, "say canary-4711").await;
    send(&chat, "look").await;
    let settings = SpanSettings::new().disable_provider_payload(false);
    let mut traces = Vec::new();
    for turn in chat.session(SESSION).turns(0, 10).await.unwrap().items {
        traces.push(chat.turn_trace(&turn.id).await.unwrap());
    }
    chat.session(SESSION).delete(None).await.unwrap();
    // A session of its name is another one.
    send(&chat, "say something else").await;
    send(&chat, "look").await;
    for (trace, calls) in traces.into_iter().zip([1, 2]) {
        let spans = trace.with_texts(&chat).await.unwrap().render_spans(&settings);
        let told: Vec<_> = spans.iter().filter_map(texts_of).collect();
        assert_eq!(told.len(), calls, "{told:?}");
        for told in told {
            let Told::Model { input, .. } = told else { panic!("{told:?}") };
            assert_eq!(input, ["system: [1 message is not recorded]", "system: [deleted]"]);
        }
    }
}
