//! Expected attributes of spans and log records (conformance-adapter §5.10).

use serde_json::Value;
use singletree_telemetry::{AttributeValue, Attributes, TraceSpan};

use super::runtime::RunTelemetry;
use super::vocabulary::{SPAN_ATTRIBUTES, TRUNCATION_MARKER};
use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::matcher::ExtraKeyPolicy;
use crate::yaml::YamlValue;

/// How many bytes an attribute with a payload has at most, where nothing else is set (observability §5.5.5).
const PAYLOAD_CAP: usize = 64 * 1024;

/// Asserts the attributes that are named.
///
/// # Errors
/// When it is no map.
pub(crate) fn check_attributes(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &Attributes,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((name, spot)) = wanted.take_next_entry() {
        check_field(checker, &spot, actual.get(name.as_str()).map(AttributeValue::to_json).as_ref())?;
    }
    Ok(())
}

/// Asserts one value: by the assertions that stand in its place, or exactly.
///
/// # Errors
/// When an assertion has an unknown value.
pub(super) fn check_field(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    actual: Option<&Value>,
) -> Outcome<()> {
    let Some(actual) = actual else {
        checker.check_result(&spot.path, Err("it is not there".into()));
        return Ok(());
    };
    let YamlValue::Map(entries) = &spot.node.value else {
        checker.check_exact(spot, actual.clone());
        return Ok(());
    };
    let known = |key: &str| ["harness_parameterized", "non_empty_string"].contains(&key);
    if entries.is_empty() || !entries.iter().all(|(key, _)| known(key)) {
        checker.check_exact(spot, actual.clone());
        return Ok(());
    }
    let mut assertions = spot.clone().into_map_reader()?;
    if let Some(name) = assertions.take_value("harness_parameterized") {
        let parameter = adapt::harness_parameter(name.as_text()?);
        let same = parameter.is_some_and(|parameter| actual == parameter);
        checker.check_result(&name.path, ensure(same, || format!("{actual} is not {parameter:?}")));
    }
    if let Some(non_empty) = assertions.take_value("non_empty_string") {
        let holds = actual.as_str().is_some_and(|text| !text.is_empty());
        checker.check_truth(&non_empty, ensure(holds, || format!("{actual} is no text, or empty")));
    }
    assertions.reject_remaining_keys()
}

/// Asserts that attributes are not there. One that no span ever has is a fixture's mistake.
///
/// # Errors
/// When it is no list of names.
pub(crate) fn check_absent_attributes(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &Attributes,
) -> Outcome<()> {
    let path = spot.path.clone();
    for name in spot.into_distinct_texts()? {
        let known = SPAN_ATTRIBUTES.contains(&name.as_str());
        checker.check_result(&path, ensure(known, || format!("no span has an attribute '{name}'")));
        let value = actual.get(name.as_str());
        checker.check_result(&path, ensure(value.is_none(), || format!("'{name}' is {value:?}")));
    }
    Ok(())
}

/// Asserts the expectation under a key about the payloads of a span. Returns false when the key is about something else.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_payload_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    (span, run): (&TraceSpan, &RunTelemetry),
) -> Outcome<bool> {
    let check = match key {
        "attribute_parses_as_messages" | "attribute_parses_as_object" => check_parsed_payload,
        "attribute_truncation" => check_truncated_payload,
        "attribute_does_not_contain" => check_forbidden_payload,
        _ => return Ok(false),
    };
    let mut wanted = spot.clone().into_map_reader()?;
    while let Some((name, spot)) = wanted.take_next_entry() {
        match span.attributes.get(name.as_str()).and_then(AttributeValue::as_text) {
            Some(text) => check(checker, &spot, text, full_payload(span, &name, run))?,
            None => checker.check_result(&spot.path, Err(format!("'{name}' is not there"))),
        }
    }
    Ok(true)
}

/// Returns a payload as it was before it was cut.
fn full_payload<'a>(span: &TraceSpan, name: &str, run: &'a RunTelemetry) -> Option<&'a str> {
    let whole = run.full_payloads.iter().find(|whole| whole.span_id == span.span_id)?;
    whole.attributes.get(name)?.as_text()
}

fn check_parsed_payload(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    text: &str,
    _full: Option<&str>,
) -> Outcome<()> {
    match serde_json::from_str::<Value>(text) {
        Ok(parsed) => checker.check_value(spot, &parsed, ExtraKeyPolicy::Refused),
        Err(error) => checker.check_result(&spot.path, Err(format!("it is no JSON: {error}"))),
    }
    Ok(())
}

fn check_truncated_payload(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    text: &str,
    full: Option<&str>,
) -> Outcome<()> {
    let mut wanted = spot.clone().into_map_reader()?;
    let length = full.map_or(0, str::len);
    let marker = format!("…[truncated, {length} bytes total]");
    if let Some(cap) = wanted.take_value("max_bytes") {
        // The cap is the default one, and what is longer is cut to it.
        checker.check_exact(&cap, PAYLOAD_CAP);
        let cut = text.len() <= PAYLOAD_CAP && length > PAYLOAD_CAP;
        checker.check_result(&cap.path, ensure(cut, || format!("{} of {length} bytes", text.len())));
    }
    if let Some(pattern) = wanted.take_value("marker_pattern") {
        // The one marker that there is (§5.5.5), as a pattern.
        checker.check_exact(&pattern, TRUNCATION_MARKER);
        let ends = text.ends_with(&marker);
        checker.check_result(&pattern.path, ensure(ends, || format!("it does not end with {marker}")));
    }
    if let Some(valid) = wanted.take_value("utf8_valid") {
        // A text of Rust's is; what is left to fail is a character that was lost at the cut.
        let whole = !text.contains(char::REPLACEMENT_CHARACTER);
        checker.check_truth(&valid, ensure(whole, || "a character is cut".into()));
    }
    if let Some(prefix) = wanted.take_value("prefix_of_full_serialization") {
        let begin = text.strip_suffix(&marker).unwrap_or(text);
        let begins = full.is_some_and(|full| full.starts_with(begin));
        checker.check_truth(&prefix, ensure(begins, || "the whole does not begin so".into()));
    }
    wanted.reject_remaining_keys()
}

fn check_forbidden_payload(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    text: &str,
    _full: Option<&str>,
) -> Outcome<()> {
    let mut wanted = spot.clone().into_map_reader()?;
    let kind = wanted.take_required("forbidden_substring_kind")?;
    wanted.reject_remaining_keys()?;
    checker.check_exact(&kind, "synthetic_base64_prefix");
    let free = !text.contains(adapt::SYNTHETIC_BASE64);
    checker.check_result(&kind.path, ensure(free, || "the data of the picture is there".into()));
    Ok(())
}
