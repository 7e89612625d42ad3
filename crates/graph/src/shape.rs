//! The types that a schema can declare, as data.

use std::fmt;

use serde_json::Value;

/// The declared type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldShape {
    /// Anything, also null.
    Any,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text.
    Str,
    /// A list of one shape.
    List(Box<Self>),
    /// A map from text to one shape.
    Dict(Box<Self>),
    /// A map whose content the engine does not look into; the name is for people and for the chat harness.
    Record(String),
    /// Null or another shape.
    Optional(Box<Self>),
}

impl FieldShape {
    /// Makes a list of this shape.
    #[must_use]
    pub fn list(self) -> Self {
        Self::List(Box::new(self))
    }

    /// Tells whether the shape is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    /// Checks whether the shape permits any value.
    pub(crate) fn allows_any_value(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Optional(inner) => inner.allows_any_value(),
            Self::Bool
            | Self::Int
            | Self::Float
            | Self::Str
            | Self::List(_)
            | Self::Dict(_)
            | Self::Record(_) => false,
        }
    }

    /// Returns the shape of the elements, when this is a list or may be one.
    #[must_use]
    pub fn element_shape(&self) -> Option<&Self> {
        match self {
            Self::List(element) => Some(element),
            Self::Any => Some(self),
            Self::Optional(inner) => inner.element_shape(),
            Self::Bool | Self::Int | Self::Float | Self::Str | Self::Dict(_) | Self::Record(_) => None,
        }
    }

    /// Checks whether a value of this shape may be one of another shape, as far as the declarations say: false only
    /// where they contradict each other (graph-engine §2). Whole numbers are numbers. Shapes that allow null or
    /// anything, and maps, whose content is not looked into, are left to the check of the value itself.
    #[must_use]
    pub fn may_fit_shape(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Optional(inner), other) => inner.may_fit_shape(other),
            (ours, Self::Optional(inner)) => ours.may_fit_shape(inner),
            (Self::List(ours), Self::List(theirs)) | (Self::Dict(ours), Self::Dict(theirs)) => {
                ours.may_fit_shape(theirs)
            }
            (Self::Record(_) | Self::Dict(_), Self::Record(_) | Self::Dict(_))
            | (Self::Int, Self::Int | Self::Float)
            | (Self::Bool, Self::Bool)
            | (Self::Float, Self::Float)
            | (Self::Str, Self::Str) => true,
            (
                Self::Bool
                | Self::Int
                | Self::Float
                | Self::Str
                | Self::List(_)
                | Self::Dict(_)
                | Self::Record(_),
                _,
            ) => false,
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// A sentence that names the expected and the found type.
    pub fn check_value(&self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Any, _)
            | (Self::Bool, Value::Bool(_))
            | (Self::Float, Value::Number(_))
            | (Self::Str, Value::String(_))
            | (Self::Record(_), Value::Object(_))
            | (Self::Optional(_), Value::Null) => Ok(()),
            (Self::Int, Value::Number(number)) if !number.is_f64() => Ok(()),
            (Self::List(element), Value::Array(items)) => {
                items.iter().try_for_each(|item| element.check_value(item))
            }
            (Self::Dict(element), Value::Object(map)) => {
                map.values().try_for_each(|it| element.check_value(it))
            }
            (Self::Optional(inner), other) => inner.check_value(other),
            (expected, found) => Err(format!("expected {expected}, found {}", FoundValueType(found))),
        }
    }
}

impl fmt::Display for FieldShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::Str => f.write_str("string"),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Dict(element) => write!(f, "dict<string,{element}>"),
            Self::Record(name) => f.write_str(name),
            Self::Optional(inner) => write!(f, "{inner}?"),
        }
    }
}

/// Names the type of a found value without repeating content that may be large or private.
struct FoundValueType<'a>(&'a Value);

impl fmt::Display for FoundValueType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Number(number) if number.is_f64() => "a fraction",
            Value::Number(_) => "a whole number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "a map",
        })
    }
}

/// Returns the JSON type of a value, for messages.
#[must_use]
pub(crate) fn describe_value_type(value: &Value) -> String {
    FoundValueType(value).to_string()
}
