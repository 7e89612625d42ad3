//! A request as JSON, and its digest.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Map;
use crate::canonical::canonical_json;
use crate::config::RuntimeConfig;
use crate::request::Request;
use crate::tool::ToolChoicePolicy;

/// How many hexadecimal digits of a digest are kept: enough to tell the calls of a cassette apart.
const DIGITS: usize = 16;

/// Writes the fields of a request that are set.
pub(super) fn request_to_json(request: &Request) -> Value {
    let mut fields = Map::new();
    fields.insert("messages".into(), json!(request.messages));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(
            |tool| json!({"name": tool.name(), "description": tool.description(), "parameters": tool.parameters()}),
        );
        fields.insert("tools".into(), tools.collect());
    }
    if let Some(choice) = &request.tool_choice {
        let choice = match choice {
            ToolChoicePolicy::Auto => json!("auto"),
            ToolChoicePolicy::Required => json!("required"),
            ToolChoicePolicy::None => json!("none"),
            ToolChoicePolicy::Tool(name) => json!({"type": "tool", "name": name}),
        };
        fields.insert("tool_choice".into(), choice);
    }
    let config = config_to_fields(&request.config);
    if !config.is_empty() {
        fields.insert("config".into(), Value::Object(config));
    }
    if let Some(schema) = &request.response_schema {
        fields.insert("response_schema".into(), schema.as_value().clone());
    }
    Value::Object(fields)
}

fn config_to_fields(config: &RuntimeConfig) -> Map {
    let RuntimeConfig {
        temperature,
        max_tokens,
        top_p,
        seed,
        frequency_penalty,
        presence_penalty,
        stop_sequences,
        extras,
    } = config;
    let fields = [
        ("temperature", json!(temperature)),
        ("max_tokens", json!(max_tokens)),
        ("top_p", json!(top_p)),
        ("seed", json!(seed)),
        ("frequency_penalty", json!(frequency_penalty)),
        ("presence_penalty", json!(presence_penalty)),
        ("stop_sequences", json!(stop_sequences)),
        ("extras", if extras.is_empty() { Value::Null } else { json!(extras) }),
    ];
    fields.into_iter().filter(|(_, it)| !it.is_null()).map(|(key, it)| (key.to_owned(), it)).collect()
}

/// Returns the digest of a written request.
pub(super) fn digest_request(written: &Value) -> String {
    let hash = Sha256::digest(canonical_json(written));
    hash.iter()
        .flat_map(|it| [it >> 4, it & 15])
        .take(DIGITS)
        .filter_map(|it| char::from_digit(it.into(), 16))
        .collect()
}
