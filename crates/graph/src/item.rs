//! One immutable value in up to three forms: text, JSON, typed. Each form is made at most once in the item's life.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::finite;

/// One immutable, shared value: a field of a state, or an element of a list field.
///
/// An item begins as JSON text (loaded), as JSON (a run-time schema) or as a typed value, and is converted when another
/// form is first asked for. Cloning shares it.
#[derive(Clone)]
pub struct Item(Arc<ItemEncodings>);

#[derive(Default)]
struct ItemEncodings {
    text: OnceLock<Box<str>>,
    json: OnceLock<Value>,
    typed: OnceLock<TypedItemValue>,
}

#[derive(Clone)]
struct TypedItemValue {
    value: Arc<dyn Any + Send + Sync>,
    encode: fn(&(dyn Any + Send + Sync)) -> serde_json::Result<String>,
}

fn encode_typed_value<T: Serialize + Any>(value: &(dyn Any + Send + Sync)) -> serde_json::Result<String> {
    let value = value.downcast_ref::<T>().expect("an item is encoded by the encoder of its own type");
    finite::check_finite_numbers(value).map_err(serde::ser::Error::custom)?;
    serde_json::to_string(value)
}

/// Sets a cell unless another thread has set it, and returns its content.
fn get_or_init_cell<T>(cell: &OnceLock<T>, value: T) -> &T {
    cell.get_or_init(|| value)
}

impl Item {
    /// Makes an item of JSON text, as a store returns it. The text is parsed when it is first looked into.
    #[must_use]
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        let forms = ItemEncodings { text: OnceLock::from(text.into()), ..ItemEncodings::default() };
        Self(Arc::new(forms))
    }

    /// Makes an item of a JSON value.
    #[must_use]
    pub fn from_json(json: Value) -> Self {
        Self(Arc::new(ItemEncodings { json: OnceLock::from(json), ..ItemEncodings::default() }))
    }

    /// Makes an item of a typed value. It is encoded when it is first stored or looked at as JSON.
    #[must_use]
    pub fn from_typed<T: Serialize + Send + Sync + 'static>(value: T) -> Self {
        Self::from_shared_value(Arc::new(value))
    }

    /// Makes an item of a typed value that is shared already.
    #[must_use]
    pub fn from_shared_value<T: Serialize + Send + Sync + 'static>(value: Arc<T>) -> Self {
        let typed = TypedItemValue { value, encode: encode_typed_value::<T> };
        Self(Arc::new(ItemEncodings { typed: OnceLock::from(typed), ..ItemEncodings::default() }))
    }

    /// Returns the item as JSON text.
    ///
    /// # Errors
    /// When a typed value cannot be represented in JSON: NaN, infinities, maps with keys that are not text.
    pub fn json_text(&self) -> serde_json::Result<&str> {
        if let Some(text) = self.0.text.get() {
            return Ok(text);
        }
        let text = match (self.0.typed.get(), self.0.json.get()) {
            (Some(typed), _) => (typed.encode)(typed.value.as_ref())?,
            (None, Some(json)) => json.to_string(),
            (None, None) => unreachable!("an item has at least one form"),
        };
        Ok(get_or_init_cell(&self.0.text, text.into_boxed_str()).as_ref())
    }

    /// Returns the item as a JSON value.
    ///
    /// # Errors
    /// When the text is not JSON, or a typed value cannot be represented.
    pub fn json(&self) -> serde_json::Result<&Value> {
        if let Some(json) = self.0.json.get() {
            return Ok(json);
        }
        let json = serde_json::from_str(self.json_text()?)?;
        Ok(get_or_init_cell(&self.0.json, json))
    }

    /// Returns the item as a value of type `T`, shared.
    ///
    /// The first type that an item is asked for is kept; asking for a second one decodes each time.
    ///
    /// # Errors
    /// When the item is not of this shape.
    pub fn decode_shared<T>(&self) -> serde_json::Result<Arc<T>>
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        if let Some(found) = self.held_typed_value() {
            return Ok(found);
        }
        let value = Arc::new(self.decode_uncached::<T>()?);
        let typed = TypedItemValue { value: value.clone(), encode: encode_typed_value::<T> };
        get_or_init_cell(&self.0.typed, typed);
        Ok(value)
    }

    /// Returns the value of type `T` that the item holds already.
    #[must_use]
    fn held_typed_value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.typed.get().and_then(|it| it.value.clone().downcast::<T>().ok())
    }

    /// Tells whether the item is null.
    pub(crate) fn is_null(&self) -> bool {
        match (self.0.json.get(), self.json_text()) {
            (Some(json), _) => json.is_null(),
            (None, text) => text.is_ok_and(|text| text == "null"),
        }
    }

    /// Tells whether the item has been JSON already, so that it can be JSON again.
    pub(crate) fn has_json_form(&self) -> bool {
        self.0.text.get().is_some() || self.0.json.get().is_some()
    }

    /// Borrows the value of type `T` that the item holds already.
    pub(crate) fn borrow_typed_value<T: 'static>(&self) -> Option<&T> {
        self.0.typed.get().and_then(|it| it.value.downcast_ref::<T>())
    }

    fn decode_uncached<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        match (self.0.text.get(), self.0.json.get()) {
            (Some(text), _) => serde_json::from_str(text),
            (None, Some(json)) => T::deserialize(json),
            (None, None) => serde_json::from_str(self.json_text()?),
        }
    }

    /// Tells whether both are one and the same item, not merely equal.
    #[must_use]
    pub fn is_same_item(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns an address that is this item's own for as long as somebody holds it.
    #[must_use]
    pub fn shared_address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.json_text() {
            Ok(text) => f.write_str(text),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

/// Items are equal when their JSON is.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_item(other) || matches!((self.json(), other.json()), (Ok(a), Ok(b)) if a == b)
    }
}
