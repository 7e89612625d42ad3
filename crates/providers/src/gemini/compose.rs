//! A request as Gemini takes it (spec: llm-provider §8.3.1, §8.3.5).

use serde_json::{Value, json};
use singletree_llm::{Map, Request, Result, RuntimeConfig, ToolChoicePolicy, ToolDefinition};

use super::contents::write_contents;
use super::{model_resource, schema};
use crate::extras::{self, ExtraFieldRule};
use crate::mapping::{ComposeOptions, ComposedRequest};
use crate::system;

/// Extras stand among the parameters of the generation, under the names of the wire (spec: llm-provider §8.3.1).
const RULES: [(&str, ExtraFieldRule); 1] = [("stopSequences", ExtraFieldRule::Merge { scalar: false })];

/// Writes a request. With a response schema the path is `responseJsonSchema`; where the model has none, a directive in
/// `systemInstruction`.
pub(super) fn compose_request(
    model: &str,
    request: &Request,
    manner: ComposeOptions,
) -> Result<ComposedRequest> {
    let mut generation = write_sampling(&request.config);
    let mut directive = None;
    match &request.response_schema {
        Some(schema) if manner.structured_output => {
            generation.insert("responseMimeType".to_owned(), json!("application/json"));
            generation.insert("responseJsonSchema".to_owned(), schema.as_value().clone());
        }
        Some(schema) => directive = Some(schema.as_ref()),
        None => {}
    }
    extras::apply_extras(&mut generation, &request.config.extras, &RULES)?;
    let mut body = Map::new();
    body.insert("contents".to_owned(), Value::Array(write_contents(&request.messages)));
    if let Some(text) = system::system_text(&request.messages, directive) {
        body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": text}]}));
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request.tools.iter().map(write_tool_declaration).collect();
        body.insert("tools".to_owned(), json!([{"functionDeclarations": declarations}]));
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("toolConfig".to_owned(), json!({"functionCallingConfig": write_calling_config(choice)}));
    }
    if !generation.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(generation));
    }
    let method = if manner.streaming { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let path = format!("{}:{method}", model_resource(model));
    Ok(ComposedRequest { path, body: Value::Object(body), answer_tool: None })
}

fn write_sampling(config: &RuntimeConfig) -> Map {
    let fields = [
        ("temperature", config.temperature.map(|temperature| json!(temperature))),
        ("topP", config.top_p.map(|top_p| json!(top_p))),
        ("maxOutputTokens", config.max_tokens.map(|it| json!(it))),
        ("stopSequences", config.stop_sequences.as_ref().map(|stop_sequences| json!(stop_sequences))),
        ("seed", config.seed.map(|seed| json!(seed))),
        ("frequencyPenalty", config.frequency_penalty.map(|frequency_penalty| json!(frequency_penalty))),
        ("presencePenalty", config.presence_penalty.map(|presence_penalty| json!(presence_penalty))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Declares a tool. `parameters` is the field of the specification, and Gemini reads a part of JSON Schema there; a
/// schema beyond that part would be refused there, and goes into a field of its own.
fn write_tool_declaration(tool: &ToolDefinition) -> Value {
    let field =
        if schema::is_plain_schema(tool.parameters()) { "parameters" } else { "parametersJsonSchema" };
    json!({"name": tool.name(), "description": tool.description(), field: tool.parameters()})
}

fn write_calling_config(choice: &ToolChoicePolicy) -> Value {
    match choice {
        ToolChoicePolicy::Auto => json!({"mode": "AUTO"}),
        ToolChoicePolicy::Required => json!({"mode": "ANY"}),
        ToolChoicePolicy::None => json!({"mode": "NONE"}),
        ToolChoicePolicy::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    }
}
