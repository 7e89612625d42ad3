//! Documents: YAML with its order and its places kept.

use std::fmt;

use serde_json::{Map, Number, Value};
use yaml_rust2::parser::{Event, MarkedEventReceiver, Parser};
use yaml_rust2::scanner::{Marker, TScalarStyle};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The value.
    pub(crate) value: Yaml,
}

/// A value; a map keeps its order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Yaml {
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
    List(Vec<Node>),
    /// A map.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Returns the value as JSON, whose maps have no order.
    #[must_use]
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(it) => Value::Bool(*it),
            Yaml::Int(it) => Value::from(*it),
            Yaml::Float(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
            Yaml::Str(it) => Value::String(it.clone()),
            Yaml::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Yaml::Map(entries) => Value::Object(
                entries.iter().map(|(key, it)| (key.clone(), it.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the entry of a map.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Yaml::Map(entries) => entries.iter().find(|(it, _)| it == key).map(|(_, node)| node),
            Yaml::Null | Yaml::Bool(_) | Yaml::Int(_) | Yaml::Float(_) | Yaml::Str(_) | Yaml::List(_) => None,
        }
    }

    /// Names the kind of the value.
    #[must_use]
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Yaml::Null => "null",
            Yaml::Bool(_) => "a truth value",
            Yaml::Int(_) => "a whole number",
            Yaml::Float(_) => "a fraction",
            Yaml::Str(_) => "text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a map",
        }
    }
}

/// Why a text is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlFault {
    /// The line, from 1.
    pub(crate) line: usize,
    /// A description of the fault.
    pub(crate) what: String,
}

impl fmt::Display for YamlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads one document. Aliases, tags, repeated keys and a second document are refused: no fixture has a use for them,
/// and each could hide something.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn parse(text: &str) -> Result<Node, YamlFault> {
    let mut loader = Loader::default();
    let loaded = Parser::new_from_str(text).load(&mut loader, true);
    loaded.map_err(|error| YamlFault { line: error.marker().line(), what: error.info().to_owned() })?;
    match (loader.fault, loader.root) {
        (Some(fault), _) => Err(fault),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(YamlFault { line: 1, what: "the document is empty".into() }),
    }
}

#[derive(Debug)]
enum Open {
    List(usize, Vec<Node>),
    Map(usize, Vec<(String, Node)>, Option<String>),
}

#[derive(Debug, Default)]
struct Loader {
    open: Vec<Open>,
    root: Option<Node>,
    fault: Option<YamlFault>,
}

impl Loader {
    fn refuse(&mut self, line: usize, what: impl Into<String>) {
        self.fault.get_or_insert(YamlFault { line, what: what.into() });
    }

    fn put(&mut self, node: Node) {
        let line = node.line;
        let mut refused = None;
        match self.open.last_mut() {
            None if self.root.is_some() => refused = Some("a second document".to_owned()),
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, key)) => match (key.take(), node.value) {
                (Some(key), value) => entries.push((key, Node { line, value })),
                (None, Yaml::Str(name)) if entries.iter().any(|(it, _)| *it == name) => {
                    refused = Some(format!("key '{name}' is there twice"));
                }
                (None, Yaml::Str(name)) => *key = Some(name),
                (None, other) => match scalar_key(&other) {
                    Some(name) => *key = Some(name),
                    None => refused = Some("a key that is no text".to_owned()),
                },
            },
        }
        if let Some(what) = refused {
            self.refuse(line, what);
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Open::List(line, items)) => self.put(Node { line, value: Yaml::List(items) }),
            Some(Open::Map(line, entries, _)) => self.put(Node { line, value: Yaml::Map(entries) }),
            None => self.refuse(0, "an end without a beginning"),
        }
    }
}

fn scalar_key(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Null => Some("null".into()),
        Yaml::Bool(it) => Some(it.to_string()),
        Yaml::Int(it) => Some(it.to_string()),
        Yaml::Float(_) | Yaml::Str(_) | Yaml::List(_) | Yaml::Map(_) => None,
    }
}

impl MarkedEventReceiver for Loader {
    fn on_event(&mut self, event: Event, mark: Marker) {
        if self.fault.is_some() {
            return;
        }
        let line = mark.line();
        match event {
            Event::Alias(_) => self.refuse(line, "an alias"),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => self.refuse(line, "a tag"),
            Event::Scalar(text, style, _, None) => {
                let value = if style == TScalarStyle::Plain { plain(text) } else { Yaml::Str(text) };
                self.put(Node { line, value });
            }
            Event::SequenceStart(..) => self.open.push(Open::List(line, Vec::new())),
            Event::MappingStart(..) => self.open.push(Open::Map(line, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart
            | Event::DocumentEnd => {}
        }
    }
}

/// Reads an unquoted scalar by YAML's core schema.
fn plain(text: String) -> Yaml {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Yaml::Null,
        "true" | "True" | "TRUE" => Yaml::Bool(true),
        "false" | "False" | "FALSE" => Yaml::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Yaml::Float(f64::NAN),
        _ => {
            let numeric = text.starts_with(|it: char| it.is_ascii_digit() || matches!(it, '-' | '+' | '.'));
            if let (true, Ok(whole)) = (numeric, text.parse()) {
                return Yaml::Int(whole);
            }
            match text.parse::<f64>() {
                Ok(fraction) if numeric && fraction.is_finite() => Yaml::Float(fraction),
                Ok(_) | Err(_) => Yaml::Str(text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().what
    }

    #[test]
    fn scalars_are_read_by_the_core_schema_and_quotes_make_text() {
        let read = parse("[1, -2, 0.5, true, ~, yes, '1', \"true\", 3.1.2, <uuid>, .]").unwrap().to_json();
        assert_eq!(
            read,
            serde_json::json!([1, -2, 0.5, true, null, "yes", "1", "true", "3.1.2", "<uuid>", "."])
        );
    }

    #[test]
    fn a_map_keeps_its_order_and_its_lines() {
        let read = parse("b: 1\na:\n  c: 2\n").unwrap();
        let Yaml::Map(entries) = &read.value else { panic!("it is a map") };
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
