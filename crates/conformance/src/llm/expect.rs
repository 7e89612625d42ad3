//! The expectations of a case about a call.

use std::error::Error as StdError;

use serde_json::{Value, json};
use singletree::llm::{ChatMessage, Error, Response};

use super::call::ProviderCallSpec;
use super::calling::ProviderCallResult;
use super::peer::{KEY, MockHttpAnswer};
use super::spec::ProviderMapping;
use super::{NO_SPANS, invariants, wire};
use crate::check::{AssertionChecker, ensure};
use crate::errors::exposes;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::matcher::ExtraKeyPolicy;
use crate::yaml::YamlValue;

/// Asserts everything that a case says of a call.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn expect(
    checker: &mut AssertionChecker,
    spec: &ProviderCallSpec,
    mapping: ProviderMapping,
    called: &ProviderCallResult,
) -> Outcome<()> {
    if let Some(wanted) = &spec.wire_request {
        wire::request(checker, wanted, mapping, called);
    }
    if let Some(wanted) = spec.wire_checks.clone() {
        wire::checks(checker, wanted, called)?;
    }
    if let Some(wanted) = spec.wire_absent.clone() {
        wire::absent_keys(checker, wanted, called)?;
    }
    keeps_the_key(checker, called);
    let mut blocks: Vec<LocatedNode> = spec.invariants.clone().into_iter().collect();
    match spec.expected.clone() {
        Some(wanted) => outcome(checker, wanted.fields()?, (mapping, called), &mut blocks)?,
        // A call of which nothing is said must succeed.
        None => checker.holds(&spec.path, called.ended.as_ref().map(drop).map_err(told)),
    }
    for block in blocks {
        invariants::check(checker, block, &[called]);
    }
    Ok(())
}

fn told(error: &Error) -> String {
    format!("it failed: {} ({error})", error.category())
}

/// Asserts that no error message contains the provider's key (INV-16).
fn keeps_the_key(checker: &mut AssertionChecker, called: &ProviderCallResult) {
    let Err(error) = &called.ended else { return };
    let mut causes = std::iter::successors(Some(error as &dyn StdError), |it| (*it).source());
    let tells = causes.any(|cause| cause.to_string().contains(KEY) || format!("{cause:?}").contains(KEY));
    if tells {
        checker.failures.push(CaseFailure::assertion("the case", "an error tells the provider's key"));
    }
}

fn outcome(
    checker: &mut AssertionChecker,
    mut wanted: YamlMapReader,
    (mapping, called): (ProviderMapping, &ProviderCallResult),
    blocks: &mut Vec<LocatedNode>,
) -> Outcome<()> {
    let expected = wanted.path().to_owned();
    let (response, raises, success) =
        (wanted.take("response"), wanted.take("raises"), wanted.take("success"));
    let says_how = response.is_some() || raises.is_some() || success.is_some();
    if let Some(spot) = response {
        respond(checker, spot, called)?;
    }
    if let Some(spot) = raises {
        raise(checker, spot, called)?;
    }
    if let Some(spot) = success {
        checker.truth(&spot, called.ended.as_ref().map(drop).map_err(told));
    }
    if !says_how {
        checker.holds(&expected, called.ended.as_ref().map(drop).map_err(told));
    }
    if let Some(spot) = wanted.take("provider_call_count") {
        checker.exactly(&spot, called.sent.len());
    }
    if let Some(spot) = wanted.take("caller_messages_unmodified") {
        checker.truth(&spot, invariants::caller_is_unmodified(called));
    }
    if let Some(spot) = wanted.take("no_token_events_emitted") {
        let shown = called.shown_ever;
        checker.truth(&spot, ensure(shown == 0, || format!("{shown} deltas were shown")));
    }
    if let Some(spot) = wanted.take("wire_requests") {
        wire::requests(checker, spot, mapping, called)?;
    }
    if let Some(spot) = wanted.take("llm_spans") {
        spans(checker, spot, called)?;
    }
    blocks.extend(wanted.take("invariants"));
    wanted.finish()
}

fn respond(checker: &mut AssertionChecker, spot: LocatedNode, called: &ProviderCallResult) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.fields()?;
    let response = match called.response() {
        Ok(response) => response,
        Err(what) => {
            checker.holds(&path, Err(what));
            return Ok(());
        }
    };
    if let Some(spot) = wanted.take("message") {
        message(checker, spot, &response.message)?;
    }
    if let Some(spot) = wanted.take("finish_reason") {
        checker.exactly(&spot, response.finish_reason.as_str());
    }
    if let Some(spot) = wanted.take("usage") {
        checker.value(&spot, &usage(response), ExtraKeyPolicy::Allowed);
    }
    if let Some(spot) = wanted.take("parsed") {
        checker.exactly(&spot, response.parsed.clone());
    }
    if let Some(spot) = wanted.take("raw_check") {
        raw(checker, spot, (response, called))?;
    }
    wanted.finish()
}

/// The counters, null where they are not reported.
fn usage(response: &Response) -> Value {
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
fn message(checker: &mut AssertionChecker, spot: LocatedNode, message: &ChatMessage) -> Outcome<()> {
    let mut wanted = spot.fields()?;
    if let Some(spot) = wanted.take("role") {
        checker.exactly(&spot, message.role.as_str());
    }
    if let Some(spot) = wanted.take("content") {
        let content = serde_json::to_value(&message.content).unwrap_or_default();
        let content = if message.content.is_empty() { Value::Null } else { content };
        let is_nothing = spot.text().is_ok_and(str::is_empty);
        let actual = if is_nothing && content.is_null() { json!("") } else { content };
        checker.exactly(&spot, actual);
    }
    if let Some(spot) = wanted.take("tool_calls") {
        if matches!(spot.node.value, YamlValue::List(_)) {
            tool_calls(checker, spot, message)?;
        } else {
            let calls = serde_json::to_value(&message.tool_calls).unwrap_or_default();
            checker.exactly(&spot, if message.tool_calls.is_empty() { Value::Null } else { calls });
        }
    }
    wanted.finish()
}

/// Asserts the calls, one by one; of each the keys that the fixture names.
fn tool_calls(checker: &mut AssertionChecker, spot: LocatedNode, message: &ChatMessage) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.items()?;
    let (count, found) = (wanted.len(), message.tool_calls.len());
    checker.holds(&path, ensure(count == found, || format!("expected {count} calls, found {found}")));
    for (spot, call) in wanted.into_iter().zip(&message.tool_calls) {
        let mut wanted = spot.fields()?;
        let fields = [
            ("id", json!(call.id)),
            ("name", json!(call.name)),
            ("arguments", json!(call.arguments)),
            ("signature", json!(call.signature)),
        ];
        for (key, actual) in fields {
            if let Some(spot) = wanted.take(key) {
                checker.exactly(&spot, actual);
            }
        }
        wanted.finish()?;
    }
    Ok(())
}

/// Asserts that keys of the server's answer are in `raw` unchanged. A stream has no single body: its keys are those
/// of its chunks, where the last value counts and the choices are merged.
fn raw(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (response, called): (&Response, &ProviderCallResult),
) -> Outcome<()> {
    let mut block = spot.fields()?;
    let keys = block.need("required_keys")?;
    block.finish()?;
    let path = keys.path.clone();
    let answer = called.answers().next_back();
    for key in keys.distinct_texts()? {
        checker.holds(&path, raw_key(&response.raw, &key, answer));
    }
    Ok(())
}

fn raw_key(raw: &Value, key: &str, answer: Option<&MockHttpAnswer>) -> Result<(), String> {
    let found = raw.get(key).ok_or_else(|| format!("raw has no '{key}': {raw}"))?;
    let answer = answer.ok_or("there was no answer")?;
    if answer.is_streamed() && ["choices", "object"].contains(&key) {
        return ensure(!found.is_null(), || format!("raw has no '{key}'"));
    }
    let came = answer.parts().iter().rev().find_map(|part| part.get(key).filter(|it| !it.is_null()));
    ensure(came == Some(found), || format!("raw has {found} under '{key}', and {came:?} came"))
}

fn raise(checker: &mut AssertionChecker, spot: LocatedNode, called: &ProviderCallResult) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.fields()?;
    let error = match called.error() {
        Ok(error) => error,
        Err(what) => {
            checker.holds(&path, Err(what));
            return Ok(());
        }
    };
    checker.exactly(&wanted.need("category")?, error.category());
    if let Some(spot) = wanted.take("message") {
        checker.exactly(&spot, error.to_string());
    }
    if let Some(spot) = wanted.take("retry_after_seconds") {
        checker.exactly(&spot, error.retry_after().map(|retry_after| retry_after.as_secs_f64()));
    }
    if let Some(spot) = wanted.take("carries") {
        exposes(checker, spot, &exposed(error))?;
    }
    // The cause is kept where there is one (llm-provider §7).
    if let Some(MockHttpAnswer::Failure) = called.answers().next_back() {
        checker.holds(&path, ensure(error.source().is_some(), || "the error has lost its cause".into()));
    }
    wanted.finish()
}

/// Returns the fields that an error exposes (llm-provider §7).
fn exposed(error: &Error) -> Value {
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

/// Reads the expected spans, asserts the part that the attempts show, and reports that spans are not captured.
fn spans(checker: &mut AssertionChecker, spot: LocatedNode, called: &ProviderCallResult) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.items()?;
    let (count, found) = (wanted.len(), called.tried.len());
    checker.holds(&path, ensure(count == found, || format!("expected {count} attempts, found {found}")));
    for (index, spot) in wanted.into_iter().enumerate() {
        let mut span = spot.fields()?;
        checker.exactly(&span.need("attempt_index")?, index);
        let tried = called.tried.get(index);
        if let Some(spot) = span.take("error_category") {
            checker.exactly(&spot, tried.and_then(super::attempts::RecordedAttempt::category));
        }
        if let Some(spot) = span.take("attributes") {
            spot.fields()?;
        }
        if let Some(spot) = span.take("attributes_absent") {
            spot.distinct_texts()?;
        }
        span.finish()?;
    }
    checker.holds(&path, Err(NO_SPANS.into()));
    Ok(())
}
