//! The arguments of calls as people are told them.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use singletree_llm::canonical_json;
use singletree_narration::{Locale, visible_value};

use super::catalogue::Sentence;

/// How many bytes of arguments are told; behind them their number and a digest.
const ARGUMENT_BYTES: usize = 4 << 10;

/// Writes the arguments of a call as people are told them: on one line, without secrets, with an escape for each
/// character that nobody sees. Of more than 4 KiB the beginning, how many bytes are missing, and a digest: the given one,
/// or that of the text.
#[must_use]
pub fn narrate_arguments(
    arguments: &Map<String, Value>,
    digest: Option<&str>,
    (redact, locale): (&dyn Fn(&str) -> String, Locale),
) -> String {
    abridge_text(&format_arguments(arguments, redact), digest, locale)
}

/// Writes arguments on one line, without secrets, and with an escape for each character that nobody sees.
pub(super) fn format_arguments(arguments: &Map<String, Value>, redact: &dyn Fn(&str) -> String) -> String {
    let clean = redact_value(&Value::Object(arguments.clone()), redact);
    visible_value(&canonical_json(&clean))
}

/// Returns a text of at most 4 KiB: of a longer one the beginning, how many bytes are missing, and a digest by which
/// the whole is found. The digest is the given one, or that of the text.
pub(super) fn abridge_text(text: &str, digest: Option<&str>, locale: Locale) -> String {
    if text.len() <= ARGUMENT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(ARGUMENT_BYTES);
    let missing = (text.len() - end).to_string();
    let digest = digest.map_or_else(|| digest_text(text), str::to_owned);
    let values = [("text", &text[..end]), ("bytes", &missing), ("digest", &digest)];
    Sentence::CutOff.fill_template(locale, &values)
}

fn digest_text(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes secrets out of every text of a value, also out of names.
fn redact_value(value: &Value, redact: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => redact(text).into(),
        Value::Array(items) => items.iter().map(|item| redact_value(item, redact)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (redact(name), redact_value(field, redact))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format(arguments: &Value) -> String {
        format_arguments(arguments.as_object().unwrap(), &|text: &str| text.replace("hunt\"er2", "***"))
    }

    // INV-16; finding F5
    #[test]
    fn arguments_are_redacted_before_they_are_escaped() {
        let arguments = json!({ "to": "Ann", "hunt\"er2": [{ "key": "a hunt\"er2 b" }], "n": 3 });
        assert_eq!(format(&arguments), r#"{"***":[{"key":"a *** b"}],"n":3,"to":"Ann"}"#);
    }

    // Finding S6
    #[test]
    fn nothing_hides_in_arguments() {
        let arguments = json!({ "a": "b\u{202e}c\nd", "e": "\u{a0}".repeat(6_000) });
        assert_eq!(format(&arguments), r#"{"a":"b\u{202e}c\nd","e":"\u{a0 x 6000}"}"#);
    }

    #[test]
    fn a_long_text_ends_with_the_number_of_missing_bytes_and_a_digest() {
        assert_eq!(abridge_text(&"a".repeat(4_096), None, Locale::English), "a".repeat(4_096));
        let long = format!("a{}", "é".repeat(2_050));
        let told = format!("a{}… 6 bytes more, digest ", "é".repeat(2_047));
        assert_eq!(abridge_text(&long, Some("abc"), Locale::English), format!("{told}abc"));
        assert_eq!(abridge_text(&long, None, Locale::English), format!("{told}{}", digest_text(&long)));
        assert!(abridge_text(&long, None, Locale::German).contains("6 weitere Bytes"));
    }
}
