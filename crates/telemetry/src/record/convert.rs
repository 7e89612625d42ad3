//! Converts stored entries to the values of events.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_engine::{
    BranchesConfig, ContainerConfig, FanOutConfig, GraphEvent, LlmCall, LlmCompletionEvent, LlmFailedEvent,
    LlmFailure, LlmOutput,
};
use singletree_env::Timestamp;
use singletree_llm::{ActivePrompt, RuntimeConfig, TokenBudget, ToolCall};

use super::entry::{ContainerEntry, LlmOutputEntry, PromptEntry};
use super::place::StoredPlace;

/// Returns the event of a whole model call, from that of its last attempt.
pub(crate) fn end_of_call(
    call: Arc<LlmCall>,
    (started_at, at): (Timestamp, Timestamp),
    outcome: Result<Arc<LlmOutput>, Arc<LlmFailure>>,
) -> GraphEvent {
    match outcome {
        Ok(output) => GraphEvent::LlmCompletion(LlmCompletionEvent {
            call,
            started_at,
            at,
            latency_ms: None,
            caller_invocation_metadata: None,
            output,
        }),
        Err(failure) => GraphEvent::LlmFailed(LlmFailedEvent {
            call,
            started_at,
            at,
            latency_ms: None,
            caller_invocation_metadata: None,
            failure,
        }),
    }
}

pub(crate) fn container_config(entry: &ContainerEntry, place: &StoredPlace) -> ContainerConfig {
    let parent_node_name = place.node_name();
    match entry {
        ContainerEntry::FanOut(item_count, concurrency, error_policy) => {
            ContainerConfig::FanOut(Arc::new(FanOutConfig {
                item_count: *item_count,
                concurrency: *concurrency,
                error_policy: *error_policy,
                parent_node_name,
            }))
        }
        ContainerEntry::Branches(names, branch_count, error_policy) => {
            ContainerConfig::Branches(Arc::new(BranchesConfig {
                branch_names: names.iter().map(|name| name.as_str().into()).collect(),
                branch_count: *branch_count,
                error_policy: *error_policy,
                parent_node_name,
            }))
        }
    }
}

pub(crate) fn runtime_config(params: &Map<String, Value>) -> RuntimeConfig {
    let float = |name: &str| params.get(name).and_then(Value::as_f64);
    RuntimeConfig {
        temperature: float("temperature"),
        max_tokens: params.get("max_tokens").and_then(Value::as_u64),
        top_p: float("top_p"),
        seed: params.get("seed").and_then(Value::as_i64),
        frequency_penalty: float("frequency_penalty"),
        presence_penalty: float("presence_penalty"),
        stop_sequences: None,
        extras: Map::new(),
    }
}

pub(crate) fn prompt(entry: &PromptEntry) -> ActivePrompt {
    ActivePrompt {
        name: entry.name.clone(),
        version: entry.version.clone(),
        label: entry.label.clone(),
        template_hash: entry.template_hash.clone(),
        rendered_hash: entry.rendered_hash.clone(),
        group_name: entry.group_name.clone(),
        token_budget: entry
            .budget
            .map(|(input_max_tokens, total_max_tokens)| TokenBudget { input_max_tokens, total_max_tokens }),
        ..ActivePrompt::default()
    }
}

pub(crate) fn llm_output(entry: &LlmOutputEntry) -> LlmOutput {
    let call = |(name, id): &(String, String)| ToolCall {
        id: id.clone(),
        name: name.clone(),
        arguments: None,
        signature: None,
    };
    let calls: Vec<_> = entry.tool_calls.iter().map(call).collect();
    LlmOutput {
        output_content: None,
        output_tool_calls: (!calls.is_empty()).then_some(calls),
        finish_reason: entry.finish_reason,
        usage: entry.token_usage(),
        response_id: entry.response_id.clone(),
        response_model: entry.response_model.clone(),
    }
}
