//! Renders JSON Schemas for people: a short name of a type, and a description of its fields.

use serde_json::Value;

use super::html::{escape, prose};
use super::{members, text};

/// Describes the type of a schema in a few words.
pub(super) fn short(schema: &Value) -> String {
    if let Some(place) = schema["$ref"].as_str() {
        let name = escape(place.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            return all.iter().map(short).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(all) = schema["enum"].as_array() {
        return all.iter().map(literal).collect::<Vec<_>>().join(", ");
    }
    if let Some(one) = schema.get("const") {
        return literal(one);
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let kinds = kinds.into_iter().map(|kind| match kind {
        "array" => format!("list of {}", short(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        kind => escape(kind),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

fn literal(value: &Value) -> String {
    format!("<code>{}</code>", escape(&value.to_string()))
}

/// Describes the fields and variants of a schema.
pub(super) fn shape(schema: &Value) -> String {
    let mut html = prose(text(&schema["description"]));
    html += &fields(schema);
    let several = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|item| schema[item].as_array());
    if let Some(all) = several {
        html += "<ul>\n";
        for it in all {
            let named = if it["$ref"].is_string() || !it["properties"].is_object() {
                short(it)
            } else {
                String::new()
            };
            html += &format!("<li>{named}{}</li>\n", shape(it));
        }
        html += "</ul>\n";
    } else if html.is_empty() || schema["enum"].is_array() {
        html += &format!("<p>{}</p>\n", short(schema));
    }
    html
}

fn fields(schema: &Value) -> String {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows = String::new();
    for (name, of) in members(&schema["properties"]) {
        let needed = if required.iter().any(|it| it == name) { "" } else { " <i>optional</i>" };
        let about = prose(text(&of["description"]));
        rows += &format!("<dt><code>{}</code> {}{needed}</dt>\n<dd>{about}</dd>\n", escape(name), short(of));
    }
    if rows.is_empty() { rows } else { format!("<dl>\n{rows}</dl>\n") }
}
