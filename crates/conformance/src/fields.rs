//! Strict reading: a map is consumed key by key, and an unread key is an error.

use std::collections::VecDeque;

use crate::failure::{CaseFailure, Outcome};
use crate::yaml::{YamlNode, YamlValue};

/// A node and the path that leads to it.
#[derive(Debug, Clone)]
pub(crate) struct LocatedNode {
    /// The node.
    pub(crate) node: YamlNode,
    /// The path, as in `expected.final_state`.
    pub(crate) path: String,
}

/// A map that is being consumed.
#[derive(Debug)]
pub(crate) struct YamlMapReader {
    path: String,
    left: VecDeque<(String, YamlNode)>,
}

impl LocatedNode {
    /// Puts a node at a path.
    pub(crate) fn new(node: YamlNode, path: impl Into<String>) -> Self {
        Self { node, path: path.into() }
    }

    /// Says that the value is of a form that nobody expects here.
    #[must_use]
    pub(crate) fn unexpected_kind(&self, wanted: &str) -> CaseFailure {
        let line = self.node.line;
        CaseFailure::reader_error(
            &self.path,
            format!("expected {wanted}, found {} (line {line})", self.node.kind_name()),
        )
    }

    /// Takes the value apart as a map.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn into_map_reader(self) -> Outcome<YamlMapReader> {
        match self.node.value {
            YamlValue::Map(entries) => Ok(YamlMapReader { path: self.path, left: entries.into() }),
            _ => Err(self.unexpected_kind("a map")),
        }
    }

    /// Takes the value apart as a list.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn into_items(self) -> Outcome<Vec<Self>> {
        match self.node.value {
            YamlValue::List(items) => {
                let path = self.path;
                Ok(items
                    .into_iter()
                    .enumerate()
                    .map(|(at, it)| Self::new(it, format!("{path}[{at}]")))
                    .collect())
            }
            _ => Err(self.unexpected_kind("a list")),
        }
    }

    /// Returns the text.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn as_text(&self) -> Outcome<&str> {
        match &self.node.value {
            YamlValue::Str(text) => Ok(text),
            _ => Err(self.unexpected_kind("text")),
        }
    }

    /// Takes the value apart as a list of assertions: at least one, and none of them twice. A list that demands
    /// nothing, or the same again, is a list that was changed.
    ///
    /// # Errors
    /// When it is no list, is empty, or has an item twice.
    pub(crate) fn into_distinct_items(self) -> Outcome<Vec<Self>> {
        let path = self.path.clone();
        let items = self.into_items()?;
        let values: Vec<serde_json::Value> = items.iter().map(|item| item.node.to_json()).collect();
        match values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            Some((_, twice)) => Err(CaseFailure::assertion_error(path, format!("{twice} is named twice"))),
            None if items.is_empty() => {
                Err(CaseFailure::assertion_error(path, "an empty list demands nothing"))
            }
            None => Ok(items),
        }
    }

    /// Returns the texts of a list of assertions, as [`into_distinct_items`](Self::into_distinct_items) does.
    ///
    /// # Errors
    /// As there, and when an item is no text.
    pub(crate) fn into_distinct_texts(self) -> Outcome<Vec<String>> {
        self.into_distinct_items()?.iter().map(|item| item.as_text().map(str::to_owned)).collect()
    }

    /// Returns the texts of a list.
    ///
    /// # Errors
    /// When it is none, or an item is no text.
    pub(crate) fn into_texts(self) -> Outcome<Vec<String>> {
        self.into_items()?.iter().map(|item| item.as_text().map(str::to_owned)).collect()
    }

    /// Returns the truth value.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn as_bool(&self) -> Outcome<bool> {
        match self.node.value {
            YamlValue::Bool(it) => Ok(it),
            _ => Err(self.unexpected_kind("true or false")),
        }
    }

    /// Returns the whole number.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn as_integer(&self) -> Outcome<i64> {
        match self.node.value {
            YamlValue::Int(it) => Ok(it),
            _ => Err(self.unexpected_kind("a whole number")),
        }
    }

    /// Returns the number, whole or not.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn as_number(&self) -> Outcome<f64> {
        match self.node.value {
            #[expect(clippy::cast_precision_loss, reason = "fixtures count in small numbers")]
            YamlValue::Int(it) => Ok(it as f64),
            YamlValue::Float(it) => Ok(it),
            _ => Err(self.unexpected_kind("a number")),
        }
    }

    /// Tells whether the value is null.
    #[must_use]
    pub(crate) fn is_null(&self) -> bool {
        self.node.value == YamlValue::Null
    }
}

impl YamlMapReader {
    /// Returns the path of the map.
    #[must_use]
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn child_node(&self, key: &str, node: YamlNode) -> LocatedNode {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        LocatedNode { node, path }
    }

    /// Takes the value of a key, if it is there.
    pub(crate) fn take_value(&mut self, key: &str) -> Option<LocatedNode> {
        let at = self.left.iter().position(|(it, _)| it == key)?;
        let (_, node) = self.left.remove(at)?;
        Some(self.child_node(key, node))
    }

    /// Takes the value of a key that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn take_required(&mut self, key: &str) -> Outcome<LocatedNode> {
        self.take_value(key)
            .ok_or_else(|| CaseFailure::reader_error(&self.path, format!("key '{key}' is missing")))
    }

    /// Takes the text of a key, if it is there.
    ///
    /// # Errors
    /// When it is no text.
    pub(crate) fn take_text(&mut self, key: &str) -> Outcome<Option<String>> {
        self.take_value(key).map(|it| it.as_text().map(str::to_owned)).transpose()
    }

    /// Puts back a value that was taken out of this map.
    pub(crate) fn put_back(&mut self, spot: Option<LocatedNode>) {
        if let Some(spot) = spot {
            let key = spot.path.rsplit('.').next().unwrap_or_default().to_owned();
            self.left.push_back((key, spot.node));
        }
    }

    /// Takes the next entry, whatever its key.
    pub(crate) fn take_next_entry(&mut self) -> Option<(String, LocatedNode)> {
        let (key, node) = self.left.pop_front()?;
        let spot = self.child_node(&key, node);
        Some((key, spot))
    }

    /// Returns the keys that are left.
    pub(crate) fn remaining_keys(&self) -> impl Iterator<Item = &str> {
        self.left.iter().map(|(key, _)| key.as_str())
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// For the first key that nobody took.
    pub(crate) fn reject_remaining_keys(self) -> Outcome<()> {
        match self.left.front() {
            None => Ok(()),
            Some((key, node)) => Err(unknown_key(&self.path, key, node.line)),
        }
    }
}

/// Says that a key is unknown.
#[must_use]
pub(crate) fn unknown_key(path: &str, key: &str, line: usize) -> CaseFailure {
    let path = if path.is_empty() { "the case" } else { path };
    CaseFailure::reader_error(path, format!("unknown key '{key}' (line {line})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse_document;

    fn fields(text: &str) -> YamlMapReader {
        LocatedNode::new(parse_document(text).unwrap(), "").into_map_reader().unwrap()
    }

    #[test]
    fn what_nobody_took_is_an_error_by_name() {
        let mut read = fields("a: 1\nb: 2\n");
        assert_eq!(read.take_value("a").unwrap().as_integer().unwrap(), 1);
        assert_eq!(
            read.reject_remaining_keys().unwrap_err().to_string(),
            "not understood: the case: unknown key 'b' (line 2)"
        );
    }

    #[test]
    fn a_list_of_assertions_demands_something_and_nothing_twice() {
        let read = |text: &str| {
            fields(text).take_value("a").unwrap().into_distinct_texts().map_err(|error| error.to_string())
        };
        assert_eq!(read("a: [x, y]"), Ok(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(read("a: []"), Err("assertion: a: an empty list demands nothing".to_owned()));
        assert_eq!(read("a: [x, y, x]"), Err("assertion: a: \"x\" is named twice".to_owned()));
    }

    #[test]
    fn a_value_of_another_form_is_an_error_by_path() {
        let mut read = fields("a: {b: text}");
        let mut inner = read.take_value("a").unwrap().into_map_reader().unwrap();
        let failure = inner.take_required("b").unwrap().as_integer().unwrap_err();
        assert_eq!(failure.to_string(), "not understood: a.b: expected a whole number, found text (line 1)");
    }
}
