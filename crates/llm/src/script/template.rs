//! Templates: text with the names of captures in braces.

use serde_json::Value;

use super::pattern::{Captures, is_capture_name};
use crate::Map;

/// Fills in a template. Names are checked when a script is read; one that is not there stays.
pub(super) fn fill_template(template: &str, captures: &Captures) -> String {
    let mut filled = String::with_capacity(template.len());
    for piece in split_template(template) {
        match piece {
            TemplatePiece::Text(text) => filled.push_str(text),
            TemplatePiece::Brace => filled.push('{'),
            TemplatePiece::Name(name) => match captures.get(name) {
                Some(value) => filled.push_str(value),
                None => {
                    filled.push('{');
                    filled.push_str(name);
                    filled.push('}');
                }
            },
        }
    }
    filled
}

/// Fills in every string of an object, at any depth. Names of fields stay as they are.
pub(super) fn fill_map_strings(map: &Map, captures: &Captures) -> Map {
    map.iter().map(|(name, value)| (name.clone(), fill_value_strings(value, captures))).collect()
}

/// Calls `visit` with every name that a template uses.
pub(super) fn for_each_name<'a>(template: &'a str, visit: &mut dyn FnMut(&'a str)) {
    for piece in split_template(template) {
        if let TemplatePiece::Name(name) = piece {
            visit(name);
        }
    }
}

/// Calls `visit` with every name that the strings of a value use.
pub(super) fn for_each_name_in_value<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a str)) {
    match value {
        Value::String(text) => for_each_name(text, visit),
        Value::Array(items) => items.iter().for_each(|item| for_each_name_in_value(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| for_each_name_in_value(field, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Makes a template that says exactly this text.
pub(super) fn escape_braces(text: &str) -> String {
    text.replace('{', "{{")
}

fn fill_value_strings(value: &Value, captures: &Captures) -> Value {
    match value {
        Value::String(text) => Value::String(fill_template(text, captures)),
        Value::Array(items) => items.iter().map(|item| fill_value_strings(item, captures)).collect(),
        Value::Object(fields) => Value::Object(fill_map_strings(fields, captures)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

enum TemplatePiece<'a> {
    Text(&'a str),
    /// A doubled opening brace.
    Brace,
    Name(&'a str),
}

/// Splits a template. A brace that opens no name is text, so that JSON needs no escapes.
fn split_template(template: &str) -> impl Iterator<Item = TemplatePiece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(after) = rest.strip_prefix("{{") {
            rest = after;
            return Some(TemplatePiece::Brace);
        }
        if let Some(after) = rest.strip_prefix('{')
            && let Some((name, after)) = after.split_once('}')
            && is_capture_name(name)
        {
            rest = after;
            return Some(TemplatePiece::Name(name));
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find('{').map_or(rest.len(), |at| at + first);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(TemplatePiece::Text(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fills_in_names_and_leaves_other_braces() {
        let captures = Captures::from([("a".to_owned(), "1{b}".to_owned())]);
        for (template, expected) in [
            ("{a}", "1{b}"),
            ("<{a}{a}>", "<1{b}1{b}>"),
            ("{{a}", "{a}"),
            ("{\"a\": {a}", "{\"a\": 1{b}"),
            ("{", "{"),
            ("{A}", "{A}"),
        ] {
            assert_eq!(fill_template(template, &captures), expected, "{template}");
        }
        assert_eq!(fill_template(&escape_braces("{a} {{ }"), &captures), "{a} {{ }");
    }
}
