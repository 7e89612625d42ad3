//! Traces and observations of Langfuse (observability §8).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use singletree_telemetry::{LangfuseTrace, ObservationLevel};

use super::super::view::{Holds, TelemetryRow, TelemetryView};
use super::calls::FAILURE;
use crate::adapt;
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("trace_id_equals_invocation_id_dashes_stripped", trace_id_is_uuid),
    ("langfuse_trace_id_is_uuid_hex_dashes_stripped", trace_id_is_uuid),
    ("langfuse_trace_id_is_sha256_first16_hex", trace_id_is_hash),
    ("raw_invocation_id_in_trace_metadata", trace_names_invocation),
    ("hooks_refire_on_resumed_trace", views_are_made_again),
    ("implementation_name_present_on_trace", trace_tells_implementation),
    ("implementation_version_present_on_trace", trace_tells_implementation),
    ("rows_emit_with_default_privacy_config", trace_tells_implementation),
    ("rows_emit_with_state_payload_enabled", trace_tells_implementation),
    ("always_emit_invariant_inherited_from_spec_5_1", trace_tells_implementation),
    ("trace_session_id_equals_supplied_session_id", session_is_told),
    ("trace_session_id_unset", session_is_unset),
    ("traces_group_into_one_langfuse_session", traces_share_session),
    ("trace_user_id_equals_metadata_userid", user_is_told),
    ("user_id_promotion_is_additive", user_is_told),
    ("trace_user_id_unset", user_is_unset),
    ("other_metadata_unaffected", metadata_is_whole),
    ("exactly_one_generation_observation_under_stream", one_generation),
    ("no_per_token_child_observations", one_generation),
    ("generation_output_is_full_assembled_content", generation_shows_answer),
    ("failed_generation_renders_error_level_and_category", generation_failed),
    ("error_level_and_category_unchanged", generation_failed),
    ("failed_generation_carries_output_usage_finish_reason", failed_generation_shows_output),
    ("output_redacted_under_payload_disabled", generation_hides_output),
    ("usage_finish_reason_and_error_level_unchanged_under_payload_disabled", failed_generation_shows_usage),
    ("generation_usage_input_omitted_when_prompt_tokens_null", null_input_is_omitted),
    ("generation_usage_output_and_total_present_when_sound", null_input_is_omitted),
    ("exceeded_flag_survives_error_precedence_on_failed_generation", failed_generation_is_over_budget),
    ("declared_bounds_present_on_failed_generation", failed_generation_is_over_budget),
    ("exceeded_flag_present_and_false_under_budget", generation_is_within_budget),
    ("no_warning_level_under_budget", generation_is_within_budget),
];

fn single_trace<'a>(view: &TelemetryView<'a>) -> Result<&'a LangfuseTrace, String> {
    match view.last()?.traces.as_slice() {
        [only] => Ok(only),
        traces => Err(format!("there are {} traces", traces.len())),
    }
}

fn invocation_id(view: &TelemetryView<'_>) -> Result<String, String> {
    view.last_run()?.invocation_id().ok_or_else(|| "nothing was invoked".into())
}

fn trace_id_is_uuid(view: &TelemetryView<'_>) -> Holds {
    let (trace, invocation) = (single_trace(view)?, invocation_id(view)?);
    let stripped = invocation.replace('-', "");
    let is_uuid = invocation.len() == 36 && stripped.len() == 32;
    ensure(is_uuid && trace.id == stripped, || format!("{} of {invocation}", trace.id))
}

fn trace_id_is_hash(view: &TelemetryView<'_>) -> Holds {
    let (trace, invocation) = (single_trace(view)?, invocation_id(view)?);
    let hash = Sha256::digest(invocation.as_bytes());
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    ensure(trace.id == hex, || format!("{} of {invocation}", trace.id))
}

fn trace_names_invocation(view: &TelemetryView<'_>) -> Holds {
    let (named, invocation) = (single_trace(view)?.metadata.get("invocation_id"), invocation_id(view)?);
    ensure(named.is_some_and(|named| *named == invocation), || format!("it names {named:?}"))
}

/// The trace of the resumed run shows the state that it began with, which the first one did not.
fn views_are_made_again(view: &TelemetryView<'_>) -> Holds {
    let inputs: Vec<&Value> =
        view.recordings().flat_map(|run| &run.traces).filter_map(|trace| trace.input.as_ref()).collect();
    let resumed = view.last_run()?.reel.visits.first().map(|visit| Value::Object(visit.pre_state.clone()));
    let same = resumed.as_ref() == inputs.last().copied();
    ensure(inputs.len() == 2 && inputs[0] != inputs[1] && same, || format!("they are {inputs:?}"))
}

fn trace_tells_implementation(view: &TelemetryView<'_>) -> Holds {
    let metadata = &single_trace(view)?.metadata;
    let name = metadata.get("implementation_name").and_then(Value::as_str);
    let version = metadata.get("implementation_version").and_then(Value::as_str);
    let canonical = adapt::harness_parameter("implementation_name");
    ensure(name == canonical && version.is_some_and(|it| !it.is_empty()), || format!("{name:?} {version:?}"))
}

fn supplied_session(view: &TelemetryView<'_>) -> Result<String, String> {
    let first = view.last_run()?.reel.visits.first().ok_or("no node ran")?;
    first.session.clone().ok_or_else(|| "there is no session".into())
}

fn session_is_told(view: &TelemetryView<'_>) -> Holds {
    let (told, supplied) = (&single_trace(view)?.session_id, supplied_session(view)?);
    ensure(told.as_ref() == Some(&supplied), || format!("it is {told:?}"))
}

fn session_is_unset(view: &TelemetryView<'_>) -> Holds {
    let told = &single_trace(view)?.session_id;
    ensure(told.is_none() && supplied_session(view).is_err(), || format!("it is {told:?}"))
}

fn traces_share_session(view: &TelemetryView<'_>) -> Holds {
    let traces: Vec<&LangfuseTrace> = view.recordings().flat_map(|run| &run.traces).collect();
    let sessions: BTreeSet<_> = traces.iter().map(|trace| trace.session_id.clone()).collect();
    let one = sessions.len() == 1 && sessions.iter().all(Option::is_some);
    ensure(traces.len() > 1 && one, || format!("{} traces in {sessions:?}", traces.len()))
}

/// The caller's user is that of the trace, and stays in its metadata.
fn user_is_told(view: &TelemetryView<'_>) -> Holds {
    let trace = single_trace(view)?;
    let said = view.last()?.baseline.get("userId").ok_or("the caller names no user")?;
    let told = trace.user_id.as_ref() == Some(said) && trace.metadata.get("userId") == Some(said);
    ensure(told, || format!("it is {:?}", trace.user_id))
}

fn user_is_unset(view: &TelemetryView<'_>) -> Holds {
    let trace = single_trace(view)?;
    let unset = trace.user_id.is_none() && !trace.metadata.contains_key("userId");
    ensure(unset, || format!("it is {:?}", trace.user_id))
}

fn metadata_is_whole(view: &TelemetryView<'_>) -> Holds {
    let trace = single_trace(view)?;
    let said = &view.last()?.baseline;
    let own = ["correlation_id", "entry_node", "spec_version"];
    let whole = !said.is_empty()
        && said.iter().all(|(key, value)| trace.metadata.get(key) == Some(value))
        && own.iter().all(|key| trace.metadata.contains_key(*key));
    ensure(whole, || format!("it is {:?}", trace.metadata))
}

fn one_generation(view: &TelemetryView<'_>) -> Holds {
    let generation = view.single_generation()?;
    ensure(generation.children.is_empty(), || "it has observations inside".into())
}

fn generation_shows_answer(view: &TelemetryView<'_>) -> Holds {
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    let shown = &view.single_generation()?.output;
    let whole = json!(answer.message.text());
    ensure(shown.as_ref() == Some(&whole), || format!("it shows {shown:?}"))
}

fn generation_failed(view: &TelemetryView<'_>) -> Holds {
    let generation = view.single_generation()?;
    let category = view.single_event(FAILURE)?["error_category"].clone();
    let told = generation.status_message.as_ref().is_some_and(|message| category == message.as_str());
    ensure(generation.level == ObservationLevel::Error && told, || {
        format!("{:?}: {:?}", generation.level, generation.status_message)
    })
}

fn failed_generation_shows_usage(view: &TelemetryView<'_>) -> Holds {
    generation_failed(view)?;
    let generation = view.single_generation()?;
    let counted = ["input", "output", "total"].iter().all(|counter| generation.usage.contains_key(*counter));
    ensure(counted && generation.metadata.contains_key("finish_reason"), || "something is missing".into())
}

fn failed_generation_shows_output(view: &TelemetryView<'_>) -> Holds {
    failed_generation_shows_usage(view)?;
    let told = view.single_event(FAILURE)?["output_content"].clone();
    let shown = &view.single_generation()?.output;
    ensure(!told.is_null() && shown.as_ref() == Some(&told), || format!("it shows {shown:?}"))
}

fn generation_hides_output(view: &TelemetryView<'_>) -> Holds {
    let told = view.single_event(FAILURE)?["output_content"].clone();
    let generation = view.single_generation()?;
    ensure(told.is_string() && generation.output.is_none() && generation.input.is_none(), || {
        format!("it shows {:?}", generation.output)
    })
}

fn null_input_is_omitted(view: &TelemetryView<'_>) -> Holds {
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    ensure(answer.usage.prompt_tokens.is_none(), || "it was counted".into())?;
    let usage = &view.single_generation()?.usage;
    let right = !usage.contains_key("input") && usage.contains_key("output") && usage.contains_key("total");
    ensure(right, || format!("it is {usage:?}"))
}

fn failed_generation_is_over_budget(view: &TelemetryView<'_>) -> Holds {
    generation_failed(view)?;
    let metadata = &view.single_generation()?.metadata;
    let declared = view.single_event(FAILURE)?["token_budget"]["input_max_tokens"].clone();
    let told = metadata.get("token_budget").map(|budget| &budget["input_max_tokens"]);
    let exceeded = metadata.get("token_budget_exceeded") == Some(&Value::Bool(true));
    ensure(exceeded && !declared.is_null() && told == Some(&declared), || format!("it is {metadata:?}"))
}

fn generation_is_within_budget(view: &TelemetryView<'_>) -> Holds {
    let generation = view.single_generation()?;
    let exceeded = generation.metadata.get("token_budget_exceeded");
    let within = exceeded == Some(&Value::Bool(false)) && generation.level == ObservationLevel::Default;
    ensure(within, || format!("{exceeded:?}, {:?}", generation.level))
}
