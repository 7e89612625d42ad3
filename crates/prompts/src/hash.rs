//! Hashes of content: SHA-256 over JSON with sorted keys and no blanks.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};
use singletree_llm::canonical_json;

/// Returns `sha256:` and the hexadecimal digest of a value.
///
/// JSON marks where each string, list and map ends, so two values have one text only when they are the same.
pub(crate) fn hash_json_value(value: &Value) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(canonical_json(value)) {
        write!(text, "{byte:02x}").expect("a string takes all text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // The digest is of the text {"a":[1,"x"],"b":null}, so that other programs can compute it.
    #[test]
    fn the_hash_is_of_compact_json_with_sorted_keys() {
        let digest = Sha256::digest(br#"{"a":[1,"x"],"b":null}"#);
        let text: String = digest.iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(hash_json_value(&json!({"b": null, "a": [1, "x"]})), format!("sha256:{text}"));
    }

    #[test]
    fn boundaries_are_part_of_the_hash() {
        for (one, other) in [
            (json!(["ab", "c"]), json!(["a", "bc"])),
            (json!(["a"]), json!("a")),
            (json!([[], "a"]), json!([["a"]])),
            (json!({"a": 1}), json!({"a": "1"})),
            (json!([1]), json!([1.0])),
        ] {
            assert_ne!(hash_json_value(&one), hash_json_value(&other), "{one} {other}");
        }
    }
}
