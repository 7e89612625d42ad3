//! Renders JSON Schemas for people: a short name of a type, and a description of its fields.

use serde_json::Value;

use super::html::{escape_html, render_prose};
use super::{object_members, text_or_empty};

/// Describes the type of a schema in a few words.
pub(super) fn render_short_type(schema: &Value) -> String {
    if let Some(place) = schema["$ref"].as_str() {
        let name = escape_html(place.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            return all.iter().map(render_short_type).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(all) = schema["enum"].as_array() {
        return all.iter().map(render_literal).collect::<Vec<_>>().join(", ");
    }
    if let Some(one) = schema.get("const") {
        return render_literal(one);
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let kinds = kinds.into_iter().map(|kind| match kind {
        "array" => format!("list of {}", render_short_type(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        kind => escape_html(kind),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

fn render_literal(value: &Value) -> String {
    format!("<code>{}</code>", escape_html(&value.to_string()))
}

/// Describes the fields and variants of a schema.
pub(super) fn render_shape(schema: &Value) -> String {
    let mut html = render_prose(text_or_empty(&schema["description"]));
    html += &render_fields(schema);
    let several = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|item| schema[item].as_array());
    if let Some(all) = several {
        html += "<ul>\n";
        for it in all {
            let named = if it["$ref"].is_string() || !it["properties"].is_object() {
                render_short_type(it)
            } else {
                String::new()
            };
            html += &format!("<li>{named}{}</li>\n", render_shape(it));
        }
        html += "</ul>\n";
    } else if html.is_empty() || schema["enum"].is_array() {
        html += &format!("<p>{}</p>\n", render_short_type(schema));
    }
    html
}

fn render_fields(schema: &Value) -> String {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows = String::new();
    for (name, of) in object_members(&schema["properties"]) {
        let needed = if required.iter().any(|it| it == name) { "" } else { " <i>optional</i>" };
        let about = render_prose(text_or_empty(&of["description"]));
        rows += &format!(
            "<dt><code>{}</code> {}{needed}</dt>\n<dd>{about}</dd>\n",
            escape_html(name),
            render_short_type(of)
        );
    }
    if rows.is_empty() { rows } else { format!("<dl>\n{rows}</dl>\n") }
}
