//! How Rust types are fields of a state.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::finite;
use crate::item::Item;
use crate::list::PersistentList;
use crate::reducer::Reducer;
use crate::schema::{FieldSpec, ValueCheck};
use crate::shape::FieldShape;
use crate::slot::FieldContent;
use crate::snapshot::Snapshot;

/// An error in one field of a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field '{field}': {problem}")]
pub struct FieldFault {
    /// The field's name.
    pub field: String,
    /// The error message, without the field's name.
    pub problem: String,
}

impl FieldFault {
    /// Makes an error of the field's name and a message.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// A type that can be a field of a typed state.
///
/// Implemented for truth values, numbers, text, `Option`, `Vec`, string-keyed maps, JSON, [`SharedList`] and, for any
/// serializable type of the application's own, [`JsonField`].
pub trait StateField: Clone + Send + Sync + 'static {
    /// Returns the declared type.
    fn shape() -> FieldShape;

    /// Returns a check that goes beyond the shape, for each value or list element.
    fn check() -> Option<ValueCheck>;

    /// Reads the field.
    ///
    /// # Errors
    /// A sentence that describes the error.
    fn read(slot: &FieldContent) -> Result<Self, String>;

    /// Writes the field.
    fn write(self) -> FieldContent;
}

/// A field that is a list, so that updates can name its elements.
pub trait StateListField: StateField {
    /// The type of the elements.
    type Element: Serialize + Send + Sync + 'static;
}

fn decode<T: Serialize + DeserializeOwned + Send + Sync + 'static>(item: &Item) -> Result<Arc<T>, String> {
    item.decode_shared::<T>().map_err(|error| error.to_string())
}

fn one(slot: &FieldContent) -> Result<&Item, String> {
    match slot {
        FieldContent::One(item) => Ok(item),
        FieldContent::Many(_) => Err("expected one value, found a list".into()),
    }
}

fn check_by<T: Serialize + DeserializeOwned + Send + Sync + 'static>() -> Option<ValueCheck> {
    let reads_back = AtomicBool::new(false);
    Some(Arc::new(move |item: &Item| check_typed_item::<T>(item, &reads_back)))
}

/// Checks that an item is a `T`, and that a typed value can be stored. The first value that is written is read back: a
/// type that cannot read its own output would be found by the next process only.
fn check_typed_item<T>(item: &Item, reads_back: &AtomicBool) -> Result<(), String>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    match item.borrow_typed_value::<T>() {
        Some(_) if item.has_json_form() => Ok(()),
        Some(value) => {
            finite::check_finite_numbers(value).map_err(|error| error.to_string())?;
            if !reads_back.load(Ordering::Relaxed) {
                let text = item.json_text().map_err(|error| error.to_string())?;
                // Nesting that is too deep for the reader is a fault of this value, not of the type.
                if let Some(error) = serde_json::from_str::<T>(text).err().filter(|error| error.is_data()) {
                    return Err(format!("its type does not read what it writes: {error}"));
                }
                // Null and empty values prove nothing about the rest of the type.
                reads_back.store(text.len() > 4, Ordering::Relaxed);
            }
            Ok(())
        }
        None => decode::<T>(item).map(drop),
    }
}

macro_rules! scalar {
    ($($type:ty => $shape:expr),* $(,)?) => {$(
        impl StateField for $type {
            fn shape() -> FieldShape {
                $shape
            }
            fn check() -> Option<ValueCheck> {
                check_by::<Self>()
            }
            fn read(slot: &FieldContent) -> Result<Self, String> {
                decode::<Self>(one(slot)?).map(|value| (*value).clone())
            }
            fn write(self) -> FieldContent {
                FieldContent::One(Item::from_typed(self))
            }
        }
    )*};
}

scalar! {
    bool => FieldShape::Bool,
    i32 => FieldShape::Int,
    i64 => FieldShape::Int,
    u32 => FieldShape::Int,
    u64 => FieldShape::Int,
    f64 => FieldShape::Float,
    String => FieldShape::Str,
}

impl StateField for Value {
    fn shape() -> FieldShape {
        FieldShape::Any
    }
    fn check() -> Option<ValueCheck> {
        None
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        slot.to_json().map_err(|error| error.to_string())
    }
    fn write(self) -> FieldContent {
        FieldContent::from_json(self)
    }
}

impl StateField for Map<String, Value> {
    fn shape() -> FieldShape {
        FieldShape::Dict(Box::new(FieldShape::Any))
    }
    fn check() -> Option<ValueCheck> {
        check_by::<Self>()
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        decode::<Self>(one(slot)?).map(|value| (*value).clone())
    }
    fn write(self) -> FieldContent {
        FieldContent::One(Item::from_typed(self))
    }
}

impl<T: StateField + Serialize + DeserializeOwned> StateField for BTreeMap<String, T> {
    fn shape() -> FieldShape {
        FieldShape::Dict(Box::new(T::shape()))
    }
    fn check() -> Option<ValueCheck> {
        check_by::<Self>()
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        decode::<Self>(one(slot)?).map(|value| (*value).clone())
    }
    fn write(self) -> FieldContent {
        FieldContent::One(Item::from_typed(self))
    }
}

impl<T: StateField + Serialize + DeserializeOwned> StateField for Option<T> {
    fn shape() -> FieldShape {
        FieldShape::Optional(Box::new(T::shape()))
    }
    fn check() -> Option<ValueCheck> {
        let inner = T::check()?;
        Some(Arc::new(move |item| match item.borrow_typed_value::<T>() {
            None if item.is_null() => Ok(()),
            _ => inner(item),
        }))
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        match slot {
            FieldContent::One(item) if item.borrow_typed_value::<T>().is_none() && item.is_null() => Ok(None),
            other => T::read(other).map(Some),
        }
    }
    fn write(self) -> FieldContent {
        self.map_or_else(|| FieldContent::One(Item::from_json(Value::Null)), T::write)
    }
}

impl<T: StateField + Serialize + DeserializeOwned> StateField for Vec<T> {
    fn shape() -> FieldShape {
        T::shape().list()
    }
    fn check() -> Option<ValueCheck> {
        check_by::<T>()
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        let list = slot.as_list().ok_or("expected a list")?;
        list.iter().map(|item| decode::<T>(item).map(|value| (*value).clone())).collect()
    }
    fn write(self) -> FieldContent {
        FieldContent::Many(self.into_iter().map(Item::from_typed).collect())
    }
}

impl<T: StateField + Serialize + DeserializeOwned> StateListField for Vec<T> {
    type Element = T;
}

/// Any serializable type of the application's own, as one field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonField<T>(pub T);

impl<T> StateField for JsonField<T>
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn shape() -> FieldShape {
        FieldShape::Any
    }
    fn check() -> Option<ValueCheck> {
        check_by::<T>()
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        match slot {
            FieldContent::One(item) => decode::<T>(item).map(|value| Self((*value).clone())),
            FieldContent::Many(list) => {
                let json = list.to_json().map_err(|error| error.to_string())?;
                T::deserialize(json).map(Self).map_err(|error| error.to_string())
            }
        }
    }
    fn write(self) -> FieldContent {
        FieldContent::One(Item::from_typed(self.0))
    }
}

/// A list field that is shared, not copied: the type for long lists.
///
/// Elements are decoded when they are looked at, each at most once in its life. Positions are absolute
/// ([`PersistentList`]).
pub struct SharedList<T> {
    list: PersistentList,
    element: PhantomData<fn() -> T>,
}

impl<T> SharedList<T>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Returns how many elements the list has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.len()
    }

    /// Tells whether the list has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns an element, shared.
    ///
    /// # Panics
    /// When the stored data is damaged: elements are checked before they are merged (INV-13). Inside a node this
    /// becomes the node's error.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<Arc<T>> {
        self.list.get(position).map(decode_element)
    }

    /// Returns the last element.
    ///
    /// # Panics
    /// As [`SharedList::get`].
    #[must_use]
    pub fn last(&self) -> Option<Arc<T>> {
        self.list.last().map(decode_element)
    }

    /// Iterates over the elements from a position on.
    ///
    /// # Panics
    /// As [`SharedList::get`].
    pub fn iter_from(&self, position: u64) -> impl DoubleEndedIterator<Item = Arc<T>> + ExactSizeIterator {
        self.list.iter_from(position).map(decode_element)
    }

    /// Iterates over the elements that are held.
    ///
    /// # Panics
    /// As [`SharedList::get`].
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Arc<T>> + ExactSizeIterator {
        self.iter_from(self.list.first_held_position())
    }

    /// Returns the list underneath.
    #[must_use]
    pub fn persistent_list(&self) -> &PersistentList {
        &self.list
    }
}

fn decode_element<T: Serialize + DeserializeOwned + Send + Sync + 'static>(item: &Item) -> Arc<T> {
    match item.decode_shared() {
        Ok(element) => element,
        Err(error) => panic!("INV-13: a stored list element is damaged: {error}"),
    }
}

impl<T> From<PersistentList> for SharedList<T> {
    fn from(list: PersistentList) -> Self {
        Self { list, element: PhantomData }
    }
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        self.list.clone().into()
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        PersistentList::default().into()
    }
}

impl<T> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl<T> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl<T> StateField for SharedList<T>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn shape() -> FieldShape {
        FieldShape::Any.list()
    }
    fn check() -> Option<ValueCheck> {
        check_by::<T>()
    }
    fn read(slot: &FieldContent) -> Result<Self, String> {
        slot.as_list().cloned().map(Self::from).ok_or_else(|| "expected a list".into())
    }
    fn write(self) -> FieldContent {
        FieldContent::Many(self.list)
    }
}

impl<T> StateListField for SharedList<T>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Element = T;
}

/// Declares a field of a typed state; called by `#[derive(State)]`.
#[must_use]
pub fn declare_field<T: StateField>(name: &'static str, default: Option<T>, reducer: Reducer) -> FieldSpec {
    let field = match default {
        Some(default) => FieldSpec::new(name, T::shape(), default.write()),
        None => FieldSpec::required(name, T::shape()),
    };
    let field = FieldSpec { rust: Some(TypeId::of::<T>()), check: T::check(), ..field };
    field.reducer(reducer)
}

/// Reads a field of a typed state; called by `#[derive(State)]`.
///
/// # Errors
/// When the state has no such field, or another type of it.
pub fn read_field<T: StateField>(snapshot: &Snapshot, name: &str) -> Result<T, FieldFault> {
    let slot = snapshot.get(name).ok_or_else(|| FieldFault::new(name, "is not declared"))?;
    T::read(slot).map_err(|error| FieldFault::new(name, error))
}
