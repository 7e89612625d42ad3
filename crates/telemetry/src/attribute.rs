//! The attributes of spans: the scalars of OpenTelemetry, and lists of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The attributes of a span, by name.
pub type Attributes = BTreeMap<Cow<'static, str>, AttributeValue>;

/// The value of an attribute (spec: observability §2).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A fraction.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Several values of one kind.
    List(Vec<Self>),
}

impl AttributeValue {
    /// Makes a value of JSON; nothing of `null` and of objects, which no attribute can hold.
    ///
    /// A number beyond the range of whole numbers is a fraction.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null | Value::Object(_) => return None,
            Value::Bool(value) => Self::Bool(*value),
            Value::String(text) => Self::Text(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Double(number.as_f64()?),
            },
            Value::Array(items) => Self::List(items.iter().map(Self::from_json).collect::<Option<_>>()?),
        })
    }

    /// Writes the value as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Int(whole) => Value::from(*whole),
            Self::Double(fraction) => Value::from(*fraction),
            Self::Bool(value) => Value::from(*value),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
        }
    }

    /// Changes each text, as to leave out secrets.
    pub(crate) fn map_texts(&mut self, change: &dyn Fn(&str) -> String) {
        match self {
            Self::Text(text) => *text = change(text),
            Self::List(items) => items.iter_mut().for_each(|item| item.map_texts(change)),
            Self::Int(_) | Self::Double(_) | Self::Bool(_) => {}
        }
    }

    /// Returns the text, where it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Int(_) | Self::Double(_) | Self::Bool(_) | Self::List(_) => None,
        }
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A count beyond the range of whole numbers stays at their end.
impl From<u64> for AttributeValue {
    fn from(count: u64) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(count: u32) -> Self {
        Self::Int(count.into())
    }
}

impl<T: Into<Self>> FromIterator<T> for AttributeValue {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// Sets attributes briefly.
pub(crate) trait SetAttribute {
    /// Sets an attribute.
    fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<AttributeValue>);

    /// Sets an attribute where there is a value.
    fn set_some(&mut self, name: impl Into<Cow<'static, str>>, value: Option<impl Into<AttributeValue>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

impl SetAttribute for Attributes {
    fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<AttributeValue>) {
        self.insert(name.into(), value.into());
    }
}
