//! Events and spans of tool executions (observability §5.5.11, §5.5.12).

use serde_json::Value;
use singletree_telemetry::{SpanSubject, TraceSpan};

use super::super::view::{Holds, TelemetryRow, TelemetryView};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("exactly_one_tool_call_event_observed", one_return),
    ("success_one_tool_call_event_zero_failed", only_return),
    ("zero_tool_call_failed_events_on_success", only_return),
    ("tool_call_event_carries_full_field_set", return_is_described),
    ("latency_ms_present", return_is_timed),
    ("exactly_one_tool_call_failed_event_observed", one_failure),
    ("failure_one_tool_call_failed_event_zero_success", only_failure),
    ("zero_tool_call_events_on_failure", only_failure),
    ("no_error_category_field_on_tool_failure_event", failure_has_no_category),
    ("payload_off_suppresses_tool_arguments_and_result", span_shows_no_payload),
    ("identity_attributes_present_with_payload_off", span_shows_identity),
    ("payload_on_populates_tool_arguments_and_result", span_shows_payload),
    ("tool_span_name_is_openarmature_tool_call", span_has_own_name),
    ("execute_tool_span_name_not_used", span_has_own_name),
    ("oa_namespace_tool_attributes_emitted", span_shows_payload),
    ("gen_ai_tool_attributes_not_emitted_in_v1", span_has_no_genai_attributes),
];

const RETURN: &str = "ToolCallEvent";
const FAILURE: &str = "ToolCallFailedEvent";
const IDENTITY: [&str; 2] = ["openarmature.tool.name", "openarmature.tool.call.id"];
const PAYLOAD: [&str; 2] = ["openarmature.tool.call.arguments", "openarmature.tool.call.result"];

fn one_return(view: &TelemetryView<'_>) -> Holds {
    view.single_event(RETURN).map(drop)
}

fn one_failure(view: &TelemetryView<'_>) -> Holds {
    view.single_event(FAILURE).map(drop)
}

fn only_return(view: &TelemetryView<'_>) -> Holds {
    one_return(view)?;
    ensure(view.events(FAILURE)?.is_empty(), || "there is a failure, too".into())
}

fn only_failure(view: &TelemetryView<'_>) -> Holds {
    one_failure(view)?;
    ensure(view.events(RETURN)?.is_empty(), || "there is a result, too".into())
}

fn return_is_described(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(RETURN)?;
    let fields = [
        "invocation_id",
        "correlation_id",
        "node_name",
        "namespace",
        "attempt_index",
        "call_id",
        "tool_name",
        "tool_call_id",
        "arguments",
        "result",
        "latency_ms",
    ];
    let missing = fields.iter().find(|field| event[**field].is_null());
    ensure(missing.is_none(), || format!("{missing:?} is missing"))
}

fn return_is_timed(view: &TelemetryView<'_>) -> Holds {
    let latency = view.single_event(RETURN)?["latency_ms"].clone();
    ensure(latency.as_f64().is_some_and(|latency| latency >= 0.0), || format!("it is {latency}"))
}

fn failure_has_no_category(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(FAILURE)?;
    let described = ["error_type", "error_message"].iter().all(|field| event[*field].is_string());
    ensure(described && event.get("error_category").is_none(), || format!("it is {event}"))
}

fn tool_span<'a>(view: &TelemetryView<'a>) -> Result<&'a TraceSpan, String> {
    let mut spans = view.spans()?.iter().filter(|span| matches!(span.subject, SpanSubject::Tool(_)));
    match (spans.next(), spans.next()) {
        (Some(only), None) => Ok(only),
        _ => Err("there is not one span of a tool".into()),
    }
}

fn has_all(span: &TraceSpan, names: &[&str]) -> bool {
    names.iter().all(|name| span.attributes.contains_key(*name))
}

fn span_shows_no_payload(view: &TelemetryView<'_>) -> Holds {
    let span = tool_span(view)?;
    let shown = PAYLOAD.iter().find(|name| span.attributes.contains_key(**name));
    ensure(shown.is_none(), || format!("it shows {shown:?}"))?;
    // Nor is the payload anywhere else.
    let result = Value::String(view.single_event(RETURN)?["result"].to_string());
    let texts = view.spans()?.iter().flat_map(|span| span.attributes.values());
    let leaked = texts.into_iter().any(|value| value.to_json() == result);
    ensure(!leaked, || "the result is on a span".into())
}

fn span_shows_identity(view: &TelemetryView<'_>) -> Holds {
    ensure(has_all(tool_span(view)?, &IDENTITY), || "it does not say which tool".into())
}

fn span_shows_payload(view: &TelemetryView<'_>) -> Holds {
    span_shows_identity(view)?;
    ensure(has_all(tool_span(view)?, &PAYLOAD), || "it does not show what was said".into())
}

fn span_has_own_name(view: &TelemetryView<'_>) -> Holds {
    let name = &tool_span(view)?.name;
    let other = view.spans()?.iter().any(|span| span.name.starts_with("execute_tool"));
    ensure(**name == *"openarmature.tool.call" && !other, || format!("it is {name}"))
}

fn span_has_no_genai_attributes(view: &TelemetryView<'_>) -> Holds {
    let span = tool_span(view)?;
    let found = span.attributes.keys().find(|name| name.starts_with("gen_ai."));
    ensure(found.is_none(), || format!("it has {found:?}"))
}
