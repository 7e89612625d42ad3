//! The names and attributes of OpenTelemetry's conventions for generative AI, which [`SpanProfile::GenAi`] adds.
//!
//! The conventions are in development. The names are those of version 0.66b2 of OpenTelemetry's published constants.

use serde_json::{Value, json};
use singletree_engine::{Identity, LlmOutput, ToolExecution};
use singletree_llm::ModelFinishReason;

use crate::attribute::{Attributes, SetAttribute};
use crate::call_spans::LlmSpanSource;
use crate::payload::to_canonical_json;
use crate::settings::{SpanProfile, SpanSettings};

/// Returns the name of a model call's span.
pub(crate) fn name_llm_span(settings: &SpanSettings, model: &str) -> String {
    match settings.profile {
        SpanProfile::OpenArmature => "openarmature.llm.complete".to_owned(),
        SpanProfile::GenAi => format!("chat {model}"),
    }
}

/// Returns the name of a tool's span.
pub(crate) fn name_tool_span(settings: &SpanSettings, tool: &str) -> String {
    match settings.profile {
        SpanProfile::OpenArmature => "openarmature.tool.call".to_owned(),
        SpanProfile::GenAi => format!("execute_tool {tool}"),
    }
}

/// Returns the name of the span of an invocation or of a detached unit.
pub(crate) fn name_invocation_span(settings: &SpanSettings, label: Option<&str>) -> String {
    match (settings.profile, label) {
        (SpanProfile::OpenArmature, _) => "openarmature.invocation".to_owned(),
        (SpanProfile::GenAi, Some(label)) => format!("invoke_workflow {label}"),
        (SpanProfile::GenAi, None) => "invoke_workflow".to_owned(),
    }
}

/// Tells whether the conventions' attributes are wanted.
fn has_attributes(settings: &SpanSettings) -> bool {
    settings.profile == SpanProfile::GenAi && !settings.disable_genai_semconv
}

/// Adds the conventions' attributes to those of an invocation or a detached unit.
pub(crate) fn add_workflow_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    identity: &Identity,
    label: Option<&str>,
) {
    if has_attributes(settings) {
        set_operation(attributes, "invoke_workflow", identity);
        attributes.set_some("gen_ai.workflow.name", label);
    }
}

/// Adds the conventions' attributes to those of a model call, and takes away the one that they replaced.
pub(crate) fn add_inference_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    source: &LlmSpanSource<'_>,
) {
    if !has_attributes(settings) {
        return;
    }
    set_operation(attributes, "chat", &source.call.source.identity);
    attributes.remove("gen_ai.system");
    attributes.set("gen_ai.provider.name", source.call.provider.as_ref());
    attributes.set_some("error.type", source.outcome.err().map(|failure| failure.error_category.as_ref()));
    let output = source.output();
    if let Some(usage) = output.map(|output| &output.usage) {
        attributes.set_some("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
        attributes.set_some("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_tokens);
    }
    if settings.disable_provider_payload {
        return;
    }
    let json = |value: Value| settings.payload_cap.apply(to_canonical_json(&value));
    let messages = source.request.input_messages();
    if messages.is_empty() {
        // A call whose texts are not known.
        return;
    }
    attributes.set("gen_ai.input.messages", json(messages.iter().map(convert_message).collect()));
    let output = output.filter(|it| it.output_content.is_some() || it.output_tool_calls.is_some());
    attributes.set_some("gen_ai.output.messages", output.map(|output| json(json!([convert_output(output)]))));
}

/// Adds the conventions' messages to the attributes of the invocation around a model call, as that call has them: the message
/// that the first call was asked to answer, and the answer of the last one so far. Lists of traces show these.
pub(crate) fn add_workflow_messages(
    invocation: &mut Attributes,
    call: &Attributes,
    settings: &SpanSettings,
    source: &LlmSpanSource<'_>,
) {
    const INPUT: &str = "gen_ai.input.messages";
    const OUTPUT: &str = "gen_ai.output.messages";
    if !call.contains_key(INPUT) {
        return;
    }
    if let Some(answer) = call.get(OUTPUT) {
        invocation.set(OUTPUT, answer.clone());
    }
    if invocation.contains_key(INPUT) {
        return;
    }
    let messages = source.request.input_messages();
    let asked = messages.iter().rposition(|message| message["role"] == "user");
    let asked = asked.map(|at| json!([convert_message(&messages[at])]));
    invocation.set_some(INPUT, asked.map(|asked| settings.payload_cap.apply(to_canonical_json(&asked))));
}

/// Adds the conventions' attributes to those of a tool's execution.
pub(crate) fn add_tool_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    execution: &ToolExecution,
    result: Option<&Value>,
) {
    if !has_attributes(settings) {
        return;
    }
    set_operation(attributes, "execute_tool", &execution.source.identity);
    attributes.set("gen_ai.tool.name", execution.tool_name.as_str());
    attributes.set("gen_ai.tool.type", "function");
    attributes.set_some("gen_ai.tool.call.id", execution.tool_call_id.as_deref());
    if result.is_none() {
        // An error that has a type of its own takes its place.
        attributes.set("error.type", "_OTHER");
    }
    // They are there when payloads are wanted, and cut already.
    for name in ["arguments", "result"] {
        let payload = attributes.get(format!("openarmature.tool.call.{name}").as_str()).cloned();
        attributes.set_some(format!("gen_ai.tool.call.{name}"), payload);
    }
}

fn set_operation(attributes: &mut Attributes, operation: &str, identity: &Identity) {
    attributes.set("gen_ai.operation.name", operation);
    attributes.set_some("gen_ai.conversation.id", identity.session_id.as_ref().map(ToString::to_string));
}

/// Converts a message from the shape of llm-provider §3 to that of the conventions.
fn convert_message(message: &Value) -> Value {
    let content = &message["content"];
    if message["role"] == "tool" {
        let answer = json!({
            "type": "tool_call_response", "id": message["tool_call_id"], "response": content,
        });
        return json!({ "role": "tool", "parts": [answer] });
    }
    let mut parts: Vec<Value> = match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text_part(text.as_str().into())],
        Value::Array(blocks) => blocks.iter().map(convert_block).collect(),
        _ => Vec::new(),
    };
    parts.extend(message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        json!({
            "type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["arguments"],
        })
    }));
    json!({ "role": message["role"], "parts": parts })
}

/// Converts a block of content. Signatures and withheld reasoning mean nothing to whoever reads a trace.
fn convert_block(block: &Value) -> Value {
    let source = &block["source"];
    match block["type"].as_str() {
        Some("text") => text_part(block["text"].clone()),
        Some("thinking") => json!({ "type": "reasoning", "content": block["text"] }),
        Some("image") if source["type"] == "url" => {
            let mut part = json!({ "type": "uri", "modality": "image", "uri": source["url"] });
            if let Some(media_type) = block.get("media_type") {
                part["mime_type"] = media_type.clone();
            }
            part
        }
        Some("image") => block.clone(),
        kind => json!({ "type": kind }),
    }
}

fn text_part(text: Value) -> Value {
    json!({ "type": "text", "content": text })
}

/// Converts an answer to a message of the conventions.
fn convert_output(output: &LlmOutput) -> Value {
    let calls: Vec<Value> = output.output_tool_calls.iter().flatten().map(|call| json!(call)).collect();
    let content = output.output_content.as_deref().unwrap_or_default();
    let mut message =
        convert_message(&json!({ "role": "assistant", "content": content, "tool_calls": calls }));
    message["finish_reason"] = match output.finish_reason {
        ModelFinishReason::ToolCalls => "tool_call".into(),
        reason => reason.as_str().into(),
    };
    message
}
