//! Which schemas Gemini's `Schema` message can say: the part of OpenAPI 3.0 that its reference lists.

use serde_json::Value;

/// Says whether nothing in a schema goes beyond it.
pub(super) fn is_plain_schema(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return false;
    };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" => value.is_string(),
        "enum" => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
        "items" => is_plain_schema(value),
        "anyOf" => value.as_array().is_some_and(|all| all.iter().all(is_plain_schema)),
        "properties" => value.as_object().is_some_and(|all| all.values().all(is_plain_schema)),
        "title" | "description" | "default" | "example" | "nullable" | "required" | "propertyOrdering" => {
            true
        }
        "format" | "pattern" | "minLength" | "maxLength" | "minimum" | "maximum" => true,
        "minItems" | "maxItems" | "minProperties" | "maxProperties" => true,
        _ => false,
    })
}
