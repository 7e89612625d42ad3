//! Typed events as the fixtures write them (graph-engine §6; observability §5.5.7, §5.5.12).

use serde_json::{Map, Value, json};
use singletree::engine::{
    EventSource, GraphEvent, LlmCall, LlmFailure, LlmOutput, LlmRequestRecord, ToolExecution,
};
use singletree::llm::TokenUsage;

use crate::events::event_to_json;

/// The types of events that fixtures may name. Some are never emitted: that there is none of them can be expected.
pub(super) const EVENT_TYPES: &[&str] = &[
    "NodeEvent",
    "LlmCompletionEvent",
    "LlmFailedEvent",
    "LlmTokenEvent",
    "LlmTokenFailedEvent",
    "EmbeddingEvent",
    "EmbeddingFailedEvent",
    "RerankEvent",
    "RerankFailedEvent",
    "ToolCallEvent",
    "ToolCallFailedEvent",
];

/// Returns the type of an event.
#[must_use]
pub(super) fn event_type(event: &GraphEvent) -> &'static str {
    match event {
        GraphEvent::Node(_) => "NodeEvent",
        GraphEvent::LlmCompletion(_) => "LlmCompletionEvent",
        GraphEvent::LlmFailed(_) => "LlmFailedEvent",
        GraphEvent::LlmToken(_) => "LlmTokenEvent",
        GraphEvent::ToolCall(_) => "ToolCallEvent",
        GraphEvent::ToolCallFailed(_) => "ToolCallFailedEvent",
        GraphEvent::Embedding(_) => "EmbeddingEvent",
        GraphEvent::EmbeddingFailed(_) => "EmbeddingFailedEvent",
        GraphEvent::Rerank(_) => "RerankEvent",
        GraphEvent::RerankFailed(_) => "RerankFailedEvent",
        GraphEvent::FailureIsolated(_) => "FailureIsolatedEvent",
        GraphEvent::CheckpointSaved(_) => "CheckpointSavedEvent",
        GraphEvent::MetadataAdded(_) => "MetadataAugmentationEvent",
        // Events about lifecycles are this implementation's own.
        _ => "LifecycleEvent",
    }
}

/// Returns a typed event as the fixtures write it; null for one that they do not know.
#[must_use]
pub(super) fn typed_event_to_json(event: &GraphEvent) -> Value {
    let mut fields = Map::new();
    let metadata = match event {
        GraphEvent::Node(event) => {
            if let Value::Object(node) = event_to_json(event) {
                fields.extend(node);
            }
            &event.caller_invocation_metadata
        }
        GraphEvent::LlmCompletion(event) => {
            add_call(&mut fields, &event.call);
            add_output(&mut fields, Some(&event.output));
            fields.insert("latency_ms".into(), json!(event.latency_ms));
            &event.caller_invocation_metadata
        }
        GraphEvent::LlmFailed(event) => {
            add_call(&mut fields, &event.call);
            add_failure(&mut fields, &event.failure);
            fields.insert("latency_ms".into(), json!(event.latency_ms));
            &event.caller_invocation_metadata
        }
        GraphEvent::LlmToken(event) => {
            add_call_identity(&mut fields, &event.call);
            fields.insert("chunk_index".into(), event.chunk_index.into());
            fields.insert("delta_kind".into(), event.delta_kind.as_str().into());
            fields.insert("delta".into(), event.delta.as_str().into());
            &event.caller_invocation_metadata
        }
        GraphEvent::ToolCall(event) => {
            add_tool(&mut fields, &event.execution);
            fields.insert("result".into(), event.result.clone());
            fields.insert("latency_ms".into(), json!(event.latency_ms));
            &event.caller_invocation_metadata
        }
        GraphEvent::ToolCallFailed(event) => {
            add_tool(&mut fields, &event.execution);
            fields.insert("error_type".into(), json!(event.error_type));
            fields.insert("error_message".into(), event.error_message.as_str().into());
            fields.insert("latency_ms".into(), json!(event.latency_ms));
            &event.caller_invocation_metadata
        }
        _ => return Value::Null,
    };
    fields.insert("caller_invocation_metadata".into(), json!(metadata));
    Value::Object(fields)
}

fn add_source(fields: &mut Map<String, Value>, source: &EventSource) {
    let namespace: Vec<&str> = source.namespace.iter().map(AsRef::as_ref).collect();
    fields.insert("node_name".into(), source.node_name.as_ref().into());
    fields.insert("namespace".into(), namespace.into());
    fields.insert("attempt_index".into(), source.attempt_index.into());
    fields.insert("fan_out_index".into(), source.lineage.fan_out_index().into());
    fields.insert("branch_name".into(), source.lineage.branch_name().into());
    fields.insert("invocation_id".into(), source.identity.invocation_id.as_str().into());
    fields.insert("correlation_id".into(), source.identity.correlation_id.as_str().into());
}

fn add_call_identity(fields: &mut Map<String, Value>, call: &LlmCall) {
    add_source(fields, &call.source);
    fields.insert("provider".into(), call.provider.as_ref().into());
    fields.insert("model".into(), call.model.as_ref().into());
    fields.insert("call_id".into(), call.call_id.as_ref().into());
}

fn add_call(fields: &mut Map<String, Value>, call: &LlmCall) {
    add_call_identity(fields, call);
    let request: &LlmRequestRecord = call.request();
    let prompt = request.active_prompt().map(|prompt| {
        json!({
            "name": prompt.name,
            "version": prompt.version,
            "label": prompt.label,
            "template_hash": prompt.template_hash,
            "rendered_hash": prompt.rendered_hash,
        })
    });
    let group = request.active_prompt_group().map(|name| json!({"group_name": name}));
    let budget = request.token_budget().map(|budget| {
        json!({"input_max_tokens": budget.input_max_tokens, "total_max_tokens": budget.total_max_tokens})
    });
    fields.insert("input_messages".into(), request.input_messages().into());
    fields.insert("request_params".into(), request.request_params().into());
    fields.insert("request_extras".into(), request.request_extras().clone().into());
    fields.insert("active_prompt".into(), json!(prompt));
    fields.insert("active_prompt_group".into(), json!(group));
    fields.insert("token_budget".into(), json!(budget));
}

/// Adds what the provider answered; null throughout where it did not.
fn add_output(fields: &mut Map<String, Value>, output: Option<&LlmOutput>) {
    let calls = output.and_then(|output| output.output_tool_calls.as_ref()).map(|calls| {
        let told =
            calls.iter().map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
        told.collect::<Vec<_>>()
    });
    let values = [
        ("output_content", json!(output.map(|output| &output.output_content))),
        ("output_tool_calls", json!(calls)),
        ("finish_reason", json!(output.map(|output| output.finish_reason.as_str()))),
        ("usage", json!(output.map(|output| usage_to_json(&output.usage)))),
        ("response_id", json!(output.map(|output| &output.response_id))),
        ("response_model", json!(output.map(|output| &output.response_model))),
    ];
    fields.extend(values.map(|(key, value)| (key.to_owned(), value)));
}

fn add_failure(fields: &mut Map<String, Value>, failure: &LlmFailure) {
    add_output(fields, failure.output.as_ref());
    fields.insert("error_category".into(), failure.error_category.as_ref().into());
    fields.insert("error_type".into(), json!(failure.error_type));
    fields.insert("error_message".into(), failure.error_message.as_str().into());
}

fn add_tool(fields: &mut Map<String, Value>, execution: &ToolExecution) {
    add_source(fields, &execution.source);
    fields.insert("call_id".into(), execution.call_id.as_ref().into());
    fields.insert("tool_name".into(), execution.tool_name.as_str().into());
    fields.insert("tool_call_id".into(), json!(execution.tool_call_id));
    fields.insert("arguments".into(), json!(execution.arguments));
}

/// Returns the counters; null for one that was not reported, or not readably.
#[must_use]
pub(super) fn usage_to_json(usage: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_creation_tokens": usage.cache_creation_tokens,
    })
}
