//! Where the schemas of a JSON Schema are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Keywords whose value is one schema.
const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas. `items` is one of both.
const LISTS: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords whose value has a schema for each name.
const NAMED: &[&str] =
    &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords that refer to another schema.
pub(super) const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// Tells whether a value under a keyword holds schemas.
pub(super) fn holds_schemas(keyword: &str) -> bool {
    [ONE, LISTS, NAMED].iter().any(|keywords| keywords.contains(&keyword))
}

/// Calls a function with each schema that is an object directly inside of this one, and how a JSON Pointer goes on to
/// it.
pub(super) fn for_each_child<'a>(
    schema: &'a Map<String, Value>,
    mut found: impl FnMut(String, &'a Map<String, Value>),
) {
    let mut child = |path: String, value: &'a Value| {
        if let Value::Object(schema) = value {
            found(path, schema);
        }
    };
    for (keyword, value) in schema {
        match value {
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                for (name, value) in named {
                    child(format!("/{keyword}/{}", escape_pointer_token(name)), value);
                }
            }
            Value::Object(_) if ONE.contains(&keyword.as_str()) => child(format!("/{keyword}"), value),
            Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                for (at, value) in list.iter().enumerate() {
                    child(format!("/{keyword}/{at}"), value);
                }
            }
            _ => {}
        }
    }
}

/// Calls a function with each schema that is an object, those inside of others first.
pub(super) fn for_each_schema_mut(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(schema) = value else { return };
    for (keyword, value) in schema.iter_mut() {
        match value {
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                named.values_mut().for_each(|item| for_each_schema_mut(item, change));
            }
            Value::Object(_) if ONE.contains(&keyword.as_str()) => for_each_schema_mut(value, change),
            Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                list.iter_mut().for_each(|item| for_each_schema_mut(item, change));
            }
            _ => {}
        }
    }
    change(schema);
}

/// Returns all schemas that are objects, by their JSON Pointers. Only for schemas of bounded depth.
pub(super) fn collect_schemas(root: &Map<String, Value>) -> BTreeMap<String, &Map<String, Value>> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), root)];
    while let Some((path, schema)) = open.pop() {
        for_each_child(schema, |further, child| open.push((format!("{path}{further}"), child)));
        found.insert(path, schema);
    }
    found
}

fn escape_pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
