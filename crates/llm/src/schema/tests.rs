//! Bounds of schemas, and of checks against them.

use serde_json::{Map, Value, json};

use super::*;

fn refused(schema: Value) -> String {
    Schema::compile(schema).expect_err("it is refused").to_string()
}

fn check_refused(schema: Value, why: &str) {
    let told = refused(schema);
    assert!(told.contains(why), "{told}");
}

/// A list of definitions, each of which applies the one before twice.
fn doubling(levels: usize) -> Value {
    let level = |at: usize| match at {
        0 => json!({ "type": "object" }),
        at => {
            let before = json!({ "$ref": format!("#/$defs/l{}", at - 1) });
            json!({ "allOf": [before, before] })
        }
    };
    let defs: Map<String, Value> = (0..levels).map(|at| (format!("l{at}"), level(at))).collect();
    json!({ "type": "object", "$defs": defs, "$ref": format!("#/$defs/l{}", levels - 1) })
}

// S2
#[test]
fn references_that_double_are_refused_before_they_are_followed() {
    check_refused(doubling(45), "more than 64 references");
    check_refused(doubling(32), "unfold to more than 20000 schemas");
    Schema::compile(doubling(8)).unwrap().check_value(&json!({})).unwrap();
}

// S2
#[test]
fn a_value_whose_check_takes_too_many_steps_is_given_up() {
    let mut items = doubling(13);
    let defs = items.as_object_mut().unwrap().remove("$defs").unwrap();
    let list = json!({ "type": "array", "items": { "$ref": "#/$defs/l12" } });
    let schema = json!({ "type": "object", "$defs": defs, "properties": { "a": list } });
    let schema = Schema::compile(schema).unwrap();
    let value = |items: usize| json!({ "a": vec![json!({}); items] });
    schema.check_value(&value(10)).unwrap();
    let told = schema.check_value(&value(1_000)).unwrap_err().to_string();
    assert_eq!(told, "at the root: checking the value against the schema takes too many steps");
    // It is of use afterwards.
    schema.check_value(&value(10)).unwrap();
    assert_eq!(schema.check_value(&json!({ "a": 1 })).unwrap_err().first_mismatch_path(), "/a");
}

// S2
#[test]
fn explaining_what_does_not_fit_is_bounded_too() {
    let itself = json!({ "properties": { "a": { "$ref": "#" } } });
    let schema = json!({ "type": "object", "allOf": [itself, itself], "required": ["b"] });
    let nested = (0..40).fold(json!({}), |inner, _| json!({ "a": inner }));
    let told = Schema::compile(schema).unwrap().check_value(&nested).unwrap_err().to_string();
    assert!(told.starts_with("at "), "{told}");
}

// S2
#[test]
fn schemas_are_bounded_in_every_direction() {
    let object = |more: Value| {
        let mut schema = json!({ "type": "object" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
    Schema::compile(object(json!({ "properties": { "a": deep(28) } }))).unwrap();
    check_refused(object(json!({ "properties": { "a": deep(32) } })), "deeper than 32 levels");
    let wide = |count: usize| (0..count).map(|at| (format!("p{at}"), json!({}))).collect::<Map<_, _>>();
    Schema::compile(object(json!({ "properties": wide(1_900) }))).unwrap();
    check_refused(object(json!({ "properties": wide(2_100) })), "more than 2000 objects and lists");
    let patterns = |count: usize| {
        (0..count)
            .map(|at| (format!("p{at}"), json!({ "pattern": format!("^{at}$") })))
            .collect::<Map<_, _>>()
    };
    Schema::compile(object(json!({ "properties": patterns(64) }))).unwrap();
    check_refused(object(json!({ "properties": patterns(65) })), "more than 64 patterns");
    let named = (0..65).map(|at| (format!("^{at}$"), json!({}))).collect::<Map<_, _>>();
    check_refused(object(json!({ "patternProperties": named })), "more than 64 patterns");
    let long = json!({ "properties": { "a": { "pattern": "a".repeat(513) } } });
    check_refused(object(long), "a pattern of more than 512 bytes");
    check_refused(object(json!({ "description": "x".repeat(128 << 10) })), "more than 131072 bytes");
    let huge = json!({ "properties": { "a": { "pattern": "(((a{100}){100}){100}){100}" } } });
    refused(object(huge));
}

// S2
#[test]
fn references_stay_within_the_schema_and_lead_to_schemas() {
    let with = |target: &str| {
        json!({ "type": "object", "x": { "y": {} }, "$defs": { "a": { "$anchor": "b" } },
            "properties": { "p": { "$ref": target } } })
    };
    for sound in ["#", "#/$defs/a", "#/properties/p", "#b"] {
        Schema::compile(with(sound)).unwrap_or_else(|it| panic!("{sound}: {it}"));
    }
    check_refused(with("#/x/y"), "leads to no schema");
    check_refused(with("#/$defs/none"), "leads to no schema");
    check_refused(with("https://example.com/schema"), "leads out of the schema");
    let inner = json!({ "type": "object", "$defs": { "a": { "$id": "https://example.com/a" } } });
    check_refused(inner, "only the root may have one");
    // A property of that name is no keyword.
    Schema::compile(json!({ "type": "object", "properties": { "$id": { "type": "string" } } })).unwrap();
}

#[test]
fn a_long_list_and_a_recursive_value_fit_as_before() {
    let tree = json!({ "type": "object", "properties": {
        "name": { "type": "string", "pattern": "^[a-z]+$" },
        "children": { "type": "array", "items": { "$ref": "#" } } }, "required": ["name"] });
    let schema = Schema::compile(tree).unwrap();
    let leaf = json!({ "name": "leaf" });
    let wide = json!({ "name": "root", "children": vec![leaf; 5_000] });
    schema.check_value(&wide).unwrap();
    let deep = (0..60).fold(json!({ "name": "x" }), |inner, _| json!({ "name": "x", "children": [inner] }));
    schema.check_value(&deep).unwrap();
    assert_eq!(
        schema.check_value(&json!({ "name": "x", "children": [{}] })).unwrap_err().first_mismatch_path(),
        "/children/0"
    );
}

#[test]
fn patterns_are_counted_wherever_they_stand() {
    let schema =
        json!({ "properties": { "a": { "pattern": "x" } }, "patternProperties": { "b": {}, "c": {} } });
    assert_eq!(count_patterns(&schema), 3);
    assert_eq!(count_patterns(&json!({ "properties": { "pattern": { "type": "string" } } })), 0);
}
