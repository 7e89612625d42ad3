//! Finds bytes that were put into a message where only references may stand (spec: OpenHarness §9.1).

use serde_json::Value;

/// From how many characters on a text of nothing but base64 is taken for bytes. No digest is as long, no name and no token
/// that people use.
const LONG: usize = 512;

/// The names under which attachments carry bytes, where they do.
const CARRIERS: &[&str] = &["base64", "blob", "bytes", "data"];

/// Returns where in the payload of a request bytes stand instead of a reference: a `data:` address, a long text of base64,
/// or a shorter one under a name of an attachment that says so. What the person wrote is left alone.
#[must_use]
pub fn find_embedded_bytes(request: &Value) -> Option<String> {
    search_value(request, &mut Vec::new())
}

fn search_value<'a>(value: &'a Value, path: &mut Vec<Step<'a>>) -> Option<String> {
    match value {
        Value::String(text) => holds_bytes(text, path).then(|| format_path(path)),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| search_below(item, Step::At(at), path))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(key, item)| search_below(item, Step::Key(key), path))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn search_below<'a>(value: &'a Value, step: Step<'a>, path: &mut Vec<Step<'a>>) -> Option<String> {
    path.push(step);
    let found = search_value(value, path);
    path.pop();
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    At(usize),
}

fn holds_bytes(text: &str, path: &[Step<'_>]) -> bool {
    if let [Step::Key("context"), Step::Key("user_intent")] = path {
        return false;
    }
    let carrier = match path {
        [Step::Key("context"), Step::Key("attachments"), Step::At(_), .., Step::Key(name)] => {
            CARRIERS.contains(name)
        }
        _ => false,
    };
    is_data_address(text) || (is_base64(text) && (text.len() >= LONG || carrier))
}

/// Tells whether it is an address that is the data itself; a sentence that begins with the word is none.
fn is_data_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return false };
    let kind = rest.split_once(',').map(|(kind, _)| kind);
    scheme.eq_ignore_ascii_case("data") && kind.is_some_and(|kind| !kind.contains(char::is_whitespace))
}

/// Tells whether a text is base64 of at least six bytes, in either alphabet, on one line or several.
fn is_base64(text: &str) -> bool {
    let mut letters = 0_usize;
    let mut padding = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'-' | b'_' if padding == 0 => {
                letters += 1
            }
            _ => return false,
        }
    }
    let whole = (letters + padding).is_multiple_of(4);
    letters >= 8 && padding <= 2 && (whole || (padding == 0 && letters % 4 != 1))
}

fn format_path(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(if is_tellable_name(key) { key } else { "?" });
            }
            Step::At(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}

/// Tells whether a key is a name, which may be told; a shell may have put anything there.
fn is_tellable_name(key: &str) -> bool {
    let fits = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.');
    (1..=64).contains(&key.len()) && key.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: OpenHarness §9.1
    #[test]
    fn bytes_are_found_wherever_they_stand_and_references_are_none() {
        let long = "QUJD".repeat(128);
        let check = |request: Value, place: Option<&str>| {
            assert_eq!(find_embedded_bytes(&request).as_deref(), place, "{request}");
        };
        let attachment = |fields: Value| json!({"context": {"attachments": [{"ref_id": "a"}, fields]}});
        check(attachment(json!({"data": "aGVsbG8gd29ybGQ="})), Some("context.attachments[1].data"));
        check(
            attachment(json!({"inner": {"base64": "aGVsbG8gd29ybGQ="}})),
            Some("context.attachments[1].inner.base64"),
        );
        check(attachment(json!({"uri": "data:image/png;base64,AAAA"})), Some("context.attachments[1].uri"));
        check(attachment(json!({"uri": " DATA:,x"})), Some("context.attachments[1].uri"));
        check(attachment(json!({"x": long})), Some("context.attachments[1].x"));
        check(
            json!({"context": {"environment_state": {"screen": long}}}),
            Some("context.environment_state.screen"),
        );
        check(json!({"extensions": {"a": [[long]]}}), Some("extensions.a[0][0]"));
        check(attachment(json!({"data": "not base64 at all", "x": "a".repeat(511)})), None);
        check(attachment(json!({"data": "short"})), None);
        check(json!({"context": {"user_intent": long, "task_hint": {"data": "aGVsbG8gd29ybGQ="}}}), None);
        check(json!({"context": {"environment_state": {"screen_hash": "0f".repeat(64)}}}), None);
        check(json!({"note": "data: what we know, and do not"}), None);
        check(json!({"a b": {"c": "data:,x"}}), Some("?.c"));
    }
}
