//! Invariants of llm-provider (conformance-adapter §5.9): each is a check of its own. A name that is in no table here
//! fails the case.

use singletree_telemetry::{AttributeValue, SpanStatus, TraceSpan};

use super::calling::ProviderCallResult;
use super::{rules, streamed, tried};
use crate::check::{AssertionChecker, ensure};
use crate::failure::CaseFailure;
use crate::fields::LocatedNode;

/// A check of one call.
pub(super) type Measure = fn(&ProviderCallResult) -> Result<(), String>;

/// A check of one call whose name says which fields it is about.
pub(super) type NamedMeasure = fn(&ProviderCallResult, &str) -> Result<(), String>;

/// A row: a name, or how names begin or end where a star stands, and its check.
pub(super) type MeasureRow = (&'static str, Measure);

/// A row whose check reads the name.
pub(super) type NamedMeasureRow = (&'static str, NamedMeasure);

/// Invariants about the input of a call and its result.
const OF_CALLS: &[MeasureRow] = &[
    ("caller_messages_unmutated", caller_is_unmodified),
    ("caller_config_unmutated", caller_is_unmodified),
    ("no_request_issued", no_request_sent),
    ("rejection_category_is_provider_invalid_request", rules::is_refused),
    ("stream_unsupported_mapping_rejects_pre_send", rules::is_refused_unsent),
    ("no_silent_atomic_fallback", rules::is_refused_unsent),
    ("no_token_events_on_rejected_stream", shows_no_delta),
    ("atomic_call_unaffected_by_streaming_rejection", rules::is_sent_unstreamed),
    ("n_attempts_emit_n_llm_spans", each_attempt_has_a_span),
    ("attempt_index_attribute_distinct_per_span", spans_are_numbered),
    ("every_attempt_span_carries_error_category", spans_carry_failures),
    ("exactly_one_attempt_span_for_non_transient", only_attempt_has_a_span),
];

/// The tables, in the order in which they are searched; a family of names comes after every whole name.
const TABLES: &[&[MeasureRow]] = &[OF_CALLS, tried::ROWS, streamed::ROWS, rules::ROWS, rules::FAMILIES];

/// Asserts the invariants of a block about calls: each must hold for every one of them.
pub(super) fn check_invariants(
    checker: &mut AssertionChecker,
    block: LocatedNode,
    calls: &[&ProviderCallResult],
) {
    let Some(mut named) = checker.unwrap_or_record(block.into_map_reader()) else { return };
    while let Some((name, value)) = named.take_next_entry() {
        match (find_measure(&name), find_named_measure(&name)) {
            (Some(measure), _) => {
                let checked = calls.iter().try_for_each(|called| measure(called));
                checker.check_truth(&value, checked);
            }
            (None, Some(measure)) => {
                let checked = calls.iter().try_for_each(|called| measure(called, &name));
                checker.check_truth(&value, checked);
            }
            (None, None) => {
                let what = format!("unknown invariant '{name}'");
                checker.failures.push(CaseFailure::reader_error(&value.path, what));
            }
        }
    }
}

fn find_measure(name: &str) -> Option<Measure> {
    let mut rows = TABLES.iter().copied().flatten();
    rows.find(|(pattern, _)| matches_pattern(pattern, name)).map(|(_, measure)| *measure)
}

fn find_named_measure(name: &str) -> Option<NamedMeasure> {
    let mut rows = rules::NAMED.iter();
    rows.find(|(pattern, _)| matches_pattern(pattern, name)).map(|(_, measure)| *measure)
}

/// Tells whether a row is about a name: the name itself, or one of a family.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(begin) else { return false };
    if !rest.contains('*') {
        return name.len() > rest.len() && name.ends_with(rest);
    }
    // A star matches at least one character.
    name.char_indices().skip(1).any(|(at, _)| matches_pattern(rest, &name[at..]))
}

/// The caller's request is unchanged.
///
/// # Errors
/// The changed part.
pub(super) fn caller_is_unmodified(called: &ProviderCallResult) -> Result<(), String> {
    let asked = called.asked.as_ref().ok_or("nothing was asked")?;
    ensure(called.asked_after.as_ref() == Some(asked), || "the caller's request was changed".into())
}

fn no_request_sent(called: &ProviderCallResult) -> Result<(), String> {
    ensure(called.sent.is_empty(), || format!("{} requests were sent", called.sent.len()))
}

fn shows_no_delta(called: &ProviderCallResult) -> Result<(), String> {
    ensure(called.is_streamed && called.shown_ever == 0, || {
        format!("{} deltas were shown", called.shown_ever)
    })
}

fn each_attempt_has_a_span(called: &ProviderCallResult) -> Result<(), String> {
    let (tried, spans) = (called.tried.len(), called.spans.len());
    ensure(tried > 0 && tried == spans, || format!("{tried} attempts, {spans} spans"))
}

/// The spans are numbered in the order in which they began, from 0.
fn spans_are_numbered(called: &ProviderCallResult) -> Result<(), String> {
    each_attempt_has_a_span(called)?;
    let numbers = called.spans.iter().map(|span| {
        let number = span.attributes.get("openarmature.llm.attempt_index").map(AttributeValue::to_json);
        number.and_then(|number| number.as_u64())
    });
    let numbers: Vec<Option<u64>> = numbers.collect();
    ensure(numbers.iter().copied().eq((0..).take(numbers.len()).map(Some)), || format!("{numbers:?}"))
}

/// The span of each attempt says how that attempt failed.
fn spans_carry_failures(called: &ProviderCallResult) -> Result<(), String> {
    each_attempt_has_a_span(called)?;
    let told: Vec<Option<String>> = called.spans.iter().map(span_failure).collect();
    let failed: Vec<Option<String>> =
        called.tried.iter().map(|attempt| attempt.failure_category().map(str::to_owned)).collect();
    ensure(told == failed && failed.iter().all(Option::is_some), || format!("{told:?} of {failed:?}"))
}

fn only_attempt_has_a_span(called: &ProviderCallResult) -> Result<(), String> {
    each_attempt_has_a_span(called)?;
    ensure(called.spans.len() == 1, || format!("there are {} spans", called.spans.len()))?;
    ensure(!called.require_error()?.is_transient(), || "it may be tried again".into())
}

/// Returns the category that a span failed with, if it did.
pub(super) fn span_failure(span: &TraceSpan) -> Option<String> {
    let category = span.attributes.get("openarmature.error.category")?.as_text()?;
    matches!(span.status, SpanStatus::Error { .. }).then(|| category.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_invariant_has_one_row() {
        let mut seen = BTreeSet::new();
        let plain = TABLES.iter().copied().flatten().map(|(name, _)| name);
        for name in plain.chain(rules::NAMED.iter().map(|(name, _)| name)) {
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn a_star_stands_for_some_text() {
        for (pattern, name, is) in [
            ("*_no_op", "a_no_op", true),
            ("*_no_op", "_no_op", false),
            ("*_no_op", "a_no_ops", false),
            ("raw_*_malformed", "raw_x_malformed", true),
            ("raw_*_malformed", "raw_malformed", false),
            ("wire_*_merged_under_*", "wire_stop_merged_under_config", true),
            ("wire_*_merged_under_*", "wire_merged_under_config", false),
            ("wire_*_merged_under_*", "wire_stop_merged_under_", false),
            ("whole", "whole", true),
            ("whole", "wholes", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), is, "{pattern} {name}");
        }
    }
}
