//! How fields are read: a field that is left out and one that is `null` are the same; any other value has to fit.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// A struct that is read from an object, and from nothing else: a list of its fields in their order is none.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads a struct from an object.
pub(super) fn read_object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(deserializer).map(|object| object.0)
}

/// Reads a struct that need not be there.
pub(super) fn read_optional_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Object<T>>::deserialize(deserializer).map(|found| found.map(|object| object.0))
}

/// Reads a list of structs.
pub(super) fn read_objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

/// Reads a list of structs that need not be there.
pub(super) fn read_optional_objects<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|object| object.0).collect()))
}

/// Reads a field that need not be there.
pub(super) fn read_optional_field<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// Reads a text of at least one character.
pub(super) fn read_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match String::deserialize(deserializer)? {
        text if text.is_empty() => Err(Error::invalid_length(0, &"a text that is not empty")),
        text => Ok(text),
    }
}

/// Reads a text of at least one character that need not be there.
pub(super) fn read_optional_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(text) if text.is_empty() => Err(Error::invalid_length(0, &"a text that is not empty")),
        found => Ok(found),
    }
}

/// Reads a whole number of at least 0, however it is written: `5000.0` is one.
pub(super) fn read_optional_whole_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || Error::invalid_value(Unexpected::Other("another number"), &"a whole number of at least 0");
    whole_from_number(&number).map(Some).ok_or_else(wrong)
}

/// Reads a number of at least 0.
pub(super) fn read_optional_amount<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Number>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let fits = number.as_f64().is_some_and(|f64| f64 >= 0.0);
    let wrong = || Error::invalid_value(Unexpected::Other("another number"), &"a number of at least 0");
    if fits { Ok(Some(number)) } else { Err(wrong()) }
}

/// Reads an object; anything else there is ignored, where the protocol says nothing of the field.
pub(super) fn read_object_or_nothing<'de, D>(deserializer: D) -> Result<Option<Map<String, Value>>, D::Error>
where
    D: Deserializer<'de>,
{
    match Value::deserialize(deserializer)? {
        Value::Object(object) => Ok(Some(object)),
        _ => Ok(None),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and in range"
)]
fn whole_from_number(number: &Number) -> Option<u64> {
    const ABOVE: f64 = 18_446_744_073_709_551_616.0;
    let float = || {
        number.as_f64().filter(|f64| f64.fract() == 0.0 && (0.0..ABOVE).contains(f64)).map(|f64| f64 as u64)
    };
    number.as_u64().or_else(float)
}

/// How an enum is read from its word: a word that is not listed is an error, or what stands behind `_`.
macro_rules! words {
    ($name:ident, $($word:literal => $value:ident),+ $(, _ => $other:ident)?) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                match word.as_ref() {
                    $($word => Ok(Self::$value),)+
                    _ => words!(@other [$($word),+] $($other)?),
                }
            }
        }
    };
    (@other [$($word:literal),+] $other:ident) => { Ok(Self::$other) };
    (@other [$($word:literal),+]) => {
        Err(serde::de::Error::unknown_variant("another word", &[$($word),+]))
    };
}

pub(super) use words;
