//! A model whose answers are drawn: it calls the tools that it is offered, with arguments that fit, and then answers.

use serde_json::Value;
use singletree_llm::{
    ChatMessage, ModelFinishReason, Request, ResponseDelta, Result, Role, TokenUsage, ToolCall,
    ToolChoicePolicy,
};

use crate::oracle::is_outcome_unknown;
use crate::random::SimulationRandom;
use crate::sample::draw_arguments;

/// After how many answers with calls it calls nothing more in a turn.
const CALLING_ANSWERS_MAX: usize = 3;

/// Of a hundred messages, for how many it calls tools at first; and again behind results.
const CALLS_PERCENT: (u64, u64) = (85, 30);

/// Of a hundred calls whose outcome it is told to be unknown, how many it repeats, as models do.
const REPEATS_PERCENT: u64 = 60;

/// Draws the answer to a request.
///
/// # Errors
/// `provider_invalid_request` when the request is not valid.
pub(super) fn draw_answer_deltas(
    request: &Request,
    random: &SimulationRandom,
) -> Result<Vec<Result<ResponseDelta>>> {
    request.check()?;
    let calls = draw_calls(request, random);
    let mut deltas = Vec::new();
    let reason = if calls.is_empty() { ModelFinishReason::Stop } else { ModelFinishReason::ToolCalls };
    if calls.is_empty() {
        deltas.push(ResponseDelta::from_text(draw_answer_text(request, random)));
    }
    for (index, call) in (0_u32..).zip(calls) {
        deltas.push(ResponseDelta::ToolCall {
            index,
            id: Some(call.id),
            name: Some(call.name),
            arguments: call.arguments.map(|arguments| Value::Object(arguments).to_string()),
            signature: None,
        });
    }
    let usage = TokenUsage { total_tokens: Some(10), ..TokenUsage::default() };
    deltas.push(ResponseDelta::Finish { reason, usage, raw: Value::Null });
    Ok(deltas.into_iter().map(Ok).collect())
}

fn draw_answer_text(request: &Request, random: &SimulationRandom) -> String {
    let shaped = request.response_schema.as_ref().and_then(|schema| draw_arguments(schema, random));
    match shaped {
        Some(answer) => Value::Object(answer).to_string(),
        None => format!("Answer {}.", random.draw_below(1_000_000)),
    }
}

fn draw_calls(request: &Request, random: &SimulationRandom) -> Vec<ToolCall> {
    let is_forbidden = matches!(request.tool_choice, Some(ToolChoicePolicy::None));
    if request.tools.is_empty() || is_forbidden {
        return Vec::new();
    }
    let behind_user = request.messages.iter().rev().take_while(|message| message.role != Role::User);
    let answers: Vec<&ChatMessage> = behind_user.map(AsRef::as_ref).collect();
    let calling = answers.iter().filter(|message| !message.tool_calls.is_empty()).count();
    let repeated = repeat_unknown_calls(&answers, random);
    if calling >= CALLING_ANSWERS_MAX {
        return Vec::new();
    }
    if !repeated.is_empty() {
        return repeated;
    }
    let percent = if calling == 0 { CALLS_PERCENT.0 } else { CALLS_PERCENT.1 };
    if !random.draw_percent(percent) {
        return Vec::new();
    }
    let count = random.draw_between(1, 2);
    (0..count).filter_map(|_| draw_call(request, random)).collect()
}

/// Repeats the last calls whose outcome is unknown to it. `answers` begins with the last message.
fn repeat_unknown_calls(answers: &[&ChatMessage], random: &SimulationRandom) -> Vec<ToolCall> {
    let results = answers.iter().take_while(|message| message.role == Role::Tool);
    let unknown: Vec<&str> = results
        .filter(|message| is_outcome_unknown(&message.text()))
        .filter_map(|message| message.tool_call_id.as_deref())
        .collect();
    let asking = answers.iter().find(|message| !message.tool_calls.is_empty());
    let calls = asking.into_iter().flat_map(|message| &message.tool_calls);
    let calls = calls.filter(|call| unknown.contains(&call.id.as_str()));
    calls
        .filter(|_| random.draw_percent(REPEATS_PERCENT))
        .map(|call| ToolCall { id: draw_call_id(random), ..call.clone() })
        .collect()
}

fn draw_call(request: &Request, random: &SimulationRandom) -> Option<ToolCall> {
    let tool = request.tools.get(random.draw_index(request.tools.len()))?;
    let arguments = draw_arguments(tool.schema(), random)?;
    Some(ToolCall::new(draw_call_id(random), tool.name(), arguments))
}

fn draw_call_id(random: &SimulationRandom) -> String {
    format!("call-{:016x}", random.draw_u64())
}
