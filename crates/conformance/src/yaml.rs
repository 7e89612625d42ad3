//! Documents: YAML with its order and its places kept.

use std::fmt;

use serde_json::{Map, Number, Value};
use yaml_rust2::parser::{Event, MarkedEventReceiver, Parser};
use yaml_rust2::scanner::{Marker, TScalarStyle};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The value.
    pub(crate) value: YamlValue,
}

/// A value; a map keeps its order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlValue {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// Text.
    Str(String),
    /// A list.
    List(Vec<YamlNode>),
    /// A map.
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    /// Returns the value as JSON, whose maps have no order.
    #[must_use]
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            YamlValue::Null => Value::Null,
            YamlValue::Bool(it) => Value::Bool(*it),
            YamlValue::Int(it) => Value::from(*it),
            YamlValue::Float(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
            YamlValue::Str(it) => Value::String(it.clone()),
            YamlValue::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            YamlValue::Map(entries) => Value::Object(
                entries.iter().map(|(key, it)| (key.clone(), it.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the entry of a map.
    #[must_use]
    pub(crate) fn get_entry(&self, key: &str) -> Option<&Self> {
        match &self.value {
            YamlValue::Map(entries) => entries.iter().find(|(it, _)| it == key).map(|(_, node)| node),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Int(_)
            | YamlValue::Float(_)
            | YamlValue::Str(_)
            | YamlValue::List(_) => None,
        }
    }

    /// Names the kind of the value.
    #[must_use]
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "null",
            YamlValue::Bool(_) => "a truth value",
            YamlValue::Int(_) => "a whole number",
            YamlValue::Float(_) => "a fraction",
            YamlValue::Str(_) => "text",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a map",
        }
    }
}

/// Why a text is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlParseError {
    /// The line, from 1.
    pub(crate) line: usize,
    /// A description of the fault.
    pub(crate) what: String,
}

impl fmt::Display for YamlParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads one document. Aliases, tags, repeated keys and a second document are refused: no fixture has a use for them,
/// and each could hide something.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn parse_document(text: &str) -> Result<YamlNode, YamlParseError> {
    let mut loader = YamlLoader::default();
    let loaded = Parser::new_from_str(text).load(&mut loader, true);
    loaded.map_err(|error| YamlParseError { line: error.marker().line(), what: error.info().to_owned() })?;
    match (loader.fault, loader.root) {
        (Some(fault), _) => Err(fault),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(YamlParseError { line: 1, what: "the document is empty".into() }),
    }
}

#[derive(Debug)]
enum OpenCollection {
    List(usize, Vec<YamlNode>),
    Map(usize, Vec<(String, YamlNode)>, Option<String>),
}

#[derive(Debug, Default)]
struct YamlLoader {
    open: Vec<OpenCollection>,
    root: Option<YamlNode>,
    fault: Option<YamlParseError>,
}

impl YamlLoader {
    fn record_error(&mut self, line: usize, what: impl Into<String>) {
        self.fault.get_or_insert(YamlParseError { line, what: what.into() });
    }

    fn attach_node(&mut self, node: YamlNode) {
        let line = node.line;
        let mut refused = None;
        match self.open.last_mut() {
            None if self.root.is_some() => refused = Some("a second document".to_owned()),
            None => self.root = Some(node),
            Some(OpenCollection::List(_, items)) => items.push(node),
            Some(OpenCollection::Map(_, entries, key)) => match (key.take(), node.value) {
                (Some(key), value) => entries.push((key, YamlNode { line, value })),
                (None, YamlValue::Str(name)) if entries.iter().any(|(it, _)| *it == name) => {
                    refused = Some(format!("key '{name}' is there twice"));
                }
                (None, YamlValue::Str(name)) => *key = Some(name),
                (None, other) => match scalar_key_text(&other) {
                    Some(name) => *key = Some(name),
                    None => refused = Some("a key that is no text".to_owned()),
                },
            },
        }
        if let Some(what) = refused {
            self.record_error(line, what);
        }
    }

    fn close_collection(&mut self) {
        match self.open.pop() {
            Some(OpenCollection::List(line, items)) => {
                self.attach_node(YamlNode { line, value: YamlValue::List(items) })
            }
            Some(OpenCollection::Map(line, entries, _)) => {
                self.attach_node(YamlNode { line, value: YamlValue::Map(entries) })
            }
            None => self.record_error(0, "an end without a beginning"),
        }
    }
}

fn scalar_key_text(value: &YamlValue) -> Option<String> {
    match value {
        YamlValue::Null => Some("null".into()),
        YamlValue::Bool(it) => Some(it.to_string()),
        YamlValue::Int(it) => Some(it.to_string()),
        YamlValue::Float(_) | YamlValue::Str(_) | YamlValue::List(_) | YamlValue::Map(_) => None,
    }
}

impl MarkedEventReceiver for YamlLoader {
    fn on_event(&mut self, event: Event, mark: Marker) {
        if self.fault.is_some() {
            return;
        }
        let line = mark.line();
        match event {
            Event::Alias(_) => self.record_error(line, "an alias"),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => self.record_error(line, "a tag"),
            Event::Scalar(text, style, _, None) => {
                let value = if style == TScalarStyle::Plain {
                    parse_plain_scalar(text)
                } else {
                    YamlValue::Str(text)
                };
                self.attach_node(YamlNode { line, value });
            }
            Event::SequenceStart(..) => self.open.push(OpenCollection::List(line, Vec::new())),
            Event::MappingStart(..) => self.open.push(OpenCollection::Map(line, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.close_collection(),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart
            | Event::DocumentEnd => {}
        }
    }
}

/// Reads an unquoted scalar by YAML's core schema.
fn parse_plain_scalar(text: String) -> YamlValue {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => YamlValue::Null,
        "true" | "True" | "TRUE" => YamlValue::Bool(true),
        "false" | "False" | "FALSE" => YamlValue::Bool(false),
        ".nan" | ".NaN" | ".NAN" => YamlValue::Float(f64::NAN),
        _ => {
            let numeric = text.starts_with(|it: char| it.is_ascii_digit() || matches!(it, '-' | '+' | '.'));
            if let (true, Ok(whole)) = (numeric, text.parse()) {
                return YamlValue::Int(whole);
            }
            match text.parse::<f64>() {
                Ok(fraction) if numeric && fraction.is_finite() => YamlValue::Float(fraction),
                Ok(_) | Err(_) => YamlValue::Str(text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse_document(text).unwrap_err().what
    }

    #[test]
    fn scalars_are_read_by_the_core_schema_and_quotes_make_text() {
        let read =
            parse_document("[1, -2, 0.5, true, ~, yes, '1', \"true\", 3.1.2, <uuid>, .]").unwrap().to_json();
        assert_eq!(
            read,
            serde_json::json!([1, -2, 0.5, true, null, "yes", "1", "true", "3.1.2", "<uuid>", "."])
        );
    }

    #[test]
    fn a_map_keeps_its_order_and_its_lines() {
        let read = parse_document("b: 1\na:\n  c: 2\n").unwrap();
        let YamlValue::Map(entries) = &read.value else { panic!("it is a map") };
        let keys: Vec<_> = entries.iter().map(|(key, node)| (key.as_str(), node.line)).collect();
        assert_eq!(keys, [("b", 1), ("a", 3)]);
    }

    #[test]
    fn what_could_hide_something_is_refused() {
        assert_eq!(refused("a: 1\na: 2"), "key 'a' is there twice");
        assert_eq!(refused("a: &x 1\nb: *x"), "an alias");
        assert_eq!(refused("a: !!str 1"), "a tag");
        assert_eq!(refused("a: 1\n---\nb: 2"), "a second document");
        assert_eq!(refused(""), "the document is empty");
    }
}
