//! The reducers that compare items by key.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{ReducerFault, expect_items, expect_list};
use crate::FieldContent;
use crate::Item;

type KeyFunction = dyn Fn(&Value) -> Result<Value, ReducerFault> + Send + Sync;

/// How to get an item's key.
#[derive(Clone)]
pub struct KeyExtractor(Arc<KeyFunction>);

impl fmt::Debug for KeyExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl KeyExtractor {
    /// Takes a field of the item. An item without that field is an error.
    pub fn field(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::from_function(move |item| match item.get(&name) {
            Some(value) => Ok(value.clone()),
            None => Err(ReducerFault::new(format!("an item has no field '{name}'"))),
        })
    }

    /// Computes the key by a function.
    pub fn from_function(
        key: impl Fn(&Value) -> Result<Value, ReducerFault> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(key))
    }
}

/// A hashable key: scalars only. Text, numbers and truth values never equal each other across kinds; 1 and 1.0 do.
#[derive(Debug, PartialEq, Eq, Hash)]
enum HashableKey {
    Null,
    Bool(bool),
    Whole(i128),
    Fraction(u64),
    Text(String),
}

fn extract_hashable_key(key: Option<&KeyExtractor>, item: &Item) -> Result<HashableKey, ReducerFault> {
    let json = item.json()?;
    let value = match key {
        Some(key) => (key.0)(json)?,
        None => json.clone(),
    };
    match value {
        Value::Null => Ok(HashableKey::Null),
        Value::Bool(value) => Ok(HashableKey::Bool(value)),
        Value::String(text) => Ok(HashableKey::Text(text)),
        Value::Number(number) => Ok(match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => HashableKey::Whole(whole.into()),
            (None, Some(whole), _) => HashableKey::Whole(whole.into()),
            (None, None, Some(real)) if real.fract() == 0.0 && real.abs() < 1e15 => {
                HashableKey::Whole(real as i128)
            }
            (None, None, real) => HashableKey::Fraction(real.unwrap_or(f64::NAN).to_bits()),
        }),
        Value::Array(_) | Value::Object(_) => {
            Err(ReducerFault::new(format!("the key {value} of an item is not hashable: it is not a scalar")))
        }
    }
}

pub(super) fn dedupe_append(
    prior: &FieldContent,
    update: FieldContent,
    key: Option<&KeyExtractor>,
) -> Result<FieldContent, ReducerFault> {
    let old = expect_list("prior", prior)?;
    let new = expect_items("update", update)?;
    if new.is_empty() {
        return Ok(prior.clone());
    }
    let mut seen = old
        .iter()
        .map(|it| extract_hashable_key(key, it))
        .collect::<Result<std::collections::HashSet<_>, _>>()?;
    let mut fresh = Vec::new();
    for item in new {
        if seen.insert(extract_hashable_key(key, &item)?) {
            fresh.push(item);
        }
    }
    Ok(FieldContent::Many(old.append_items(fresh)))
}

pub(super) fn merge_by_key(
    prior: &FieldContent,
    update: FieldContent,
    key: Option<&KeyExtractor>,
) -> Result<FieldContent, ReducerFault> {
    let mut merged: Vec<Item> = expect_list("prior", prior)?.iter().cloned().collect();
    let new = expect_items("update", update)?;
    if new.is_empty() {
        return Ok(prior.clone());
    }
    // The last of several equal keys is the one that is replaced: later insertions win.
    let mut index = HashMap::with_capacity(merged.len());
    for (at, item) in merged.iter().enumerate() {
        index.insert(extract_hashable_key(key, item)?, at);
    }
    for item in new {
        let at = *index.entry(extract_hashable_key(key, &item)?).or_insert(merged.len());
        match merged.get_mut(at) {
            Some(place) => *place = item,
            None => merged.push(item),
        }
    }
    Ok(FieldContent::Many(merged.into_iter().collect()))
}
