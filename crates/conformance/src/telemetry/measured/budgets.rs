//! Token budgets (observability §5.5.15).

use singletree_telemetry::MetricInstrument;

use super::super::expect::{attribute, single_llm_span};
use super::super::view::{Holds, TelemetryRow, TelemetryView};
use super::calls::{COMPLETION, FAILURE};
use super::metrics::measured;
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("no_token_budget_instrument_observations_when_no_budget", no_bound),
    ("no_token_budget_instrument_observations_without_usage", no_bound),
    ("token_budget_populated_but_not_evaluated_without_usage", failure_tells_budget_alone),
    ("input_bound_not_evaluated_when_prompt_tokens_null", no_input_bound),
    ("no_input_kind_budget_observation_when_prompt_tokens_null", no_input_bound),
    ("no_token_budget_instrument_observation_for_unevaluable_input_bound", no_bound),
    ("exceeded_span_signal_absent_not_false_when_only_bound_unevaluable", no_signal),
    ("exceeded_span_signal_absent_not_false", no_signal),
    ("total_bound_evaluated_when_total_tokens_sound", total_bound),
];

const KIND: &str = "openarmature.gen_ai.token_budget.kind";
const EXCEEDED: &str = "openarmature.llm.token_budget.exceeded";

/// Returns the kinds of bounds that were evaluated.
fn evaluated_kinds(view: &TelemetryView<'_>) -> Result<Vec<String>, String> {
    let exceeded = measured(view, MetricInstrument::TokenBudgetExceeded)?;
    let used = measured(view, MetricInstrument::TokenBudgetUtilization)?;
    let both = exceeded.into_iter().chain(used);
    Ok(both.filter_map(|measurement| measurement.dimensions.get(KIND).cloned()).collect())
}

fn no_bound(view: &TelemetryView<'_>) -> Holds {
    let kinds = evaluated_kinds(view)?;
    ensure(kinds.is_empty(), || format!("{kinds:?} were evaluated"))
}

/// The bound of the input is declared, its counter is null, and nothing was evaluated of it.
pub(super) fn no_input_bound(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(COMPLETION)?;
    let declared = !event["token_budget"]["input_max_tokens"].is_null();
    ensure(declared && event["usage"]["prompt_tokens"].is_null(), || format!("it is {event}"))?;
    let kinds = evaluated_kinds(view)?;
    ensure(!kinds.iter().any(|kind| kind == "input"), || format!("{kinds:?} were evaluated"))
}

fn no_signal(view: &TelemetryView<'_>) -> Holds {
    let signal = attribute(single_llm_span(view.last()?)?, EXCEEDED);
    ensure(signal.is_none(), || format!("it is {signal:?}"))
}

fn total_bound(view: &TelemetryView<'_>) -> Holds {
    let kinds = evaluated_kinds(view)?;
    ensure(!kinds.is_empty() && kinds.iter().all(|kind| kind == "total"), || format!("{kinds:?}"))
}

fn failure_tells_budget_alone(view: &TelemetryView<'_>) -> Holds {
    let event = view.single_event(FAILURE)?;
    ensure(event["token_budget"].is_object() && event["usage"].is_null(), || format!("it is {event}"))?;
    no_signal(view)?;
    no_bound(view)
}
