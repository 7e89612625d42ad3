//! Matchers: the demands of an expected value on an actual value (conformance-adapter §5.10).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::yaml::{YamlNode, YamlValue};

/// The demand on a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueMatcher {
    /// Exactly this.
    Exactly(Value),
    /// `<uuid>`: a UUID of version 4 in its usual form.
    Uuid,
    /// `<uuid-hex>`: 32 lowercase hexadecimal digits.
    UuidHex,
    /// `<any-string>`: text that is not empty.
    AnyString,
    /// `<name_X>`: any value at its first use, and the same value at each later use.
    Bound(String),
    /// `<from ...>`: a value that the case refers to.
    Reference(String),
    /// A list, item by item.
    List(Vec<Self>),
    /// A map, key by key.
    Map(BTreeMap<String, Self>),
}

/// Whether a map may hold more than is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtraKeyPolicy {
    /// No: the comparison is exact.
    Refused,
    /// Yes, at this level.
    Allowed,
}

/// The values of tokens within one case.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenBindings {
    bound: BTreeMap<String, Value>,
    references: BTreeMap<String, Value>,
}

impl TokenBindings {
    /// Sets the value of a reference.
    pub(crate) fn bind_reference(&mut self, token: impl Into<String>, value: Value) {
        self.references.insert(token.into(), value);
    }

    /// Returns the value of a reference.
    #[must_use]
    pub(crate) fn resolve_reference(&self, token: &str) -> Option<&Value> {
        self.references.get(token)
    }
}

impl ValueMatcher {
    /// Reads an expected value.
    ///
    /// # Errors
    /// For a token that nobody knows.
    pub(crate) fn from_yaml_node(spot: &LocatedNode) -> Outcome<Self> {
        Self::from_node_at_path(&spot.node, &spot.path)
    }

    fn from_node_at_path(node: &YamlNode, path: &str) -> Outcome<Self> {
        Ok(match &node.value {
            YamlValue::Str(text) if is_token(text) => parse_token(text)
                .ok_or_else(|| CaseFailure::reader_error(path, format!("unknown token {text}")))?,
            YamlValue::List(items) => Self::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, it)| Self::from_node_at_path(it, &format!("{path}[{at}]")))
                    .collect::<Outcome<_>>()?,
            ),
            YamlValue::Map(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(key, it)| {
                        Ok((key.clone(), Self::from_node_at_path(it, &format!("{path}.{key}"))?))
                    })
                    .collect::<Outcome<_>>()?,
            ),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Int(_)
            | YamlValue::Float(_)
            | YamlValue::Str(_) => Self::Exactly(node.to_json()),
        })
    }

    /// Compares a value.
    ///
    /// # Errors
    /// Where and how it differs.
    pub(crate) fn match_value(
        &self,
        actual: &Value,
        extra: ExtraKeyPolicy,
        bindings: &mut TokenBindings,
    ) -> Result<(), String> {
        let no = |wanted: &str| Err(format!("expected {wanted}, found {actual}"));
        match self {
            Self::Exactly(wanted) if are_equal_json(wanted, actual) => Ok(()),
            Self::Exactly(wanted) => no(&wanted.to_string()),
            Self::Uuid => {
                if actual.as_str().is_some_and(is_uuid4) {
                    Ok(())
                } else {
                    no("a UUID of version 4")
                }
            }
            Self::UuidHex => {
                if actual.as_str().is_some_and(is_uuid_hex) {
                    Ok(())
                } else {
                    no("32 hex digits")
                }
            }
            Self::AnyString => {
                if actual.as_str().is_some_and(|text| !text.is_empty()) {
                    Ok(())
                } else {
                    no("text that is not empty")
                }
            }
            Self::Bound(name) => {
                let bound = bindings.bound.entry(name.clone()).or_insert_with(|| actual.clone());
                if bound == actual {
                    Ok(())
                } else {
                    Err(format!("expected {name} = {bound}, found {actual}"))
                }
            }
            Self::Reference(name) => match bindings.resolve_reference(name) {
                Some(wanted) if wanted == actual => Ok(()),
                Some(wanted) => no(&format!("{name} = {wanted}")),
                None => Err(format!("{name} refers to nothing")),
            },
            Self::List(wanted) => {
                let Some(items) = actual.as_array() else { return no("a list") };
                if items.len() != wanted.len() {
                    return Err(format!("expected {} items, found {}: {actual}", wanted.len(), items.len()));
                }
                wanted.iter().zip(items).enumerate().try_for_each(|(at, (wanted, item))| {
                    wanted
                        .match_value(item, ExtraKeyPolicy::Refused, bindings)
                        .map_err(|error| format!("[{at}]: {error}"))
                })
            }
            Self::Map(wanted) => match_map(wanted, actual, extra, bindings),
        }
    }
}

fn match_map(
    wanted: &BTreeMap<String, ValueMatcher>,
    actual: &Value,
    extra: ExtraKeyPolicy,
    bindings: &mut TokenBindings,
) -> Result<(), String> {
    let Some(map) = actual.as_object() else { return Err(format!("expected a map, found {actual}")) };
    if extra == ExtraKeyPolicy::Refused
        && let Some(key) = map.keys().find(|it| !wanted.contains_key(*it))
    {
        return Err(format!("'{key}' is there and not expected: {actual}"));
    }
    wanted.iter().try_for_each(|(key, wanted)| match map.get(key) {
        None => Err(format!("'{key}' is not there: {actual}")),
        Some(value) => wanted
            .match_value(value, ExtraKeyPolicy::Refused, bindings)
            .map_err(|error| format!("{key}: {error}")),
    })
}

/// Numbers are equal by value, 1 and 1.0; truth values and numbers are not.
fn are_equal_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

/// Tells whether a text is a token: text in one pair of brackets. With more brackets it is text, as of a prompt with
/// tags.
fn is_token(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    inner.is_some_and(|inner| !inner.contains(['<', '>']))
}

fn parse_token(text: &str) -> Option<ValueMatcher> {
    let name = &text[1..text.len() - 1];
    let word = |it: &str| !it.is_empty() && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match name {
        "uuid" => Some(ValueMatcher::Uuid),
        "any-string" => Some(ValueMatcher::AnyString),
        "uuid-hex" => Some(ValueMatcher::UuidHex),
        _ if name.starts_with("uuid-hex-") => Some(ValueMatcher::UuidHex),
        _ if name.starts_with("from ") || name.starts_with("invocation_id from ") => {
            Some(ValueMatcher::Reference(text.to_owned()))
        }
        _ if word(name) && name.contains('_') => Some(ValueMatcher::Bound(text.to_owned())),
        _ => None,
    }
}

/// Tells whether a text is a UUID of version 4 in its usual form.
#[must_use]
pub(crate) fn is_uuid4(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, it)| match at {
            8 | 13 | 18 | 23 => *it == b'-',
            14 => *it == b'4',
            19 => matches!(it, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(it, b'0'..=b'9' | b'a'..=b'f'),
        })
}

fn is_uuid_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
