//! The content of a state field: one value or a list.

use serde_json::Value;

use crate::item::Item;
use crate::list::PersistentList;

/// The content of one state field, or of one update to it.
///
/// A JSON array is always a list, so that appending to it shares the prior elements.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldContent {
    /// A value.
    One(Item),
    /// A list of values.
    Many(PersistentList),
}

impl FieldContent {
    /// Takes a JSON value apart: arrays become lists.
    #[must_use]
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::Many(items.into_iter().map(Item::from_json).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Self::One(Item::from_json(value))
            }
        }
    }

    /// Puts the JSON value together again.
    ///
    /// # Errors
    /// As [`Item::json`].
    pub fn to_json(&self) -> serde_json::Result<Value> {
        match self {
            Self::One(item) => item.json().cloned(),
            Self::Many(list) => list.to_json(),
        }
    }

    /// Tells whether both are one and the same content, in constant time; equal content built twice does not count.
    #[must_use]
    pub fn is_same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(a), Self::One(b)) => a.is_same_item(b),
            (Self::Many(a), Self::Many(b)) => a.is_same_list(b),
            (Self::One(_), Self::Many(_)) | (Self::Many(_), Self::One(_)) => false,
        }
    }

    /// Returns the list, if it is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&PersistentList> {
        match self {
            Self::Many(list) => Some(list),
            Self::One(_) => None,
        }
    }
}
