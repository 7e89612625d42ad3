//! Strictness, names, the fallback.

use super::*;

fn closed(properties: Value, required: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

// spec: llm-provider §8.1.5
#[test]
fn a_schema_is_strict_where_every_object_is_closed_and_complete() {
    let inner = closed(json!({ "b": { "type": ["string", "null"] } }), json!(["b"]));
    let strict = [
        closed(json!({}), json!([])),
        closed(json!({ "a": { "type": "integer" } }), json!(["a"])),
        closed(json!({ "a": inner }), json!(["a"])),
        closed(json!({ "a": { "type": "array", "items": inner } }), json!(["a"])),
        closed(json!({ "a": { "anyOf": [inner, { "type": "null" }] } }), json!(["a"])),
        closed(json!({ "a": { "enum": ["x", "y"] }, "b": { "$ref": "#/$defs/x" } }), json!(["a", "b"])),
    ];
    for schema in strict {
        assert!(is_strict_schema(&schema), "{schema}");
    }
    let open = json!({ "type": "object", "properties": {} });
    let mut with_open_definition = closed(json!({}), json!([]));
    with_open_definition["$defs"] = json!({ "x": open });
    let mut with_all_of = closed(json!({}), json!([]));
    with_all_of["allOf"] = json!([]);
    let not_strict = [
        open.clone(),
        json!({ "type": "object", "additionalProperties": true }),
        closed(json!({ "a": { "type": "integer" } }), json!([])),
        closed(json!({ "a": {} }), json!(["a"])),
        closed(json!({ "a": true }), json!(["a"])),
        closed(json!({ "a": open }), json!(["a"])),
        closed(json!({ "a": { "type": "array", "items": open } }), json!(["a"])),
        closed(json!({ "a": { "anyOf": [open] } }), json!(["a"])),
        with_open_definition,
        with_all_of,
    ];
    for schema in not_strict {
        assert!(!is_strict_schema(&schema), "{schema}");
    }
}

// spec: llm-provider §8.1.5
#[test]
fn the_name_is_stable_and_made_of_allowed_letters() {
    assert_eq!(schema_name(&json!({ "title": " Weather report (v2) " })), "Weather_report__v2_");
    assert_eq!(schema_name(&json!({ "title": "天気" })).len(), "response_".len() + 16);
    assert_eq!(schema_name(&json!({ "title": "x".repeat(100) })).len(), 64);
    let one = schema_name(&json!({ "type": "object", "properties": { "a": {}, "b": {} } }));
    assert_eq!(schema_name(&json!({ "properties": { "b": {}, "a": {} }, "type": "object" })), one);
    assert_ne!(schema_name(&json!({ "type": "object" })), one);
}

// spec: llm-provider §8.1.5.1
#[test]
fn the_fallback_extends_the_system_message_or_makes_one() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let mut messages = vec![json!({ "role": "user", "content": "Go." })];
    add_schema_directive(&mut messages, &schema);
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["role"], "system");
    assert!(messages[0]["content"].as_str().unwrap().ends_with(r#"{"required":["a"],"type":"object"}"#));
    let mut messages = vec![
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "Go." }),
    ];
    add_schema_directive(&mut messages, &schema);
    assert_eq!(messages.len(), 2);
    assert!(messages[0]["content"].as_str().unwrap().starts_with("Be brief.\n\n"));
}
