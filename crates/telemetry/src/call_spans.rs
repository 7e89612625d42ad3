//! The attributes of spans of model calls and of tool executions (spec: observability §5.5, §5.5.11).

use serde_json::{Value, json};
use singletree_engine::{LlmCall, LlmFailure, LlmOutput, LlmRequestRecord, ToolExecution};
use singletree_llm::{RetryReason, ToolCall};

use crate::attribute::{AttributeValue, Attributes, SetAttribute};
use crate::payload::to_canonical_json;
use crate::settings::SpanSettings;

/// One attempt of a model call, or the whole of it.
pub(crate) struct LlmSpanSource<'a> {
    pub(crate) call: &'a LlmCall,
    pub(crate) request: &'a LlmRequestRecord,
    pub(crate) attempt: u32,
    pub(crate) reason: Option<RetryReason>,
    pub(crate) outcome: Result<&'a LlmOutput, &'a LlmFailure>,
}

impl LlmSpanSource<'_> {
    /// Returns the answer, also one that failed its validation.
    pub(crate) fn output(&self) -> Option<&LlmOutput> {
        match self.outcome {
            Ok(output) => Some(output),
            Err(failure) => failure.output.as_ref(),
        }
    }
}

/// Sets the attributes of a model call.
pub(crate) fn set_llm_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    source: &LlmSpanSource<'_>,
) {
    attributes.set("openarmature.llm.model", source.call.model.as_ref());
    attributes.set("openarmature.llm.attempt_index", source.attempt);
    attributes.set_some("openarmature.llm.retry_reason", source.reason.map(RetryReason::as_str));
    if let Some(output) = source.output() {
        attributes.set("openarmature.llm.finish_reason", output.finish_reason.as_str());
        let usage = &output.usage;
        attributes.set_some("openarmature.llm.usage.prompt_tokens", usage.prompt_tokens);
        attributes.set_some("openarmature.llm.usage.completion_tokens", usage.completion_tokens);
        attributes.set_some("openarmature.llm.usage.total_tokens", usage.total_tokens);
        set_tool_request_attributes(attributes, output.output_tool_calls.as_deref().unwrap_or_default());
    }
    set_prompt_attributes(attributes, source);
    if !settings.disable_genai_semconv {
        set_genai_attributes(attributes, source);
    }
    if !settings.disable_provider_payload {
        set_payload_attributes(attributes, settings, source);
    }
}

/// Sets the identity of the prompt, and whether its budget was exceeded (§5.5.15, prompt-management §12).
fn set_prompt_attributes(attributes: &mut Attributes, source: &LlmSpanSource<'_>) {
    let Some(prompt) = source.request.active_prompt() else { return };
    attributes.set("openarmature.prompt.name", prompt.name.as_str());
    attributes.set("openarmature.prompt.version", prompt.version.as_str());
    attributes.set("openarmature.prompt.label", prompt.label.as_str());
    attributes.set("openarmature.prompt.template_hash", prompt.template_hash.as_str());
    attributes.set("openarmature.prompt.rendered_hash", prompt.rendered_hash.as_str());
    attributes.set_some("openarmature.prompt.group_name", prompt.group_name.as_deref());
    let Some(budget) = prompt.token_budget else { return };
    attributes.set_some("openarmature.prompt.token_budget.input_max_tokens", budget.input_max_tokens);
    attributes.set_some("openarmature.prompt.token_budget.total_max_tokens", budget.total_max_tokens);
    let bounds = source.output().map(|output| budget.evaluate(&output.usage)).unwrap_or_default();
    if !bounds.is_empty() {
        attributes
            .set("openarmature.llm.token_budget.exceeded", bounds.iter().any(|bound| bound.is_exceeded()));
    }
}

/// Sets the parameters and the answer's attributes of the GenAI conventions (§5.5.2, §5.5.3), and the counters of the
/// cache, which go with them.
fn set_genai_attributes(attributes: &mut Attributes, source: &LlmSpanSource<'_>) {
    for (name, value) in source.request.request_params() {
        attributes.set_some(format!("gen_ai.request.{name}"), AttributeValue::from_json(&value));
    }
    attributes.set("gen_ai.system", source.call.provider.as_ref());
    attributes.set("gen_ai.request.model", source.call.model.as_ref());
    let Some(output) = source.output() else { return };
    attributes.set_some("gen_ai.response.model", output.response_model.as_deref());
    attributes.set_some("gen_ai.response.id", output.response_id.as_deref());
    attributes.set_some("gen_ai.usage.input_tokens", output.usage.prompt_tokens);
    attributes.set_some("gen_ai.usage.output_tokens", output.usage.completion_tokens);
    let reasons: AttributeValue = [output.finish_reason.as_str()].into_iter().collect();
    attributes.set("gen_ai.response.finish_reasons", reasons);
    attributes.set_some("openarmature.llm.cache_read.input_tokens", output.usage.cached_tokens);
    attributes.set_some("openarmature.llm.cache_creation.input_tokens", output.usage.cache_creation_tokens);
}

/// Sets which tools the model asked for: identities, no payload (§5.5.10).
fn set_tool_request_attributes(attributes: &mut Attributes, calls: &[ToolCall]) {
    if calls.is_empty() {
        return;
    }
    attributes.set("openarmature.llm.output.tool_calls.count", calls.len() as u64);
    let names: AttributeValue = calls.iter().map(|call| call.name.as_str()).collect();
    let ids: AttributeValue = calls.iter().map(|call| call.id.as_str()).collect();
    attributes.set("openarmature.llm.output.tool_calls.names", names);
    attributes.set("openarmature.llm.output.tool_calls.ids", ids);
}

/// Sets what was said (§5.5.1). Nothing of a call whose texts are not known: no request is without messages.
fn set_payload_attributes(attributes: &mut Attributes, settings: &SpanSettings, source: &LlmSpanSource<'_>) {
    let cap = settings.payload_cap;
    let json = |value: &Value| cap.apply(to_canonical_json(value));
    let messages = source.request.input_messages();
    if messages.is_empty() {
        return;
    }
    attributes.set("openarmature.llm.input.messages", json(&messages.into()));
    let extras = source.request.request_extras();
    if !extras.is_empty() {
        attributes.set("openarmature.llm.request.extras", json(&extras.clone().into()));
    }
    let Some(output) = source.output() else { return };
    let content = output.output_content.clone().filter(|content| !content.is_empty());
    attributes.set_some("openarmature.llm.output.content", content.map(|content| cap.apply(content)));
    if let Some(calls) = &output.output_tool_calls {
        let calls: Value = calls
            .iter()
            .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
            .collect();
        attributes.set("openarmature.llm.output.tool_calls", json(&calls));
    }
}

/// Sets the attributes of a tool execution.
pub(crate) fn set_tool_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    execution: &ToolExecution,
    result: Option<&Value>,
) {
    attributes.set("openarmature.tool.name", execution.tool_name.as_str());
    attributes.set_some("openarmature.tool.call.id", execution.tool_call_id.as_deref());
    if settings.disable_provider_payload {
        return;
    }
    let json = |value: &Value| settings.payload_cap.apply(to_canonical_json(value));
    let arguments = execution.arguments.clone().map(Value::Object);
    attributes.set_some("openarmature.tool.call.arguments", arguments.as_ref().map(json));
    // A call whose texts are not known.
    let result = result.filter(|result| arguments.is_some() || !result.is_null());
    attributes.set_some("openarmature.tool.call.result", result.map(json));
}
