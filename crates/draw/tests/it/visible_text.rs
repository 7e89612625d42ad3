//! Text from other sources: invisible characters are shown, the same in the terminal and on the page.

use serde_json::{Value, json};
use singletree_draw::{visible_json, visible_text, visible_value};

/// The cases that the page's tests read, too.
const CASES: &str = include_str!("../visible_text.json");

// S6
#[test]
fn what_nobody_sees_becomes_an_escape() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        assert_eq!(visible_text(text), case["seen"].as_str().unwrap(), "{}", case["name"]);
        assert_eq!(visible_value(text), case["value"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn json_with_escapes_is_the_same_value() {
    let value = json!({"a\u{202e}": "b\u{e0041}\u{9b}\u{2028}", "plain": "caf\u{e9} \u{a0}"});
    let text = value.to_string();
    let visible = visible_json(&text);
    assert!(visible.contains(r#""a\u202e":"b\udb40\udc41\u009b\u2028""#), "{visible}");
    assert_eq!(serde_json::from_str::<Value>(&visible).unwrap(), value);
    assert_eq!(visible_json("{\"a\": 1}"), "{\"a\": 1}");
}
