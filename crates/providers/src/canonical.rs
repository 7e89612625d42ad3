//! Uses of canonical JSON: equality of two values, and digests.

use serde_json::{Number, Value};
use singletree_llm::canonical_json;

/// Digests a value (FNV-1a): equal values, equal digests. It tells values apart, and withstands nobody.
pub(crate) fn digest_value(value: &Value) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    canonical_json(value).bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Says whether two values are the same: numbers by their value, objects whatever the order of their keys, lists in
/// order (llm-provider §6, managed-field collision).
pub(crate) fn values_equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => numbers_equal(one, two),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| values_equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(key).is_some_and(|other| values_equal(value, other)))
        }
        (one, two) => one == two,
    }
}

fn numbers_equal(one: &Number, two: &Number) -> bool {
    match (whole_number(one), whole_number(two)) {
        (Some(one), Some(two)) => one == two,
        (None, None) => one.as_f64() == two.as_f64(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns a number as an integer, if it is one, however it is written. Beyond that range no double is compared
/// exactly.
fn whole_number(number: &Number) -> Option<i128> {
    if let Some(value) = number.as_i64() {
        return Some(value.into());
    }
    if let Some(value) = number.as_u64() {
        return Some(value.into());
    }
    let value = number.as_f64()?;
    (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128)
}

#[cfg(test)]
mod tests;
