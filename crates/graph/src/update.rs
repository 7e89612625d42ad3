//! Partial updates: the return values of nodes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::slot::FieldContent;

/// A partial update: fields with values, in order.
///
/// It is a multi-map, not a state: a field may be absent (untouched), present with null, or present several times (each
/// contribution passes the reducer by itself), and a value may have another type than the field, where the reducer says
/// so (graph-engine §2).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateUpdate {
    entries: Vec<(Cow<'static, str>, FieldContent)>,
}

impl StateUpdate {
    /// Makes an update that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a contribution to a field.
    #[must_use]
    pub fn with(mut self, field: impl Into<Cow<'static, str>>, value: FieldContent) -> Self {
        self.entries.push((field.into(), value));
        self
    }

    /// Adds a contribution to a field, as JSON.
    #[must_use]
    pub fn with_json(self, field: impl Into<Cow<'static, str>>, value: Value) -> Self {
        self.with(field, FieldContent::from_json(value))
    }

    /// Adds all contributions of another update after those of this one.
    #[must_use]
    pub fn merged_with(mut self, other: impl Into<Self>) -> Self {
        self.entries.extend(other.into().entries);
        self
    }

    /// Tells whether the update changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the contributions.
    pub fn iter_entries(&self) -> impl Iterator<Item = (&str, &FieldContent)> {
        self.entries.iter().map(|(field, slot)| (field.as_ref(), slot))
    }

    /// Returns the last contribution to a field.
    #[must_use]
    pub fn find_last_value(&self, field: &str) -> Option<&FieldContent> {
        self.entries.iter().rev().find(|(name, _)| name == field).map(|(_, slot)| slot)
    }

    /// Returns the contributions, in order.
    #[must_use]
    pub fn into_entries(self) -> Vec<(Cow<'static, str>, FieldContent)> {
        self.entries
    }
}

impl From<Map<String, Value>> for StateUpdate {
    fn from(map: Map<String, Value>) -> Self {
        let entries =
            map.into_iter().map(|(field, value)| (Cow::Owned(field), FieldContent::from_json(value)));
        Self { entries: entries.collect() }
    }
}
