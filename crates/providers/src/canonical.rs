//! One way to write JSON: equal values, equal bytes (llm-provider §8, wire-byte stability).
//!
//! Keys are sorted at every depth by their code points, lists keep their order, nothing stands between tokens. No feature of
//! serde_json and no order in which a map was built changes that.

use serde_json::{Number, Value};

/// Writes a value.
pub(crate) fn string(value: &Value) -> String {
    let mut out = String::with_capacity(written_bytes(value));
    write(value, &mut out);
    out
}

/// Digests a value (FNV-1a): equal values, equal digests. It tells values apart, and withstands nobody.
pub(crate) fn digest(value: &Value) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    string(value).bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, out);
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                separate(index, out);
                quoted(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

/// Writes a string as serde_json does: shortest escapes, everything beyond ASCII as it is.
fn quoted(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes()) {
        out.push_str(&rest[..at]);
        out.push('\\');
        let byte = rest.as_bytes()[at];
        match byte {
            b'"' | b'\\' => out.push(char::from(byte)),
            b'\n' => out.push('n'),
            b'\r' => out.push('r'),
            b'\t' => out.push('t'),
            0x08 => out.push('b'),
            0x0c => out.push('f'),
            _ => {
                out.push_str("u00");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Finds the first byte that is not written as it is. Prompts are long and mostly plain: whole blocks are looked at without a
/// branch for each byte.
fn first_escaped(text: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | escaped(*byte));
    let from = text.chunks_exact(BLOCK).take_while(plain).count() * BLOCK;
    text[from..].iter().position(|byte| escaped(*byte)).map(|at| from + at)
}

/// Returns about how many bytes a value takes when it is written: enough where nothing is escaped.
fn written_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|it| written_bytes(it) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, it)| key.len() + 4 + written_bytes(it)).sum::<usize>() + 2
        }
    }
}

/// Says whether two values are the same: numbers by their value, objects whatever the order of their keys, lists in order
/// (llm-provider §6, managed-field collision).
pub(crate) fn equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => numbers_equal(one, two),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(key).is_some_and(|other| equal(value, other)))
        }
        (one, two) => one == two,
    }
}

fn numbers_equal(one: &Number, two: &Number) -> bool {
    match (whole(one), whole(two)) {
        (Some(one), Some(two)) => one == two,
        (None, None) => one.as_f64() == two.as_f64(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns a number as an integer, if it is one, however it is written. Beyond that range no double is compared exactly.
fn whole(number: &Number) -> Option<i128> {
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
