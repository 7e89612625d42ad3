//! A tool loop that ends early at every point: the next request is one that the server accepts (INV-6).
//!
//! The history is kept as the harness keeps it: an answer is there whole or not at all (or its shown text, marked as
//! interrupted), and calls that nobody answered are closed before anybody speaks.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;
use singletree_llm::{ChatMessage, Provider, Request, ResponseDelta, Role, find_open_calls};
use singletree_providers::Wire;

use crate::rig::{Answer, Canned, provider, question_with_tools, stream};
use crate::rules::faults;
use crate::sequences::{answers, tool_turn};

const WIRES: &[Wire] = &[Wire::OpenAi, Wire::Anthropic, Wire::Gemini];

/// Closes the calls that are open in the last assistant message, as whoever ends a turn early does.
fn closed(mut history: Vec<Arc<ChatMessage>>) -> Vec<Arc<ChatMessage>> {
    let Some(at) = history.iter().rposition(|it| it.role == Role::Assistant) else { return history };
    let asked = Arc::clone(&history[at]);
    let open: Vec<String> =
        find_open_calls(&asked, &history[at + 1..]).into_iter().map(|it| it.id.clone()).collect();
    history.extend(open.into_iter().map(|id| Arc::new(ChatMessage::tool(id, "cancelled"))));
    history
}

/// Sends a history with one more message of the user; returns the faults for which the server would refuse it.
async fn refused(wire: Wire, mut history: Vec<Arc<ChatMessage>>) -> Vec<String> {
    history.push(Arc::new(ChatMessage::user("Go on.")));
    let mut request = question_with_tools();
    request.messages = history;
    let transport = Canned::new([Answer::json(500, &json!({}))]);
    provider(wire, &transport).complete(&request).await.unwrap_err();
    assert_eq!(transport.requests().len(), 1, "{wire:?}: it is not sent");
    faults(wire, &transport.sent())
}

/// Stops to listen after so many deltas. Returns the text that was shown, or none when the stream had ended by then.
async fn interrupted(wire: Wire, request: &Request, deltas: usize) -> Option<String> {
    let transport = Canned::new([Answer::events(tool_turn(wire))]);
    let provider = provider(wire, &transport);
    let mut stream = provider.stream_deltas(request).await.unwrap();
    let mut text = String::new();
    for _ in 0..deltas {
        match stream.next().await?.unwrap() {
            ResponseDelta::Text { text: more, .. } => text.push_str(&more),
            ResponseDelta::Finish { .. } => return None,
            ResponseDelta::Thinking { .. }
            | ResponseDelta::RedactedThinking { .. }
            | ResponseDelta::ToolCall { .. } => {}
        }
    }
    Some(text)
}

#[tokio::test]
async fn a_reply_that_is_interrupted_at_any_delta_leaves_an_acceptable_history() {
    for &wire in WIRES {
        let request = question_with_tools();
        let mut deltas = 0;
        while let Some(text) = interrupted(wire, &request, deltas).await {
            let mut history = request.messages.clone();
            if !text.is_empty() {
                history.push(Arc::new(ChatMessage::assistant(text)));
            }
            assert_eq!(refused(wire, history).await, [""; 0], "{wire:?} after {deltas} deltas");
            deltas += 1;
        }
        assert!(deltas > 3, "{wire:?}: the reply has deltas to stop at");
    }
}

#[tokio::test]
async fn a_tool_loop_that_ends_at_any_point_leaves_an_acceptable_history() {
    const ROUNDS: usize = 3;
    for &wire in WIRES {
        let mut history = vec![Arc::new(ChatMessage::system("Be brief."))];
        history.extend(question_with_tools().messages);
        for round in 0..ROUNDS {
            let mut request = question_with_tools();
            request.messages.clone_from(&history);
            let transport = Canned::new([Answer::events(tool_turn(wire))]);
            let answer = stream(&provider(wire, &transport), &request).await.end.unwrap();
            assert_eq!(faults(wire, &transport.sent()), [""; 0], "{wire:?}, round {round}");
            let calls = answer.message.tool_calls.clone();
            assert_eq!(calls.len(), 2, "{wire:?}: both calls are there");
            history.push(Arc::new(answer.message));
            for call in &calls {
                let place = format!("{wire:?}, round {round}, before the result of {}", call.id);
                // Not closed, the history is one that the server refuses: the rules see it.
                assert_ne!(refused(wire, history.clone()).await, [""; 0], "{place}");
                assert_eq!(refused(wire, closed(history.clone())).await, [""; 0], "{place}");
                history.push(Arc::new(ChatMessage::tool(call.id.clone(), "")));
            }
            assert_eq!(refused(wire, history.clone()).await, [""; 0], "{wire:?}, after round {round}");
        }
    }
}

// spec: llm-provider §3.1.7
#[tokio::test]
async fn what_the_model_of_one_wire_said_goes_back_over_every_wire() {
    let answers = answers().await;
    assert!(answers.len() > 50, "the tables have answers");
    for (name, from, answer) in answers {
        for &to in WIRES {
            let mut history = question_with_tools().messages;
            history.push(Arc::new(answer.message.clone()));
            assert_eq!(refused(to, closed(history)).await, [""; 0], "{name:?} of {from:?} over {to:?}");
        }
    }
}
