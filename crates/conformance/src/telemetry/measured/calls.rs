//! Typed events of model calls (graph-engine §6; observability §5.5.7).

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::event_json::event_type;
use super::super::expect::attribute;
use super::super::view::{Holds, TelemetryRow, TelemetryView, node_events};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("exactly_one_llm_completion_event_observed", one_completion),
    ("exactly_one_llm_completion_event", one_completion),
    ("exactly_one_terminal_llm_completion_event", one_completion),
    ("exactly_one_llm_failed_event_observed", one_failure),
    ("exactly_one_terminal_llm_failed_event", one_failure),
    ("zero_llm_completion_events_on_failed_call", no_completion),
    ("zero_llm_completion_events_on_failed_stream", no_completion),
    ("no_typed_event_on_failure", no_completion),
    ("failure_surfaces_via_exception_path", exception_propagates),
    ("exception_propagates_alongside_typed_event", exception_propagates),
    ("exception_propagates_out_of_complete", exception_propagates),
    ("error_category_matches_raised_exception_category", category_is_the_exceptions),
    ("event_typed_fields_match_provider_response", fields_are_the_providers),
    ("identity_scoping_fields_populated", identity_is_told),
    ("per_instance_fan_out_index_populated", each_call_has_its_instance),
    ("sibling_instances_have_distinct_fan_out_index", each_call_has_its_instance),
    ("branch_name_null_outside_parallel_branches", no_call_has_a_branch),
    ("per_branch_branch_name_populated", each_call_has_its_branch),
    ("sibling_branches_have_distinct_branch_name", each_call_has_its_branch),
    ("fan_out_index_null_outside_fan_out", no_call_has_an_instance),
    ("typed_event_arrives_within_calling_node_span", event_arrives_within_node),
    ("typed_event_arrives_after_node_started", event_arrives_within_node),
    ("typed_event_arrives_before_node_completed", event_arrives_within_node),
    ("input_messages_populated_unconditionally", messages_are_told),
    ("input_messages_shape_matches_llm_provider_section_3", messages_are_told),
    ("request_params_carries_only_caller_supplied_keys", params_are_the_callers),
    ("absence_distinct_from_zero_value", params_are_the_callers),
    ("request_extras_is_native_mapping_not_json_string", extras_are_a_mapping),
    (
        "active_prompt_snapshot_matches_prompt_management_section_12_identity_attrs",
        prompt_is_that_of_the_span,
    ),
    ("active_prompt_null_parallels_prompt_attr_absence_on_span", prompt_is_that_of_the_span),
    ("active_prompt_and_group_both_populated_inside_group_context", prompt_and_group_are_told),
    ("completion_event_call_id_present_and_non_empty", call_ids_are_told),
    ("failed_event_call_id_present_and_non_empty", call_ids_are_told),
    ("completion_and_failed_event_call_ids_distinct", call_ids_are_distinct),
    ("finish_reason_is_stop_not_truncation", failure_finished_by_itself),
    ("response_side_surface_null_for_non_structured_output_failure", failure_has_no_output),
    ("token_budget_null_on_completion_event", completion_has_no_budget),
];

pub(super) const COMPLETION: &str = "LlmCompletionEvent";
pub(super) const FAILURE: &str = "LlmFailedEvent";

fn one_completion(view: &TelemetryView<'_>) -> Holds {
    view.single_event(COMPLETION).map(drop)
}

fn one_failure(view: &TelemetryView<'_>) -> Holds {
    view.single_event(FAILURE).map(drop)
}

fn no_completion(view: &TelemetryView<'_>) -> Holds {
    let count = view.events(COMPLETION)?.len();
    ensure(count == 0 && !view.last()?.events.is_empty(), || format!("there are {count}"))
}

/// The caller gets the error, and the event of the node carries it.
fn exception_propagates(view: &TelemetryView<'_>) -> Holds {
    let Err(error) = &view.last_run()?.ended else { return Err("the invocation did not fail".into()) };
    let derived = error.derived_category();
    let told = node_events(&view.last()?.events)
        .filter_map(|event| event.attempt_error())
        .any(|failed| failed.derived_category == derived);
    ensure(told, || format!("no event of a node carries {derived}"))
}

fn category_is_the_exceptions(view: &TelemetryView<'_>) -> Holds {
    let Err(error) = &view.last_run()?.ended else { return Err("the invocation did not fail".into()) };
    let told = view.single_event(FAILURE)?["error_category"].clone();
    ensure(told == error.derived_category(), || format!("the event says {told}"))
}

/// The event says what the server's body says.
fn fields_are_the_providers(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(COMPLETION)?;
    let bodies = &view.last()?.sent_bodies;
    let [body] = bodies.as_slice() else { return Err(format!("{} bodies were sent", bodies.len())) };
    let pairs = [
        ("response_id", &body["id"]),
        ("response_model", &body["model"]),
        ("finish_reason", &body["choices"][0]["finish_reason"]),
        ("output_content", &body["choices"][0]["message"]["content"]),
    ];
    for (field, sent) in pairs {
        ensure(event[field] == *sent, || format!("{field} is {}, and {sent} was sent", event[field]))?;
    }
    for counter in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        let (told, sent) = (&event["usage"][counter], &body["usage"][counter]);
        ensure(told == sent, || format!("{counter} is {told}, and {sent} was sent"))?;
    }
    Ok(())
}

fn identity_is_told(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(COMPLETION)?;
    let node = &event["node_name"];
    let last = event["namespace"].as_array().and_then(|names| names.last());
    let named = ["invocation_id", "correlation_id", "call_id"]
        .iter()
        .all(|field| event[*field].as_str().is_some_and(|text| !text.is_empty()));
    ensure(last == Some(node) && node.is_string() && named, || format!("it is {event}"))
}

/// Returns the values of a field of all completions, of which there are several.
fn values_of_completions(view: &TelemetryView<'_>, field: &str) -> Result<Vec<Value>, String> {
    let values: Vec<Value> = view.events(COMPLETION)?.iter().map(|event| event[field].clone()).collect();
    if values.len() < 2 { Err("there are no two completions".into()) } else { Ok(values) }
}

fn ensure_set_and_distinct(values: &[Value]) -> Holds {
    let distinct: BTreeSet<String> = values.iter().map(Value::to_string).collect();
    let set = values.iter().all(|value| !value.is_null());
    ensure(set && distinct.len() == values.len(), || format!("they are {values:?}"))
}

fn ensure_null(values: &[Value]) -> Holds {
    ensure(values.iter().all(Value::is_null), || format!("they are {values:?}"))
}

fn each_call_has_its_instance(view: &TelemetryView<'_>) -> Holds {
    ensure_set_and_distinct(&values_of_completions(view, "fan_out_index")?)
}

fn each_call_has_its_branch(view: &TelemetryView<'_>) -> Holds {
    ensure_set_and_distinct(&values_of_completions(view, "branch_name")?)
}

fn no_call_has_a_branch(view: &TelemetryView<'_>) -> Holds {
    ensure_null(&values_of_completions(view, "branch_name")?)
}

fn no_call_has_an_instance(view: &TelemetryView<'_>) -> Holds {
    ensure_null(&values_of_completions(view, "fan_out_index")?)
}

/// The event of the call comes after its node has started, and before that one completes.
fn event_arrives_within_node(view: &TelemetryView<'_>) -> Holds {
    let call = view.single_event(COMPLETION)?;
    let events = &view.last()?.events;
    let place = events.iter().position(|event| event_type(event) == COMPLETION);
    let of_node = |phase: &str| {
        events.iter().position(|event| match event {
            singletree::engine::GraphEvent::Node(event) => {
                event.phase.as_str() == phase && call["node_name"] == event.node_name.as_ref()
            }
            _ => false,
        })
    };
    let (started, completed) = (of_node("started"), of_node("completed"));
    let within = started.is_some() && started < place && place < completed;
    ensure(within, || format!("{started:?}, {place:?}, {completed:?}"))
}

/// The messages are told whole although the settings show no payload.
fn messages_are_told(view: &TelemetryView<'_>) -> Holds {
    let messages = view.single_event(COMPLETION)?["input_messages"].clone();
    let messages = messages.as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or("there are no messages")?;
    let shaped = messages.iter().all(|message| message["role"].is_string() && !message["content"].is_null());
    let shown =
        view.llm_spans()?.iter().any(|span| span.attributes.contains_key("openarmature.llm.input.messages"));
    ensure(shaped && !shown, || format!("they are {messages:?}"))
}

fn params_are_the_callers(view: &TelemetryView<'_>) -> Holds {
    let params = view.single_event(COMPLETION)?["request_params"].clone();
    let params = params.as_object().filter(|params| !params.is_empty()).ok_or("there are none")?;
    // A parameter that was not set is not there; none is there as nothing or as zero.
    let set = params.values().all(|value| !value.is_null() && value.as_f64() != Some(0.0));
    ensure(set && params.len() < super::super::vocabulary::REQUEST_PARAMS.len(), || format!("{params:?}"))
}

fn extras_are_a_mapping(view: &TelemetryView<'_>) -> Holds {
    let extras = view.single_event(COMPLETION)?["request_extras"].clone();
    ensure(extras.as_object().is_some_and(|extras| !extras.is_empty()), || format!("they are {extras}"))
}

/// The prompt of the event is that of the span of its call, also where there is none.
fn prompt_is_that_of_the_span(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(COMPLETION)?;
    let spans = view.llm_spans()?;
    let [span] = spans.as_slice() else { return Err("there is not one span of a call".into()) };
    for key in ["name", "version", "label", "template_hash", "rendered_hash"] {
        let told = event["active_prompt"].get(key).cloned();
        let shown = attribute(span, &format!("openarmature.prompt.{key}"));
        ensure(told == shown, || format!("{key} is {told:?} and {shown:?}"))?;
    }
    Ok(())
}

fn prompt_and_group_are_told(view: &TelemetryView<'_>) -> Holds {
    prompt_is_that_of_the_span(view)?;
    let event = view.single_event(COMPLETION)?;
    ensure(event["active_prompt"].is_object() && event["active_prompt_group"].is_object(), || {
        format!("they are {} and {}", event["active_prompt"], event["active_prompt_group"])
    })
}

fn call_ids(view: &TelemetryView<'_>) -> Result<[Value; 2], String> {
    Ok([view.single_event(COMPLETION)?["call_id"].clone(), view.single_event(FAILURE)?["call_id"].clone()])
}

fn call_ids_are_told(view: &TelemetryView<'_>) -> Holds {
    let ids = call_ids(view)?;
    ensure(ids.iter().all(|id| id.as_str().is_some_and(|id| !id.is_empty())), || format!("they are {ids:?}"))
}

fn call_ids_are_distinct(view: &TelemetryView<'_>) -> Holds {
    call_ids_are_told(view)?;
    ensure_set_and_distinct(&call_ids(view)?)
}

fn failure_finished_by_itself(view: &TelemetryView<'_>) -> Holds {
    let reason = view.single_event(FAILURE)?["finish_reason"].clone();
    ensure(reason == "stop", || format!("it is {reason}"))
}

fn failure_has_no_output(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(FAILURE)?;
    let fields = ["output_content", "finish_reason", "usage", "response_id", "response_model"];
    let set = fields.iter().find(|field| !event[**field].is_null());
    ensure(set.is_none(), || format!("{set:?} is set"))
}

fn completion_has_no_budget(view: &TelemetryView<'_>) -> Holds {
    let budget = view.single_event(COMPLETION)?["token_budget"].clone();
    ensure(budget.is_null(), || format!("it is {budget}"))
}
