//! Payloads of attributes: their form and their length (spec: observability §5.5.5).

use serde_json::{Map, Value};

/// How many bytes an attribute with a payload may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadCap(usize);

/// The least cap: it leaves room for the marker and for something to read before it.
const LEAST: usize = 256;

impl Default for PayloadCap {
    fn default() -> Self {
        Self(64 * 1024)
    }
}

impl PayloadCap {
    /// Makes a cap.
    ///
    /// # Errors
    /// The least number of bytes that a cap may have, when this one has fewer.
    pub fn new(bytes: usize) -> Result<Self, usize> {
        if bytes < LEAST { Err(LEAST) } else { Ok(Self(bytes)) }
    }

    /// Cuts a text that is too long, at the border of a character, and says how long it was.
    pub(crate) fn apply(self, text: String) -> String {
        if text.len() <= self.0 {
            return text;
        }
        let marker = format!("…[truncated, {} bytes total]", text.len());
        let end = text.floor_char_boundary(self.0 - marker.len());
        format!("{}{marker}", &text[..end])
    }
}

/// Tells whether a text was cut.
pub(crate) fn is_truncated(text: &str) -> bool {
    let Some(rest) = text.strip_suffix(" bytes total]") else { return false };
    rest.rsplit_once("…[truncated, ")
        .is_some_and(|(_, digits)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Writes JSON with sorted keys and without blanks.
pub(crate) fn to_canonical_json(value: &Value) -> String {
    sort_keys(value).to_string()
}

/// Sorts keys whatever order the maps of this build keep.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            Value::Object(
                keys.into_iter().map(|key| (key.clone(), sort_keys(&fields[key]))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // spec: observability §5.5.5
    #[test]
    fn a_long_text_is_cut_at_the_border_of_a_character() {
        let cap = PayloadCap::new(256).unwrap();
        assert_eq!(cap.apply("x".repeat(256)), "x".repeat(256));
        let marker = "…[truncated, 257 bytes total]";
        let cut = cap.apply("x".repeat(257));
        assert_eq!(cut, format!("{}{marker}", "x".repeat(256 - marker.len())));
        assert!(is_truncated(&cut) && !is_truncated("x") && !is_truncated("… bytes total]"));
        let wide = cap.apply("é".repeat(200));
        assert!(wide.len() <= 256 && wide.ends_with("…[truncated, 400 bytes total]"), "{wide}");
        assert_eq!(PayloadCap::new(255), Err(256));
    }

    #[test]
    fn keys_are_sorted_at_every_level() {
        let value = json!({"b": [{"d": 1, "c": "é"}], "a": null});
        assert_eq!(to_canonical_json(&value), r#"{"a":null,"b":[{"c":"é","d":1}]}"#);
    }
}
