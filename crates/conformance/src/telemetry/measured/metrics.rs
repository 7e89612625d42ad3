//! Measurements of tokens and times (observability §11).

use singletree_telemetry::{CallMeasurement, MetricInstrument};

use super::super::view::{Holds, TelemetryRow, TelemetryView};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("two_token_usage_observations_input_and_output", tokens_are_measured),
    ("token_usage_recorded_on_structured_output_failure", tokens_are_measured),
    ("one_duration_observation_per_call", one_duration),
    ("duration_value_not_asserted", one_duration),
    ("errored_call_records_duration_with_error_type", duration_has_error_type),
    ("duration_records_error_type_on_failure", duration_has_error_type),
    ("no_token_usage_observation_on_failure", no_tokens),
    ("no_input_token_usage_observation_when_prompt_tokens_null", no_input_tokens),
    ("no_input_token_usage_observation", no_input_tokens),
    ("output_token_usage_observation_recorded_when_completion_sound", output_tokens),
];

const TOKEN_TYPE: &str = "openarmature.gen_ai.token.type";

/// Returns the measurements of an instrument.
pub(super) fn measured<'a>(
    view: &TelemetryView<'a>,
    instrument: MetricInstrument,
) -> Result<Vec<&'a CallMeasurement>, String> {
    let all = &view.last()?.measurements;
    ensure(!all.is_empty(), || "nothing was measured".into())?;
    Ok(all.iter().filter(|measurement| measurement.instrument == instrument).collect())
}

fn token_types(view: &TelemetryView<'_>) -> Result<Vec<String>, String> {
    let tokens = measured(view, MetricInstrument::TokenUsage)?;
    let mut types: Vec<String> =
        tokens.iter().filter_map(|measurement| measurement.dimensions.get(TOKEN_TYPE).cloned()).collect();
    types.sort_unstable();
    Ok(types)
}

fn tokens_are_measured(view: &TelemetryView<'_>) -> Holds {
    let types = token_types(view)?;
    ensure(types == ["input", "output"], || format!("they are {types:?}"))
}

fn one_duration(view: &TelemetryView<'_>) -> Holds {
    let durations = measured(view, MetricInstrument::OperationDuration)?;
    ensure(durations.len() == 1 && durations[0].value >= 0.0, || format!("they are {durations:?}"))
}

fn duration_has_error_type(view: &TelemetryView<'_>) -> Holds {
    one_duration(view)?;
    let durations = measured(view, MetricInstrument::OperationDuration)?;
    let Err(error) = &view.last_run()?.ended else { return Err("the invocation did not fail".into()) };
    let told = durations[0].dimensions.get("error.type");
    ensure(told.is_some_and(|told| told == error.derived_category()), || format!("it is {told:?}"))
}

fn no_tokens(view: &TelemetryView<'_>) -> Holds {
    let types = token_types(view)?;
    ensure(types.is_empty(), || format!("they are {types:?}"))
}

/// No tokens of the input are measured.
pub(super) fn no_input_tokens(view: &TelemetryView<'_>) -> Holds {
    let types = token_types(view)?;
    ensure(!types.iter().any(|name| name == "input"), || format!("they are {types:?}"))
}

fn output_tokens(view: &TelemetryView<'_>) -> Holds {
    let types = token_types(view)?;
    ensure(types.iter().any(|name| name == "output"), || format!("they are {types:?}"))
}
