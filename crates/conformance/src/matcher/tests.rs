//! Tests of the values that matchers accept, and of those that they refuse.

use serde_json::json;

use super::*;
use crate::yaml::parse_document;

const UUID: &str = "7f2c1a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b";

fn read(text: &str) -> Outcome<ValueMatcher> {
    ValueMatcher::from_yaml_node(&LocatedNode::new(parse_document(text).unwrap(), "it"))
}

fn check(text: &str, actual: &Value) -> Result<(), String> {
    read(text).unwrap().match_value(actual, ExtraKeyPolicy::Refused, &mut TokenBindings::default())
}

#[test]
fn values_are_compared_exactly() {
    for (text, right, wrong) in [
        ("1", json!(1), json!(2)),
        ("1", json!(1.0), json!(true)),
        ("'1'", json!("1"), json!(1)),
        ("null", json!(null), json!("")),
        ("[a, b]", json!(["a", "b"]), json!(["b", "a"])),
        ("[a]", json!(["a"]), json!(["a", "a"])),
        ("{a: 1}", json!({"a": 1}), json!({"a": 1, "b": 2})),
        ("{a: {b: []}}", json!({"a": {"b": []}}), json!({"a": {"b": [], "c": 1}})),
        ("{a: 1}", json!({"a": 1}), json!({})),
    ] {
        assert_eq!(check(text, &right), Ok(()), "{text}");
        assert!(check(text, &wrong).is_err(), "{text} must not match {wrong}");
    }
}

// spec: conformance-adapter §5.10
#[test]
fn tokens_match_what_they_say_and_nothing_else() {
    for (text, right, wrong) in [
        ("<uuid>", json!(UUID), json!(UUID.to_uppercase())),
        ("<uuid>", json!(UUID), json!("7f2c1a34-5b6d-1e8f-9a0b-1c2d3e4f5a6b")),
        ("<uuid>", json!(UUID), json!("")),
        ("<uuid-hex>", json!(UUID.replace('-', "")), json!(UUID)),
        ("<uuid-hex-2>", json!(UUID.replace('-', "")), json!(7)),
        ("<any-string>", json!("x"), json!("")),
        ("<any-string>", json!("x"), json!(null)),
    ] {
        assert_eq!(check(text, &right), Ok(()), "{text}");
        assert!(check(text, &wrong).is_err(), "{text} must not match {wrong}");
    }
}

#[test]
fn a_name_stands_for_what_it_stood_for_first() {
    let mut bindings = TokenBindings::default();
    let (a, b) = (read("<span_id_a>").unwrap(), read("<span_id_b>").unwrap());
    assert_eq!(a.match_value(&json!("1"), ExtraKeyPolicy::Refused, &mut bindings), Ok(()));
    assert_eq!(b.match_value(&json!("2"), ExtraKeyPolicy::Refused, &mut bindings), Ok(()));
    assert_eq!(a.match_value(&json!("1"), ExtraKeyPolicy::Refused, &mut bindings), Ok(()));
    assert!(a.match_value(&json!("2"), ExtraKeyPolicy::Refused, &mut bindings).is_err());
}

#[test]
fn a_reference_stands_for_what_the_case_said_and_never_for_nothing() {
    let mut bindings = TokenBindings::default();
    let matcher = read("<from previous suspended outcome>").unwrap();
    assert!(matcher.match_value(&json!("x"), ExtraKeyPolicy::Refused, &mut bindings).is_err());
    bindings.bind_reference("<from previous suspended outcome>", json!("x"));
    assert_eq!(matcher.match_value(&json!("x"), ExtraKeyPolicy::Refused, &mut bindings), Ok(()));
    assert!(matcher.match_value(&json!("y"), ExtraKeyPolicy::Refused, &mut bindings).is_err());
}

#[test]
fn a_subset_may_be_exceeded_at_its_own_level_only() {
    let matcher = read("{a: {b: 1}}").unwrap();
    let check =
        |actual: Value| matcher.match_value(&actual, ExtraKeyPolicy::Allowed, &mut TokenBindings::default());
    assert_eq!(check(json!({"a": {"b": 1}, "c": 2})), Ok(()));
    assert!(check(json!({"a": {"b": 1, "c": 2}})).is_err());
    assert!(check(json!({"c": 2})).is_err());
}

#[test]
fn an_unknown_token_is_refused() {
    assert!(read("<timestamp>").is_err());
    assert!(read("{a: [<html>]}").is_err());
}
