//! The node at which calls wait for a person.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_engine::{Ctx, JsonField, NodeResult, Signal};
use singletree_llm::ToolCall;
use singletree_tools::Tool;

use crate::asking::ToolCallMessage;
use crate::parts::AgentLoopParts;
use crate::state::{AgentState, CallDecision};

/// Takes down the answer that has come, or asks for the next one.
pub(crate) async fn run_gate_node(parts: Arc<AgentLoopParts>, cx: Ctx<AgentState>) -> NodeResult<AgentState> {
    let state = cx.state();
    let cleared = AgentState::update().approved(None).reason(None);
    let Some(asking) = ToolCallMessage::from_agent_state(state) else { return Ok(cleared) };
    let undecided = state.decisions.0.find_undecided_call(asking.position);
    let undecided = undecided.and_then(|index| asking.call_at_index(index).map(|call| (index, call)));
    let Some((index, call)) = undecided else { return Ok(cleared) };
    match state.approved {
        Some(approved) => {
            let decision = CallDecision { call: index, approved, reason: state.reason.clone() };
            Ok(cleared.decisions(JsonField(state.decisions.0.with_decision(decision))))
        }
        None => {
            let member = parts.find_owner(&cx)?;
            let kit = parts.current_toolbox_of(member).await;
            let tool = kit.find_runnable_tool(call);
            let signal = build_approval_signal(&cx, &asking, (index, call));
            let signal = signal.with("effect", tool.map_or("", |tool| tool.effect().as_str()));
            let place = state.decisions.0.place_among_held(asking.position, index).filter(|(_, of)| *of > 1);
            let place = place.map(|(nth, of)| json!({ "nth": nth, "of": of }));
            let description = tool.map(|tool| tool.definition().description());
            let signal = [
                ("description", description.filter(|text| !text.is_empty()).map(Value::from)),
                ("server", tool.and_then(Tool::server).map(Value::from)),
                ("notice", tool.and_then(Tool::approval_notice).map(Value::from)),
                ("place", place),
            ]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .fold(signal, |signal, (name, value)| signal.with(name, value));
            cx.suspend(match member.approval_expires_in {
                Some(span) => signal.expires_in(span),
                None => signal,
            })
            .await
        }
    }
}

fn build_approval_signal(
    cx: &Ctx<AgentState>,
    asking: &ToolCallMessage,
    (index, call): (u64, &ToolCall),
) -> Signal {
    let who = cx.identity();
    Signal::new(asking.signal_name(who, index))
        .approves(asking.digest_action(who, index, call))
        .payload_schema(answer_schema())
        .with("kind", "approval")
        .with("tool", call.name.as_str())
        .with("call_id", call.id.as_str())
        .with("arguments", call.arguments.clone().map_or(Value::Null, Value::Object))
}

/// The schema of an answer: fields of the state that it may set, and no other.
fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approved": { "type": "boolean" },
            "reason": { "type": "string", "maxLength": 1000 },
        },
        "required": ["approved"],
        "additionalProperties": false,
    })
}
