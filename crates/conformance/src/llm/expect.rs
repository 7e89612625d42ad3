//! The expectations of a case about a call.

use std::error::Error as StdError;

use serde_json::{Value, json};
use singletree::llm::{ChatMessage, Error, Response};
use singletree_telemetry::AttributeValue;

use super::call::ProviderCallSpec;
use super::calling::ProviderCallResult;
use super::peer::{KEY, MockHttpAnswer};
use super::spec::ProviderMapping;
use super::{invariants, wire};
use crate::check::{AssertionChecker, ensure};
use crate::errors::check_exposed_fields;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::matcher::ExtraKeyPolicy;
use crate::telemetry::{check_absent_attributes, check_attributes};
use crate::yaml::YamlValue;

/// Asserts everything that a case says of a call.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_call(
    checker: &mut AssertionChecker,
    spec: &ProviderCallSpec,
    mapping: ProviderMapping,
    called: &ProviderCallResult,
) -> Outcome<()> {
    if let Some(wanted) = &spec.wire_request {
        wire::check_request(checker, wanted, mapping, called);
    }
    if let Some(wanted) = spec.wire_checks.clone() {
        wire::check_request_properties(checker, wanted, called)?;
    }
    if let Some(wanted) = spec.wire_absent.clone() {
        wire::check_absent_keys(checker, wanted, called)?;
    }
    check_key_is_secret(checker, called);
    let mut blocks: Vec<LocatedNode> = spec.invariants.clone().into_iter().collect();
    match spec.expected.clone() {
        Some(wanted) => {
            check_call_outcome(checker, wanted.into_map_reader()?, (mapping, called), &mut blocks)?
        }
        // A call of which nothing is said must succeed.
        None => checker.check_result(&spec.path, called.ended.as_ref().map(drop).map_err(describe_error)),
    }
    for block in blocks {
        invariants::check_invariants(checker, block, &[called]);
    }
    Ok(())
}

fn describe_error(error: &Error) -> String {
    format!("it failed: {} ({error})", error.category())
}

/// Asserts that no error message contains the provider's key (INV-16).
fn check_key_is_secret(checker: &mut AssertionChecker, called: &ProviderCallResult) {
    let Err(error) = &called.ended else { return };
    let mut causes = std::iter::successors(Some(error as &dyn StdError), |it| (*it).source());
    let tells = causes.any(|cause| cause.to_string().contains(KEY) || format!("{cause:?}").contains(KEY));
    if tells {
        checker.failures.push(CaseFailure::assertion_error("the case", "an error tells the provider's key"));
    }
}

fn check_call_outcome(
    checker: &mut AssertionChecker,
    mut wanted: YamlMapReader,
    (mapping, called): (ProviderMapping, &ProviderCallResult),
    blocks: &mut Vec<LocatedNode>,
) -> Outcome<()> {
    let expected = wanted.path().to_owned();
    let (response, raises, success) =
        (wanted.take_value("response"), wanted.take_value("raises"), wanted.take_value("success"));
    let says_how = response.is_some() || raises.is_some() || success.is_some();
    if let Some(spot) = response {
        check_response(checker, spot, called)?;
    }
    if let Some(spot) = raises {
        check_raised_error(checker, spot, called)?;
    }
    if let Some(spot) = success {
        checker.check_truth(&spot, called.ended.as_ref().map(drop).map_err(describe_error));
    }
    if !says_how {
        checker.check_result(&expected, called.ended.as_ref().map(drop).map_err(describe_error));
    }
    if let Some(spot) = wanted.take_value("provider_call_count") {
        checker.check_exact(&spot, called.sent.len());
    }
    if let Some(spot) = wanted.take_value("caller_messages_unmodified") {
        checker.check_truth(&spot, invariants::caller_is_unmodified(called));
    }
    if let Some(spot) = wanted.take_value("no_token_events_emitted") {
        let shown = called.shown_ever;
        checker.check_truth(&spot, ensure(shown == 0, || format!("{shown} deltas were shown")));
    }
    if let Some(spot) = wanted.take_value("wire_requests") {
        wire::check_attempt_requests(checker, spot, mapping, called)?;
    }
    if let Some(spot) = wanted.take_value("llm_spans") {
        check_spans(checker, spot, called)?;
    }
    blocks.extend(wanted.take_value("invariants"));
    wanted.reject_remaining_keys()
}

fn check_response(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    let response = match called.require_response() {
        Ok(response) => response,
        Err(what) => {
            checker.check_result(&path, Err(what));
            return Ok(());
        }
    };
    if let Some(spot) = wanted.take_value("message") {
        check_message(checker, spot, &response.message)?;
    }
    if let Some(spot) = wanted.take_value("finish_reason") {
        checker.check_exact(&spot, response.finish_reason.as_str());
    }
    if let Some(spot) = wanted.take_value("usage") {
        checker.check_value(&spot, &usage_to_json(response), ExtraKeyPolicy::Allowed);
    }
    if let Some(spot) = wanted.take_value("parsed") {
        checker.check_exact(&spot, response.parsed.clone());
    }
    if let Some(spot) = wanted.take_value("raw_check") {
        check_raw_keys(checker, spot, (response, called))?;
    }
    wanted.reject_remaining_keys()
}

/// The counters, null where they are not reported.
fn usage_to_json(response: &Response) -> Value {
    let it = response.usage;
    json!({
        "prompt_tokens": it.prompt_tokens,
        "completion_tokens": it.completion_tokens,
        "total_tokens": it.total_tokens,
        "cached_tokens": it.cached_tokens,
        "cache_creation_tokens": it.cache_creation_tokens,
    })
}

/// Asserts the keys of a message that the fixture names. Content that is not there is null, as is content without
/// anything.
fn check_message(checker: &mut AssertionChecker, spot: LocatedNode, message: &ChatMessage) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    if let Some(spot) = wanted.take_value("role") {
        checker.check_exact(&spot, message.role.as_str());
    }
    if let Some(spot) = wanted.take_value("content") {
        let content = serde_json::to_value(&message.content).unwrap_or_default();
        let content = if message.content.is_empty() { Value::Null } else { content };
        let is_nothing = spot.as_text().is_ok_and(str::is_empty);
        let actual = if is_nothing && content.is_null() { json!("") } else { content };
        checker.check_exact(&spot, actual);
    }
    if let Some(spot) = wanted.take_value("tool_calls") {
        if matches!(spot.node.value, YamlValue::List(_)) {
            check_tool_calls(checker, spot, message)?;
        } else {
            let calls = serde_json::to_value(&message.tool_calls).unwrap_or_default();
            checker.check_exact(&spot, if message.tool_calls.is_empty() { Value::Null } else { calls });
        }
    }
    wanted.reject_remaining_keys()
}

/// Asserts the calls, one by one; of each the keys that the fixture names.
fn check_tool_calls(checker: &mut AssertionChecker, spot: LocatedNode, message: &ChatMessage) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let (count, found) = (wanted.len(), message.tool_calls.len());
    checker.check_result(&path, ensure(count == found, || format!("expected {count} calls, found {found}")));
    for (spot, call) in wanted.into_iter().zip(&message.tool_calls) {
        let mut wanted = spot.into_map_reader()?;
        let fields = [
            ("id", json!(call.id)),
            ("name", json!(call.name)),
            ("arguments", json!(call.arguments)),
            ("signature", json!(call.signature)),
        ];
        for (key, actual) in fields {
            if let Some(spot) = wanted.take_value(key) {
                checker.check_exact(&spot, actual);
            }
        }
        wanted.reject_remaining_keys()?;
    }
    Ok(())
}

/// Asserts that keys of the server's answer are in `raw` unchanged. A stream has no single body: its keys are those
/// of its chunks, where the last value counts and the choices are merged.
fn check_raw_keys(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (response, called): (&Response, &ProviderCallResult),
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let keys = block.take_required("required_keys")?;
    block.reject_remaining_keys()?;
    let path = keys.path.clone();
    let answer = called.received_answers().next_back();
    for key in keys.into_distinct_texts()? {
        checker.check_result(&path, ensure_raw_key(&response.raw, &key, answer));
    }
    Ok(())
}

fn ensure_raw_key(raw: &Value, key: &str, answer: Option<&MockHttpAnswer>) -> Result<(), String> {
    let found = raw.get(key).ok_or_else(|| format!("raw has no '{key}': {raw}"))?;
    let answer = answer.ok_or("there was no answer")?;
    if answer.is_streamed() && ["choices", "object"].contains(&key) {
        return ensure(!found.is_null(), || format!("raw has no '{key}'"));
    }
    let came = answer.body_parts().iter().rev().find_map(|part| part.get(key).filter(|it| !it.is_null()));
    ensure(came == Some(found), || format!("raw has {found} under '{key}', and {came:?} came"))
}

fn check_raised_error(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    let error = match called.require_error() {
        Ok(error) => error,
        Err(what) => {
            checker.check_result(&path, Err(what));
            return Ok(());
        }
    };
    checker.check_exact(&wanted.take_required("category")?, error.category());
    if let Some(spot) = wanted.take_value("message") {
        checker.check_exact(&spot, error.to_string());
    }
    if let Some(spot) = wanted.take_value("retry_after_seconds") {
        checker.check_exact(&spot, error.retry_after().map(|retry_after| retry_after.as_secs_f64()));
    }
    if let Some(spot) = wanted.take_value("carries") {
        check_exposed_fields(checker, spot, &exposed_fields(error))?;
    }
    // The cause is kept where there is one (llm-provider §7).
    if let Some(MockHttpAnswer::Failure) = called.received_answers().next_back() {
        checker
            .check_result(&path, ensure(error.source().is_some(), || "the error has lost its cause".into()));
    }
    wanted.reject_remaining_keys()
}

/// Returns the fields that an error exposes (llm-provider §7).
fn exposed_fields(error: &Error) -> Value {
    match error {
        Error::StructuredOutputInvalid(it) => json!({
            "response_schema": it.response_schema,
            "output_content": it.output_content,
            "error_message": it.error_message,
            "finish_reason": it.finish_reason,
            "usage": it.usage,
        }),
        other => json!({"retry_after": other.retry_after().map(|retry_after| retry_after.as_secs_f64())}),
    }
}

/// Asserts the span of each attempt, in order: the attributes and absences that are named, and its failure.
fn check_spans(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    called: &ProviderCallResult,
) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let (count, found) = (wanted.len(), called.spans.len());
    checker.check_result(&path, ensure(count == found, || format!("expected {count} spans, found {found}")));
    for (spot, span) in wanted.into_iter().zip(&called.spans) {
        let mut wanted = spot.into_map_reader()?;
        let index = span.attributes.get("openarmature.llm.attempt_index").map(AttributeValue::to_json);
        checker.check_exact(&wanted.take_required("attempt_index")?, index);
        if let Some(spot) = wanted.take_value("error_category") {
            checker.check_exact(&spot, invariants::span_failure(span));
        }
        if let Some(spot) = wanted.take_value("attributes") {
            check_attributes(checker, spot, &span.attributes)?;
        }
        if let Some(spot) = wanted.take_value("attributes_absent") {
            check_absent_attributes(checker, spot, &span.attributes)?;
        }
        wanted.reject_remaining_keys()?;
    }
    Ok(())
}
