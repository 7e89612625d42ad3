//! One way to write JSON: equal values, equal bytes (spec: llm-provider §8, wire-byte stability).

use serde_json::Value;

/// Writes a value as canonical JSON: keys sorted at every depth by their code points, lists in their order, nothing
/// between tokens. No feature of `serde_json` and no order in which a map was built changes that.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::with_capacity(estimate_written_bytes(value));
    write_json_value(value, &mut out);
    out
}

fn write_json_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => write_quoted_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                write_separator(index, out);
                write_json_value(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                write_separator(index, out);
                write_quoted_text(key, out);
                out.push(':');
                write_json_value(value, out);
            }
            out.push('}');
        }
    }
}

fn write_separator(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

/// Writes a string as serde_json does: shortest escapes, everything beyond ASCII as it is.
fn write_quoted_text(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut rest = text;
    while let Some(at) = find_first_escaped(rest.as_bytes()) {
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

/// Finds the first byte that is not written as it is. Prompts are long and mostly plain: whole blocks are looked at
/// without a branch for each byte.
fn find_first_escaped(text: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | escaped(*byte));
    let from = text.chunks_exact(BLOCK).take_while(plain).count() * BLOCK;
    text[from..].iter().position(|byte| escaped(*byte)).map(|at| from + at)
}

/// Returns about how many bytes a value takes when it is written: enough where nothing is escaped.
fn estimate_written_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| estimate_written_bytes(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, it)| key.len() + 4 + estimate_written_bytes(it)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn check(value: &Value, expected: &str) {
        assert_eq!(canonical_json(value), expected);
    }

    // spec: llm-provider §8, wire-byte stability
    #[test]
    fn keys_are_sorted_at_every_depth_and_lists_are_not() {
        check(
            &json!({ "b": [3, 1, { "d": 1, "c": 2 }], "a": { "z": null, "é": true, "Z": false } }),
            r#"{"a":{"Z":false,"z":null,"é":true},"b":[3,1,{"c":2,"d":1}]}"#,
        );
    }

    #[test]
    fn the_order_in_which_a_map_was_built_does_not_matter() {
        let keys = ["model", "messages", "a", "stream", "tools"];
        let forward: Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!({ "y": 1, "x": 2 }))).collect();
        let backward: Map<_, _> =
            keys.iter().rev().map(|key| ((*key).to_owned(), json!({ "x": 2, "y": 1 }))).collect();
        assert_eq!(canonical_json(&forward.into()), canonical_json(&backward.into()));
    }

    #[test]
    fn strings_are_written_as_serde_json_writes_them() {
        for text in ["", "plain", "a\"b\\c/d", "\n\r\t\u{8}\u{c}", "\u{0}\u{1f}\u{7f}", "é世😀\u{2028}"] {
            check(&json!(text), &serde_json::to_string(text).unwrap());
        }
    }

    // Long texts are looked at by blocks: an escape is found wherever it stands in one, and behind any other.
    #[test]
    fn an_escape_is_written_wherever_it_stands() {
        for length in [31, 32, 33, 64, 95, 100] {
            for (one, two) in (0..length).flat_map(|one| (one..length).map(move |two| (one, two))) {
                let mut text = "x".repeat(length).into_bytes();
                (text[one], text[two]) = (b'"', b'\n');
                let text = String::from_utf8(text).unwrap();
                check(&json!(text), &serde_json::to_string(&text).unwrap());
            }
        }
    }
}
