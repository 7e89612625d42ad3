//! Structured output (spec: llm-provider §8.1.5).

use serde_json::{Value, json};

use crate::canonical;
use crate::system;

/// Writes the native form.
pub(super) fn response_format(schema: &Value) -> Value {
    let strict = is_strict_schema(schema);
    json!({ "type": "json_schema", "json_schema": { "name": schema_name(schema), "schema": schema, "strict": strict } })
}

/// Describes the required answer to the model in the system message, for servers that take no schema (spec:
/// llm-provider §8.1.5.1).
pub(super) fn add_schema_directive(messages: &mut Vec<Value>, schema: &Value) {
    let directive = system::schema_directive(schema);
    match messages.first_mut() {
        Some(first) if first["role"] == "system" => {
            let told = first["content"].as_str().unwrap_or_default();
            first["content"] = format!("{told}\n\n{directive}").into();
        }
        _ => messages.insert(0, json!({ "role": "system", "content": directive })),
    }
}

/// Returns a stable name: the title of the schema in the letters that are allowed, else one made of its content.
fn schema_name(schema: &Value) -> String {
    const LONGEST: usize = 64;
    let allowed = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    let title = schema.get("title").and_then(Value::as_str).unwrap_or_default();
    let name: String = title.trim().chars().take(LONGEST).map(allowed).collect();
    if name.chars().any(|letter| letter.is_ascii_alphanumeric()) {
        return name;
    }
    let hash = canonical::digest_value(schema);
    format!("response_{hash:016x}")
}

/// Keywords that the strict mode does not take.
const NEVER_STRICT: &[&str] = &[
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
    "contains",
];

/// Says whether a schema meets the strict mode's rules: every object closed, all its properties required, every place
/// of a known kind.
fn is_strict_schema(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return false };
    if NEVER_STRICT.iter().any(|it| fields.contains_key(*it)) {
        return false;
    }
    let below = |name: &str| {
        fields.get(name).and_then(Value::as_object).is_none_or(|value| value.values().all(is_strict_schema))
    };
    let each = |name: &str| {
        fields.get(name).and_then(Value::as_array).is_none_or(|value| value.iter().all(is_strict_schema))
    };
    let known = ["type", "$ref", "anyOf", "enum", "const"].iter().any(|item| fields.contains_key(*item));
    known
        && is_closed_object(schema)
        && fields.get("items").is_none_or(is_strict_schema)
        && below("properties")
        && below("$defs")
        && below("definitions")
        && each("anyOf")
}

fn is_closed_object(schema: &Value) -> bool {
    let is_object = match &schema["type"] {
        Value::String(kind) => kind == "object",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    };
    if !is_object && schema.get("properties").is_none() {
        return true;
    }
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let all_required = schema["properties"]
        .as_object()
        .is_none_or(|fields| fields.keys().all(|name| required.iter().any(|required| required == name)));
    schema["additionalProperties"] == false && all_required
}

#[cfg(test)]
mod tests;
