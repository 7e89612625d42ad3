//! Reducers: how an update becomes part of a field (graph-engine §2).

mod keyed;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::guard::catch_panic;
use crate::item::Item;
use crate::list::PersistentList;
use crate::shape::{FieldShape, describe_value_type};
use crate::slot::FieldContent;

pub use keyed::KeyExtractor;

/// Why a reducer could not merge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReducerFault {
    /// A message that describes the error and names the value.
    pub message: String,
}

impl ReducerFault {
    /// Makes an error of a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl From<serde_json::Error> for ReducerFault {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// A reducer of the application's own.
pub trait CustomReducer: Send + Sync {
    /// Returns the name that errors use.
    fn name(&self) -> &str;

    /// Merges an update into the prior value. Pure: no I/O, no clock.
    ///
    /// # Errors
    /// Surfaces as `reducer_error` that names field, reducer and node. A panic does, too.
    fn reduce_update(&self, prior: &FieldContent, update: FieldContent)
    -> Result<FieldContent, ReducerFault>;

    /// Tells whether merging a value that was merged already changes nothing, when that is known. `Some(false)` makes
    /// the compiler warn of projections that send a field round (graph-engine §2).
    fn is_round_trip_idempotent(&self) -> Option<bool>;
}

/// How updates to a field are merged: the eight canonical reducers and custom ones (graph-engine §2).
#[derive(Clone)]
pub enum Reducer {
    /// The new value replaces the old.
    LastWriteWins,
    /// The update's items go to the end of the list.
    Append,
    /// The update's keys replace those of the map, one level deep.
    Merge,
    /// The update is a list of lists; their items go to the end.
    ConcatFlatten,
    /// The update is a list of maps; each is merged in turn.
    MergeAll,
    /// As append, then items are dropped from the front until at most this many are left. Must be at least 1.
    BoundedAppend(i64),
    /// As append, but only items whose key (the item itself, without one) is not there yet.
    DedupeAppend(Option<KeyExtractor>),
    /// Items replace those of the same key in place; others go to the end. The key must be given.
    MergeByKey(Option<KeyExtractor>),
    /// The application's own.
    Custom(Arc<dyn CustomReducer>),
}

impl Reducer {
    /// Returns the canonical name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::LastWriteWins => "last_write_wins",
            Self::Append => "append",
            Self::Merge => "merge",
            Self::ConcatFlatten => "concat_flatten",
            Self::MergeAll => "merge_all",
            Self::BoundedAppend(_) => "bounded_append",
            Self::DedupeAppend(_) => "dedupe_append",
            Self::MergeByKey(_) => "merge_by_key",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Tells whether a list under this reducer only ever grows at its end, so that stores keep it as rows (INV-4).
    #[must_use]
    pub fn only_appends_items(&self) -> bool {
        match self {
            Self::Append | Self::ConcatFlatten | Self::DedupeAppend(_) => true,
            Self::LastWriteWins
            | Self::Merge
            | Self::MergeAll
            | Self::BoundedAppend(_)
            | Self::MergeByKey(_)
            | Self::Custom(_) => false,
        }
    }

    /// Tells whether merging a value that was merged already is known to change the field (graph-engine §2).
    #[must_use]
    pub fn breaks_round_trip(&self) -> bool {
        match self {
            Self::Append | Self::ConcatFlatten | Self::BoundedAppend(_) | Self::MergeAll => true,
            Self::LastWriteWins | Self::Merge | Self::DedupeAppend(_) | Self::MergeByKey(_) => false,
            Self::Custom(custom) => custom.is_round_trip_idempotent() == Some(false),
        }
    }

    /// Tells whether the reducer adds the items of an update to a list.
    #[must_use]
    pub fn adds_list_items(&self) -> bool {
        match self {
            Self::Append
            | Self::BoundedAppend(_)
            | Self::DedupeAppend(_)
            | Self::MergeByKey(_)
            | Self::Custom(_) => true,
            Self::LastWriteWins | Self::Merge | Self::ConcatFlatten | Self::MergeAll => false,
        }
    }

    /// Returns the shape of the updates that a field of this shape takes.
    #[must_use]
    pub fn update_shape_for(&self, field: &FieldShape) -> FieldShape {
        match (self, field.element_shape()) {
            (Self::Custom(_), _) => FieldShape::Any,
            (Self::ConcatFlatten, Some(element)) => element.clone().list().list(),
            (Self::MergeAll, _) => field.clone().list(),
            (
                Self::LastWriteWins
                | Self::Append
                | Self::Merge
                | Self::ConcatFlatten
                | Self::BoundedAppend(_)
                | Self::DedupeAppend(_)
                | Self::MergeByKey(_),
                _,
            ) => field.clone(),
        }
    }

    /// Returns a message when the parameters are not valid.
    #[must_use]
    pub fn configuration_problem(&self) -> Option<String> {
        match self {
            Self::BoundedAppend(max) if *max < 1 => Some(format!("max_len must be at least 1, is {max}")),
            Self::MergeByKey(None) => Some("merge_by_key needs a key".into()),
            Self::LastWriteWins
            | Self::Append
            | Self::Merge
            | Self::ConcatFlatten
            | Self::MergeAll
            | Self::BoundedAppend(_)
            | Self::DedupeAppend(_)
            | Self::MergeByKey(Some(_))
            | Self::Custom(_) => None,
        }
    }

    /// Merges an update into the prior value.
    pub(crate) fn reduce_update(
        &self,
        prior: &FieldContent,
        update: FieldContent,
    ) -> Result<FieldContent, ReducerFault> {
        match self {
            Self::LastWriteWins => Ok(update),
            Self::Append => Ok(FieldContent::Many(
                expect_list("prior", prior)?.append_items(expect_items("update", update)?),
            )),
            Self::Merge => merge_maps(prior, [update]),
            Self::MergeAll => {
                merge_maps(prior, expect_items("update", update)?.into_iter().map(FieldContent::One))
            }
            Self::ConcatFlatten => concat_flatten(prior, update),
            Self::BoundedAppend(max) => bounded_append(prior, update, *max),
            // These three call functions of the application's; one that panics has refused.
            Self::DedupeAppend(key) => {
                reduce_catching_panic(|| keyed::dedupe_append(prior, update, key.as_ref()))
            }
            Self::MergeByKey(key) => {
                reduce_catching_panic(|| keyed::merge_by_key(prior, update, key.as_ref()))
            }
            Self::Custom(custom) => reduce_catching_panic(|| custom.reduce_update(prior, update)),
        }
    }
}

fn reduce_catching_panic(
    reduce: impl FnOnce() -> Result<FieldContent, ReducerFault>,
) -> Result<FieldContent, ReducerFault> {
    catch_panic(reduce).unwrap_or_else(|panicked| Err(ReducerFault::new(panicked)))
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn expect_list<'a>(what: &str, slot: &'a FieldContent) -> Result<&'a PersistentList, ReducerFault> {
    match slot {
        FieldContent::Many(list) => Ok(list),
        FieldContent::One(item) => {
            Err(ReducerFault::new(format!("the {what} is not a list but {}", describe_item(item))))
        }
    }
}

fn expect_items(what: &str, slot: FieldContent) -> Result<Vec<Item>, ReducerFault> {
    expect_list(what, &slot).map(|list| list.iter().cloned().collect())
}

/// Names a value in a message: its kind and, as far as it is short, its text.
fn describe_item(item: &Item) -> String {
    match (item.json(), item.json_text()) {
        (Ok(json), Ok(text)) if text.len() <= 80 => format!("{} ({text})", describe_value_type(json)),
        (Ok(json), _) => describe_value_type(json),
        (Err(error), _) => error.to_string(),
    }
}

fn expect_map<'a>(what: &str, slot: &'a FieldContent) -> Result<&'a Map<String, Value>, ReducerFault> {
    match slot {
        FieldContent::One(item) => item
            .json()?
            .as_object()
            .ok_or_else(|| ReducerFault::new(format!("the {what} is not a map but {}", describe_item(item)))),
        FieldContent::Many(_) => Err(ReducerFault::new(format!("the {what} is not a map but a list"))),
    }
}

fn merge_maps(
    prior: &FieldContent,
    updates: impl IntoIterator<Item = FieldContent>,
) -> Result<FieldContent, ReducerFault> {
    let base = expect_map("prior", prior)?;
    let mut merged: Option<Map<String, Value>> = None;
    for update in updates {
        let update = expect_map("update", &update)?;
        let target = merged.get_or_insert_with(|| base.clone());
        target.extend(update.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Ok(merged
        .map_or_else(|| prior.clone(), |merged| FieldContent::One(Item::from_json(Value::Object(merged)))))
}

fn concat_flatten(prior: &FieldContent, update: FieldContent) -> Result<FieldContent, ReducerFault> {
    let prior = expect_list("prior", prior)?;
    let mut flat = Vec::new();
    for sub in expect_items("update", update)? {
        let Value::Array(elements) = sub.json()? else {
            return Err(ReducerFault::new(format!(
                "an element of the update is not a list but {}",
                describe_item(&sub)
            )));
        };
        flat.extend(elements.iter().cloned().map(Item::from_json));
    }
    Ok(FieldContent::Many(prior.append_items(flat)))
}

fn bounded_append(
    prior: &FieldContent,
    update: FieldContent,
    max: i64,
) -> Result<FieldContent, ReducerFault> {
    let old = expect_list("prior", prior)?;
    let new = expect_items("update", update)?;
    if new.is_empty() {
        return Ok(prior.clone());
    }
    let max = usize::try_from(max).unwrap_or(0);
    let all = old.append_items(new);
    let drop = all.iter().len().saturating_sub(max);
    if drop == 0 {
        return Ok(FieldContent::Many(all));
    }
    Ok(FieldContent::Many(all.iter_from(all.first_held_position() + drop as u64).cloned().collect()))
}
