//! Attributes of spans of model calls: counters, payloads, failures (observability §5.5).

use singletree::llm::TokenUsage;
use singletree_telemetry::{SpanStatus, TraceSpan};

use super::super::expect::{attribute, single_llm_span};
use super::super::view::{Holds, TelemetryRow, TelemetryView};
use super::calls::{COMPLETION, FAILURE};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("cache_read_attribute_equals_usage_field", cache_read_is_shown),
    ("cache_read_attribute_emits_zero_when_reported", cache_read_zero_is_shown),
    ("reported_zero_distinct_from_absent", cache_read_zero_is_shown),
    ("cache_creation_attribute_absent_for_openai_compatible", cache_creation_is_absent),
    ("cache_attribute_absent_when_field_unpopulated", cache_is_absent),
    ("absent_distinct_from_zero", cache_is_absent),
    ("exactly_one_llm_span_when_retry_absent", one_span),
    ("attempt_index_defaults_to_zero", attempt_is_zero),
    ("baseline_attributes_still_emit_alongside_attempt_index", baseline_is_shown),
    ("tool_call_attributes_omitted_when_none_requested", no_tool_requests_shown),
    ("identity_projections_survive_payload_off", tool_requests_are_shown),
    ("identity_projections_present_regardless_of_flag", tool_requests_are_shown),
    ("gated_output_tool_calls_suppressed_when_payload_off", tool_arguments_are_hidden),
    ("error_span_carries_output_usage_finish_reason", failed_span_shows_output),
    ("error_status_and_exception_event_unchanged", failed_span_is_marked),
    ("output_content_redacted_under_payload_disabled", failed_span_hides_output),
    ("finish_reason_usage_and_error_status_unchanged_under_payload_disabled", failed_span_shows_usage),
    ("null_prompt_tokens_reaches_no_span_histogram_or_budget_surface", null_input_reaches_nothing),
    ("span_omits_both_input_usage_attributes", null_input_is_omitted),
    ("span_omits_both_input_usage_attributes_on_malformed_wire_counter", null_input_is_omitted),
    ("span_omits_all_usage_attributes_when_all_counters_malformed", null_counters_are_omitted),
    ("malformed_wire_prompt_tokens_nulled_before_event_and_span", malformed_counters_are_null),
    ("event_usage_prompt_tokens_null_not_verbatim_wire_value", malformed_counters_are_null),
    ("all_three_malformed_wire_counters_nulled_before_event_and_span", all_counters_are_null),
    ("event_usage_is_present_record_of_nulls_not_null_record", all_counters_are_null),
];

const CACHE_READ: &str = "openarmature.llm.cache_read.input_tokens";
const CACHE_CREATION: &str = "openarmature.llm.cache_creation.input_tokens";
const INPUT: [&str; 2] = ["gen_ai.usage.input_tokens", "openarmature.llm.usage.prompt_tokens"];
const OUTPUT: [&str; 3] = [
    "gen_ai.usage.output_tokens",
    "openarmature.llm.usage.completion_tokens",
    "openarmature.llm.usage.total_tokens",
];
const OUTPUT_CONTENT: &str = "openarmature.llm.output.content";
const FINISH_REASON: &str = "openarmature.llm.finish_reason";

fn span<'a>(view: &TelemetryView<'a>) -> Result<&'a TraceSpan, String> {
    single_llm_span(view.last()?)
}

fn usage(view: &TelemetryView<'_>) -> Result<TokenUsage, String> {
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    Ok(answer.usage)
}

fn ensure_absent(view: &TelemetryView<'_>, names: &[&str]) -> Holds {
    let span = span(view)?;
    let found = names.iter().find(|name| span.attributes.contains_key(**name));
    ensure(found.is_none(), || format!("{found:?} is there"))
}

fn ensure_present(view: &TelemetryView<'_>, names: &[&str]) -> Holds {
    let span = span(view)?;
    let missing = names.iter().find(|name| !span.attributes.contains_key(**name));
    ensure(missing.is_none(), || format!("{missing:?} is missing"))
}

fn cache_read_is_shown(view: &TelemetryView<'_>) -> Holds {
    let (shown, counted) = (attribute(span(view)?, CACHE_READ), usage(view)?.cached_tokens);
    let same = counted.is_some() && shown.as_ref().and_then(|shown| shown.as_u64()) == counted;
    ensure(same, || format!("{shown:?} is shown, {counted:?} was counted"))
}

fn cache_read_zero_is_shown(view: &TelemetryView<'_>) -> Holds {
    cache_read_is_shown(view)?;
    let shown = attribute(span(view)?, CACHE_READ);
    ensure(shown.as_ref().is_some_and(|shown| *shown == 0), || format!("{shown:?} is shown"))
}

fn cache_creation_is_absent(view: &TelemetryView<'_>) -> Holds {
    ensure(usage(view)?.cache_creation_tokens.is_none(), || "it was counted".into())?;
    ensure_absent(view, &[CACHE_CREATION])
}

fn cache_is_absent(view: &TelemetryView<'_>) -> Holds {
    let counted = usage(view)?.cached_tokens;
    ensure(counted.is_none(), || format!("{counted:?} was counted"))?;
    ensure_absent(view, &[CACHE_READ, CACHE_CREATION])
}

fn one_span(view: &TelemetryView<'_>) -> Holds {
    span(view).map(drop)
}

fn attempt_is_zero(view: &TelemetryView<'_>) -> Holds {
    let index = attribute(span(view)?, "openarmature.llm.attempt_index");
    ensure(index.as_ref().is_some_and(|index| *index == 0), || format!("it is {index:?}"))
}

fn baseline_is_shown(view: &TelemetryView<'_>) -> Holds {
    let names = [
        "openarmature.llm.attempt_index",
        "openarmature.llm.model",
        FINISH_REASON,
        "openarmature.llm.usage.total_tokens",
    ];
    ensure_present(view, &names)
}

const TOOL_REQUESTS: [&str; 3] = [
    "openarmature.llm.output.tool_calls.count",
    "openarmature.llm.output.tool_calls.names",
    "openarmature.llm.output.tool_calls.ids",
];
const TOOL_CALLS: &str = "openarmature.llm.output.tool_calls";

fn no_tool_requests_shown(view: &TelemetryView<'_>) -> Holds {
    ensure_absent(view, &TOOL_REQUESTS)?;
    ensure_absent(view, &[TOOL_CALLS])
}

fn tool_requests_are_shown(view: &TelemetryView<'_>) -> Holds {
    ensure_present(view, &TOOL_REQUESTS)
}

/// The arguments are on no span at all.
fn tool_arguments_are_hidden(view: &TelemetryView<'_>) -> Holds {
    ensure_absent(view, &[TOOL_CALLS])?;
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    let calls = answer.message.tool_calls.iter().filter_map(|call| call.arguments.as_ref());
    let said: Vec<&str> =
        calls.flat_map(|arguments| arguments.values()).filter_map(|it| it.as_str()).collect();
    ensure(!said.is_empty(), || "the call has no arguments".into())?;
    let texts: Vec<String> = view
        .spans()?
        .iter()
        .flat_map(|span| span.attributes.values())
        .map(|it| it.to_json().to_string())
        .collect();
    let leaked = said.iter().find(|said| texts.iter().any(|text| text.contains(**said)));
    ensure(leaked.is_none(), || format!("{leaked:?} is on a span"))
}

fn failed_span_shows_output(view: &TelemetryView<'_>) -> Holds {
    failed_span_shows_usage(view)?;
    let told = view.single_event(FAILURE)?["output_content"].clone();
    let shown = attribute(span(view)?, OUTPUT_CONTENT);
    ensure(!told.is_null() && shown.as_ref() == Some(&told), || format!("it shows {shown:?}"))
}

fn failed_span_is_marked(view: &TelemetryView<'_>) -> Holds {
    let span = span(view)?;
    let failed = matches!(&span.status, SpanStatus::Error { description: Some(_) });
    ensure(failed && span.exception.is_some(), || format!("its status is {:?}", span.status))
}

fn failed_span_hides_output(view: &TelemetryView<'_>) -> Holds {
    let told = view.single_event(FAILURE)?["output_content"].clone();
    ensure(told.is_string(), || "there is no output".into())?;
    ensure_absent(view, &[OUTPUT_CONTENT])
}

fn failed_span_shows_usage(view: &TelemetryView<'_>) -> Holds {
    failed_span_is_marked(view)?;
    ensure_present(view, &[FINISH_REASON])?;
    ensure_present(view, &INPUT)?;
    ensure_present(view, &OUTPUT)
}

fn null_input_is_omitted(view: &TelemetryView<'_>) -> Holds {
    let counted = usage(view)?.prompt_tokens;
    ensure(counted.is_none(), || format!("{counted:?} was counted"))?;
    ensure_absent(view, &INPUT)?;
    ensure_present(view, &OUTPUT)
}

fn null_counters_are_omitted(view: &TelemetryView<'_>) -> Holds {
    all_counters_are_null(view)?;
    ensure_absent(view, &INPUT)?;
    ensure_absent(view, &OUTPUT)
}

/// A counter that was not reported is on no span, in no measurement, and evaluates no bound.
fn null_input_reaches_nothing(view: &TelemetryView<'_>) -> Holds {
    null_input_is_omitted(view)?;
    super::metrics::no_input_tokens(view)?;
    super::budgets::no_input_bound(view)
}

/// A counter that the server sent in another form than a number is null.
fn malformed_counters_are_null(view: &TelemetryView<'_>) -> Holds {
    let told = view.single_event(COMPLETION)?["usage"].clone();
    let bodies = &view.last()?.sent_bodies;
    let sent = &bodies.last().ok_or("nothing was sent")?["usage"];
    let counters = ["prompt_tokens", "completion_tokens", "total_tokens"];
    let malformed: Vec<&str> =
        counters.into_iter().filter(|counter| sent[*counter].as_u64().is_none()).collect();
    ensure(!malformed.is_empty(), || "no counter is malformed".into())?;
    let kept = malformed.iter().find(|counter| !told[**counter].is_null());
    ensure(kept.is_none(), || format!("{kept:?} is {told}"))
}

fn all_counters_are_null(view: &TelemetryView<'_>) -> Holds {
    malformed_counters_are_null(view)?;
    let told = view.single_event(COMPLETION)?["usage"].clone();
    let counters = ["prompt_tokens", "completion_tokens", "total_tokens"];
    let all = told.is_object() && counters.iter().all(|counter| told[*counter].is_null());
    ensure(all, || format!("it is {told}"))
}
