//! The sent requests, byte for byte and value for value.

use serde_json::{Value, json};
use singletree_providers::Wire;

use super::calling::ProviderCallResult;
use super::peer::CapturedRequest;
use super::spec::ProviderMapping;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::vocabulary::REQUEST_FIELDS;

/// Stands for any text that is not empty.
const ANY: &str = "*";

/// Returns the body of a request as fixtures write it. Gemini's model stands in the address; they write it into the
/// body.
fn fixture_body(mapping: ProviderMapping, sent: &CapturedRequest) -> Value {
    let mut body = sent.body.clone();
    if mapping.wire == Wire::Gemini
        && let Some(map) = body.as_object_mut()
    {
        let model = sent.path.rsplit('/').next().and_then(|it| it.split(':').next()).unwrap_or_default();
        map.insert("model".into(), json!(model));
    }
    body
}

/// Returns the first request of a call; the only one, unless it was tried again.
pub(super) fn first_request(called: &ProviderCallResult) -> Result<&CapturedRequest, String> {
    called.sent.first().ok_or_else(|| "no request was sent".to_owned())
}

/// Asserts the request that a call sent.
pub(super) fn check_request(
    checker: &mut AssertionChecker,
    wanted: &LocatedNode,
    mapping: ProviderMapping,
    called: &ProviderCallResult,
) {
    let wanted_body = wanted.node.to_json();
    let checked = first_request(called).and_then(|sent| {
        let body = fixture_body(mapping, sent);
        ensure(called.retry.is_some() || called.sent.len() == 1, || {
            format!("{} requests were sent", called.sent.len())
        })?;
        match_body(&wanted_body, &body, "").map_err(|error| format!("{error}; sent was {body}"))
    });
    checker.check_result(&wanted.path, checked);
}

/// Compares a body with an expected one: exactly, whatever the order of keys; `*` is any text that is not empty.
///
/// # Errors
/// Where and how it differs.
fn match_body(wanted: &Value, sent: &Value, path: &str) -> Result<(), String> {
    let differs = || Err(format!("{path}: expected {wanted}, found {sent}"));
    match (wanted, sent) {
        (Value::Object(wanted), Value::Object(sent)) => {
            if let Some(key) = sent.keys().find(|it| !wanted.contains_key(*it)) {
                return Err(format!("{path}.{key} was sent and is not expected"));
            }
            wanted.iter().try_for_each(|(key, value)| match sent.get(key) {
                Some(sent) => match_body(value, sent, &format!("{path}.{key}")),
                None => Err(format!("{path}.{key} was not sent")),
            })
        }
        (Value::Array(wanted), Value::Array(sent)) if wanted.len() == sent.len() => {
            let mut pairs = wanted.iter().zip(sent).enumerate();
            pairs.try_for_each(|(at, (wanted, sent))| match_body(wanted, sent, &format!("{path}[{at}]")))
        }
        (Value::String(any), Value::String(sent)) if any == ANY && !sent.is_empty() => Ok(()),
        // The one text that holds JSON: how it is spaced is the serializer's own (docs/decisions).
        (Value::String(wanted), Value::String(sent)) if path.ends_with(".function.arguments") => {
            let read = |it: &str| serde_json::from_str::<Value>(it).ok();
            match (read(wanted), read(sent)) {
                (Some(wanted), Some(sent)) => match_body(&wanted, &sent, &format!("{path}()")),
                _ if wanted == sent => Ok(()),
                _ => differs(),
            }
        }
        (Value::Number(a), Value::Number(b)) if a == b || a.as_f64() == b.as_f64() => Ok(()),
        _ if wanted == sent => Ok(()),
        _ => differs(),
    }
}

/// Asserts the other checks of the sent request.
///
/// # Errors
/// For a check that is unknown.
pub(super) fn check_request_properties(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((name, value)) = wanted.take_next_entry() {
        if let Some(key) = name.strip_suffix("_absent") {
            let absent = first_request(called).and_then(|sent| ensure_key_absent(sent, key));
            checker.check_truth(&value, absent);
        } else if name == "system_message_content_references_schema" {
            checker.check_truth(
                &value,
                first_request(called).and_then(|it| ensure_schema_in_system_text(it, called)),
            );
        } else {
            return Err(crate::fields::unknown_key(wanted.path(), &name, value.node.line));
        }
    }
    Ok(())
}

/// A field that no request can have is never there: that it was not sent says something only of one that the wires or
/// the caller's own extras know.
fn ensure_known_field(called: &ProviderCallResult, key: &str) -> Result<(), String> {
    let is_extra = called.asked.as_ref().is_some_and(|asked| asked.config.extras.contains_key(key));
    ensure(is_extra || REQUEST_FIELDS.contains(&key), || format!("no request has a field '{key}'"))
}

fn ensure_key_absent(sent: &CapturedRequest, key: &str) -> Result<(), String> {
    ensure(sent.body.get(key).is_none(), || format!("'{key}' was sent: {}", sent.body))
}

/// The system's text holds the schema, as JSON.
fn ensure_schema_in_system_text(sent: &CapturedRequest, called: &ProviderCallResult) -> Result<(), String> {
    let schema = called.asked.as_ref().and_then(|asked| asked.response_schema.as_deref());
    let schema = schema.ok_or("no schema was given")?.as_value();
    let in_messages = sent.body["messages"].as_array().into_iter().flatten();
    let of_system = in_messages.filter(|in_message| in_message["role"] == "system").map(|it| &it["content"]);
    let texts = of_system.chain([&sent.body["system"], &sent.body["systemInstruction"]["parts"][0]["text"]]);
    let holds = |text: &str| text.match_indices('{').any(|(at, _)| begins_with_json(&text[at..], schema));
    ensure(texts.filter_map(Value::as_str).any(holds), || "no system message holds the schema".into())
}

/// Tells whether a text begins with a JSON value.
fn begins_with_json(text: &str, wanted: &Value) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    matches!(values.next(), Some(Ok(value)) if value == *wanted)
}

/// Asserts that keys were not sent.
///
/// # Errors
/// When it is no list of keys.
pub(super) fn check_absent_keys(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let path = spot.path.clone();
    for key in spot.into_distinct_texts()? {
        let checked =
            ensure_known_field(called, &key).and_then(|()| ensure_key_absent(first_request(called)?, &key));
        checker.check_result(&path, checked);
    }
    Ok(())
}

/// Asserts that calls sent the same bytes.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_identical_requests(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    all: &[ProviderCallResult],
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let list = block.take_required("calls")?;
    block.reject_remaining_keys()?;
    let path = list.path.clone();
    let calls = list.into_items()?.iter().map(LocatedNode::as_integer).collect::<Outcome<Vec<i64>>>()?;
    checker.check_result(&path, ensure_identical_bytes(&calls, all));
    Ok(())
}

fn ensure_identical_bytes(calls: &[i64], all: &[ProviderCallResult]) -> Result<(), String> {
    let once = (1..calls.len()).all(|at| !calls[..at].contains(&calls[at]));
    ensure(calls.len() > 1 && once, || format!("{calls:?} are no two calls"))?;
    let bytes = calls.iter().map(|at| {
        let called = usize::try_from(*at).ok().and_then(|at| all.get(at)).ok_or(format!("no call {at}"))?;
        first_request(called).map(|it| &it.bytes)
    });
    let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
    let same = bytes.windows(2).all(|window| window[0] == window[1]);
    ensure(same && bytes.iter().all(|byte| !byte.is_empty()), || format!("they sent {bytes:?}"))
}

/// Asserts the request of each attempt (conformance-adapter §5.11).
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_attempt_requests(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    mapping: ProviderMapping,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let path = spot.path.clone();
    let entries = spot.into_items()?;
    let (wanted, sent) = (entries.len(), called.sent.len());
    checker.check_result(
        &path,
        ensure(wanted == sent, || format!("expected {wanted} requests, {sent} were sent")),
    );
    for (at, entry) in entries.into_iter().enumerate() {
        let mut entry = entry.into_map_reader()?;
        let (sampling, appended) = (entry.take_value("sampling"), entry.take_value("appended_messages"));
        entry.reject_remaining_keys()?;
        let Some(sent) = called.sent.get(at) else { continue };
        if let Some(spot) = sampling {
            check_sampling_fields(checker, spot, mapping, sent)?;
        }
        if let Some(list) = appended {
            check_appended_messages(checker, list, mapping, (called, sent))?;
        }
    }
    Ok(())
}

fn check_sampling_fields(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    mapping: ProviderMapping,
    sent: &CapturedRequest,
) -> Outcome<()> {
    let sampling = match mapping.wire {
        Wire::OpenAi | Wire::Anthropic => &sent.body,
        Wire::Gemini => &sent.body["generationConfig"],
    };
    let mut fields: YamlMapReader = spot.into_map_reader()?;
    while let Some((key, wanted)) = fields.take_next_entry() {
        let checked = match sampling.get(&key) {
            Some(value) => match_body(&wanted.node.to_json(), value, &key),
            None => Err(format!("'{key}' was not sent")),
        };
        checker.check_result(&wanted.path, checked);
    }
    Ok(())
}

/// Asserts the messages that follow the caller's own messages, with which every attempt begins.
fn check_appended_messages(
    checker: &mut AssertionChecker,
    list: LocatedNode,
    mapping: ProviderMapping,
    (called, sent): (&ProviderCallResult, &CapturedRequest),
) -> Outcome<()> {
    let path = list.path.clone();
    let own = first_request(called).map(|it| request_messages(mapping, it)).unwrap_or_default();
    let all = request_messages(mapping, sent);
    checker
        .check_result(&path, ensure(all.starts_with(&own), || "it does not begin as the first one".into()));
    let appended = all.get(own.len()..).unwrap_or_default();
    let wanted = list.into_items()?;
    let (count, found) = (wanted.len(), appended.len());
    checker.check_result(
        &path,
        ensure(count == found, || format!("expected {count} more messages, found {appended:?}")),
    );
    for (spot, (role, content)) in wanted.into_iter().zip(appended) {
        let here = spot.path.clone();
        let mut wanted = spot.into_map_reader()?;
        checker.check_exact(&wanted.take_required("role")?, role.as_str());
        match (wanted.take_value("content"), wanted.take_value("content_contains")) {
            (Some(exact), None) => checker.check_exact(&exact, content.as_str()),
            (None, Some(parts)) => {
                let path = parts.path.clone();
                for part in parts.into_distinct_texts()? {
                    let holds = ensure(content.contains(&part), || format!("'{content}' holds no '{part}'"));
                    checker.check_result(&path, holds);
                }
            }
            _ => return Err(CaseFailure::reader_error(here, "has either 'content' or 'content_contains'")),
        }
        wanted.reject_remaining_keys()?;
    }
    Ok(())
}

/// Returns the messages of a request, each with its role and text in the specification's words.
fn request_messages(mapping: ProviderMapping, sent: &CapturedRequest) -> Vec<(String, String)> {
    let (list, content) = match mapping.wire {
        Wire::OpenAi | Wire::Anthropic => ("messages", "content"),
        Wire::Gemini => ("contents", "parts"),
    };
    let told = |message: &Value| {
        let role = match message["role"].as_str() {
            Some("model") => "assistant",
            Some(role) => role,
            None => "",
        };
        (role.to_owned(), message_text(&message[content]))
    };
    sent.body[list].as_array().into_iter().flatten().map(told).collect()
}

/// Returns the text of a message; content without text as it was sent.
fn message_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let told = |it: &Value| it["text"].as_str().map_or_else(|| it.to_string(), str::to_owned);
            parts.iter().map(told).collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_compared_exactly_but_for_stars_numbers_and_the_spacing_of_arguments() {
        let call = |arguments: &str| json!({"function": {"arguments": arguments}});
        for (wanted, sent, is) in [
            (json!({"a": 1, "b": "x"}), json!({"b": "x", "a": 1.0}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), false),
            (json!({"a": "*"}), json!({"a": "anything"}), true),
            (json!({"a": "*"}), json!({"a": ""}), false),
            (json!({"a": "*"}), json!({"a": 1}), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!([1]), json!([1, 1]), false),
            (json!({"a": true}), json!({"a": 1}), false),
            (call(r#"{"a": 1}"#), call(r#"{"a":1}"#), true),
            (call(r#"{"a": 1}"#), call(r#"{"a":2}"#), false),
            (call("half {"), call("half {"), true),
            (json!({"text": r#"{"a": 1}"#}), json!({"text": r#"{"a":1}"#}), false),
        ] {
            assert_eq!(match_body(&wanted, &sent, "").is_ok(), is, "{wanted} {sent}");
        }
    }
}
