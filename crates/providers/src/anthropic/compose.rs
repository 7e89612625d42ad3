//! A request as Anthropic takes it (spec: llm-provider §8.2.1, §8.2.5).

use serde_json::{Map, Value, json};
use singletree_llm::{
    Error, ProviderErrorDetail, Request, Result, RuntimeConfig, Schema, ToolChoicePolicy, ToolDefinition,
};

use super::messages::write_messages;
use crate::extras::{self, ExtraFieldRule};
use crate::mapping::{ComposeOptions, ComposedRequest};
use crate::system;

/// The tool whose arguments are the structured answer, where the model has no structured output of its own.
const ANSWER_TOOL: &str = "structured_answer";

const ANSWER_TOOL_DOES: &str =
    "Gives the answer in the shape that the user asked for. Call it once, with the whole answer.";

/// `stream` decides how the answer is read: no extra may flip it (spec: llm-provider §8.2.1).
const RULES: [(&str, ExtraFieldRule); 2] =
    [("stream", ExtraFieldRule::Switch(false)), ("stop_sequences", ExtraFieldRule::Merge { scalar: false })];

/// Writes a request. With a response schema the path is: `output_config.format`; where the model has none, a made-up
/// tool that must be called; where the request has tools of its own or the model is to think, a directive in
/// `system`.
pub(super) fn compose_request(
    model: &str,
    request: &Request,
    manner: ComposeOptions,
) -> Result<ComposedRequest> {
    let config = &request.config;
    check_supported_settings(config)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), Value::Array(write_messages(&request.messages)));
    let mut tools: Vec<Value> = request.tools.iter().map(write_tool_definition).collect();
    let mut choice = request.tool_choice.as_ref().map(write_tool_choice);
    let mut directive = None;
    let mut answer_tool = None;
    match &request.response_schema {
        None => {}
        Some(schema) if manner.structured_output => {
            let format = json!({"type": "json_schema", "schema": schema.as_value()});
            body.insert("output_config".to_owned(), json!({"format": format}));
        }
        Some(schema) if tools.is_empty() && !is_thinking_requested(config) => {
            tools.push(answer_tool_definition(schema));
            choice = Some(json!({"type": "tool", "name": ANSWER_TOOL}));
            answer_tool = Some(ANSWER_TOOL.to_owned());
        }
        Some(schema) => directive = Some(schema.as_ref()),
    }
    if let Some(text) = system::system_text(&request.messages, directive) {
        body.insert("system".to_owned(), json!(text));
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    if let Some(choice) = choice {
        body.insert("tool_choice".to_owned(), choice);
    }
    write_sampling(config, &mut body);
    if manner.streaming {
        body.insert("stream".to_owned(), json!(true));
    }
    extras::apply_extras(&mut body, &config.extras, &RULES)?;
    Ok(ComposedRequest { path: "/v1/messages".to_owned(), body: Value::Object(body), answer_tool })
}

/// Says whether the model is asked to think; then no tool can be forced on it.
fn is_thinking_requested(config: &RuntimeConfig) -> bool {
    config.extras.get("thinking").is_some_and(|extras| extras["type"] != "disabled")
}

fn write_sampling(config: &RuntimeConfig, body: &mut Map<String, Value>) {
    let fields = [
        ("max_tokens", config.max_tokens.map(|it| json!(it))),
        ("temperature", config.temperature.map(|temperature| json!(temperature))),
        ("top_p", config.top_p.map(|top_p| json!(top_p))),
        ("stop_sequences", config.stop_sequences.as_ref().map(|stop_sequences| json!(stop_sequences))),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    }
}

/// Refuses settings that this wire does not have; nothing is dropped quietly (spec: llm-provider §8.2.1).
fn check_supported_settings(config: &RuntimeConfig) -> Result<()> {
    let invalid = |problem: String| Err(Error::InvalidRequest(ProviderErrorDetail::new(problem)));
    if config.max_tokens.is_none() {
        return invalid("config.max_tokens: is required by Anthropic".to_owned());
    }
    let unknown = [
        ("seed", config.seed.is_some()),
        ("frequency_penalty", config.frequency_penalty.is_some()),
        ("presence_penalty", config.presence_penalty.is_some()),
    ];
    match unknown.into_iter().find(|(_, set)| *set) {
        Some((name, _)) => invalid(format!("config.{name}: Anthropic does not know it")),
        None => Ok(()),
    }
}

fn write_tool_definition(tool: &ToolDefinition) -> Value {
    json!({"name": tool.name(), "description": tool.description(), "input_schema": tool.parameters()})
}

fn answer_tool_definition(schema: &Schema) -> Value {
    json!({"name": ANSWER_TOOL, "description": ANSWER_TOOL_DOES, "input_schema": schema.as_value()})
}

fn write_tool_choice(choice: &ToolChoicePolicy) -> Value {
    match choice {
        ToolChoicePolicy::Auto => json!({"type": "auto"}),
        ToolChoicePolicy::Required => json!({"type": "any"}),
        ToolChoicePolicy::None => json!({"type": "none"}),
        ToolChoicePolicy::Tool(name) => json!({"type": "tool", "name": name}),
    }
}
