//! Whole numbers as JSON Schema has them: `7.0` is one.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The smallest number above all that fit.
const ABOVE: f64 = 18_446_744_073_709_551_616.0;

struct Whole {
    /// Whether the number may stand in a text, as parameters of a query do.
    of_text: bool,
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of at least 0")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        let fits = number.fract() == 0.0 && (0.0..ABOVE).contains(&number);
        if fits { Ok(number as u64) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let wrong = E::invalid_value(Unexpected::Str(text), &self);
        if !self.of_text {
            return Err(wrong);
        }
        let whole = text
            .split_once('.')
            .filter(|(_, part)| !part.is_empty() && part.bytes().all(|part| part == b'0'));
        whole.map_or(text, |(whole, _)| whole).parse().map_err(|_| wrong)
    }
}

/// A whole number that is read from JSON.
struct InJson(u64);

impl<'de> Deserialize<'de> for InJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whole { of_text: false }).map(Self)
    }
}

/// Reads a whole number.
pub(super) fn read_whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    InJson::deserialize(deserializer).map(|number| number.0)
}

/// Reads a whole number that need not be there.
pub(super) fn read_optional_whole_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    Option::<InJson>::deserialize(deserializer).map(|number| number.map(|number| number.0))
}

/// Reads a whole number of a query.
pub(super) fn read_query_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(Whole { of_text: true }).map(Some)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Debug, Deserialize)]
    struct Shape {
        #[serde(default, deserialize_with = "super::read_optional_whole_number")]
        n: Option<u64>,
    }

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        let read = |n: Value| serde_json::from_value::<Shape>(json!({ "n": n })).map(|part| part.n).ok();
        assert_eq!(read(json!(7)), Some(Some(7)));
        assert_eq!(read(json!(1154.0)), Some(Some(1154)));
        assert_eq!(read(json!(u64::MAX)), Some(Some(u64::MAX)));
        assert_eq!(read(Value::Null), Some(None));
        for wrong in [json!(-1), json!(7.5), json!("7"), json!(1e30), json!([7])] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }
}
