//! Expectations about one invocation (conformance-adapter §5.8): each key is asserted, an unknown one is an error.

mod stored;
mod witnessed;

use serde_json::{Value, json};
use singletree::engine::{AttemptPhase, DrainSummary, RunOutcome as Ended, Snapshot, Subscription};

use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::checkpoints::check_resumption_key;
use crate::errors;
use crate::events;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::observers::RUNNERS;
use crate::paused::CasePausedStore;
use crate::predicates::check_event_predicates;
use crate::run::{InvocationResult, InvocationSpec};
use crate::sessions::{RecordingSessionStore, state_to_json};
use crate::tape::SessionStoreCall;
use crate::telemetry::{TelemetryContext, TelemetryRuntime, check_telemetry_key, is_telemetry_key};

/// The data against which expectations are checked, besides the run.
#[derive(Debug)]
pub(crate) struct ExpectationContext<'a> {
    /// The invocation as the fixture describes it.
    pub(crate) spec: &'a InvocationSpec,
    /// The names of the observers.
    pub(crate) observers: &'a [String],
    /// The fields that get records of failures.
    pub(crate) error_fields: &'a [String],
    /// The fields that no fixture declares.
    pub(crate) made_fields: &'a [String],
    /// The session store, when there is one.
    pub(crate) store: Option<&'a RecordingSessionStore>,
    /// The suspended invocations, when there is a store of them.
    pub(crate) paused: Option<&'a CasePausedStore>,
    /// The record that the invocation goes on from, when it does.
    pub(crate) record: Option<&'a Value>,
    /// The recorders of telemetry, when there are some.
    pub(crate) telemetry: Option<&'a TelemetryRuntime>,
}

/// Asserts everything that a fixture expects of a run, and that it ended as it should. Returns the invariants that
/// stand among the expectations.
pub(crate) async fn check_run(
    checker: &mut AssertionChecker,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Vec<LocatedNode> {
    check_run_ending(checker, run, around.spec);
    let mut invariants = Vec::new();
    for (key, spot) in &around.spec.expected {
        let (key, spot) = (key.as_str(), spot.clone());
        if key == "invariants" {
            invariants.push(spot);
            continue;
        }
        let checked = match key {
            "store_after" => {
                let of = (around.spec.session.as_deref(), around.store);
                stored::check_store_after_run(checker, spot, run, of).await
            }
            "checkpointer_assertions" => check_paused_record(checker, spot, run, around.paused).await,
            "observer_events"
            | "delivery_order"
            | "observer_event_invariants"
            | "final_accumulator_state" => check_events_key(checker, key, spot, run, around),
            "node_drain_summaries"
            | "node_accumulator_snapshots"
            | "node_accumulator_snapshot_invariants" => check_node_drains(checker, key, spot, run),
            "otel_spans" if !names_observers(&spot, around.observers) => {
                Err(CaseFailure::reader_error(&spot.path, "no observer is called so"))
            }
            _ if is_telemetry_key(key) => match around.telemetry {
                Some(runtime) => {
                    let counted = around.spec.expectation("detached_trace_count").is_some();
                    let runs = &[run];
                    let context = TelemetryContext { runtime, runs, are_detached_counted: counted };
                    check_telemetry_key(checker, key, spot, context)
                }
                None => Err(CaseFailure::reader_error(&spot.path, "nothing was invoked")),
            },
            _ if check_session_key(checker, key, &spot, run) => Ok(()),
            _ if check_resumption_key(checker, key, &spot, (run, around.record)) => Ok(()),
            _ => match witnessed::check_middleware_key(checker, key, &spot, run) {
                Ok(false) => check_run_key(checker, key, spot, run, around),
                told => told.map(drop),
            },
        };
        checker.unwrap_or_record(checked);
    }
    invariants
}

/// Tells whether the keys of a map are names of observers.
fn names_observers(spot: &LocatedNode, observers: &[String]) -> bool {
    let Ok(mut named) = spot.clone().into_map_reader() else { return false };
    std::iter::from_fn(|| named.take_next_entry()).all(|(name, _)| observers.contains(&name))
}

/// Asserts how the run ended; a fixture that says nothing expects it to complete.
fn check_run_ending(checker: &mut AssertionChecker, run: &InvocationResult, spec: &InvocationSpec) {
    let stated = spec.expectation("outcome").is_some() || spec.expectation("expected_error").is_some();
    if stated || adapt::states_ending_by_span(spec) {
        return;
    }
    let why = match &run.ended {
        Ok(Ended::Completed(_)) => return,
        Ok(Ended::Suspended(it)) => format!("it suspended at node '{}'", it.node_name),
        Err(error) => format!("it failed: {}", errors::describe_error(error)),
    };
    checker.check_result(&format!("{} (completes)", spec.path()), Err(why));
}

fn optional_state_to_json(snapshot: Option<&Snapshot>) -> Value {
    match snapshot.map(Snapshot::to_json) {
        Some(Ok(map)) => Value::Object(map),
        Some(Err(error)) => json!({"unreadable": error.to_string()}),
        None => Value::Null,
    }
}

/// The state of a run that ended in a certain way; null when it ended in another.
fn state_json_if_ended(run: &InvocationResult, word: &str) -> Value {
    if run.outcome_word() == word {
        optional_state_to_json(run.last_state())
    } else {
        json!({"ended": run.outcome_word()})
    }
}

fn check_outcome(checker: &mut AssertionChecker, spot: &LocatedNode, run: &InvocationResult) -> Outcome<()> {
    let wanted = spot.as_text()?;
    if !["completed", "suspended", "errored"].contains(&wanted) {
        return Err(CaseFailure::reader_error(&spot.path, format!("unknown outcome '{wanted}'")));
    }
    checker.check_exact(spot, run.outcome_word());
    if let (Err(error), "completed" | "suspended") = (&run.ended, wanted) {
        checker.check_result(&spot.path, Err(errors::describe_error(error)));
    }
    Ok(())
}

fn check_run_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Outcome<()> {
    match key {
        "outcome" => return check_outcome(checker, &spot, run),
        "final_state" | "expected_final_state" => {
            let beside = adapt::RunnerAnnotations {
                noted: &run.reel.beside,
                errors: around.error_fields,
                made: around.made_fields,
            };
            let actual = adapt::align_final_state(&spot, state_json_if_ended(run, "completed"), beside);
            checker.check_exact(&spot, actual);
        }
        "suspended_state" => checker.check_exact(&spot, state_json_if_ended(run, "suspended")),
        // pipeline-utilities 033 names the state beside the error.
        "final_state_at_error" | "recoverable_state" => {
            checker.check_exact(&spot, state_json_if_ended(run, "errored"))
        }
        "execution_order" => checker.check_exact(&spot, run.reel.execution_order()),
        "expected_error" | "error" => {
            return errors::check_error(checker, spot, run, key == "expected_error");
        }
        "no_propagated_error" => {
            let propagated = run.ended.as_ref().map(drop).map_err(errors::describe_error);
            checker.check_truth(&spot, propagated);
        }
        "empty_phases_raises_at_registration" => checker.check_truth(&spot, ensure_empty_phases_refused()),
        "descriptor" => return check_suspension_descriptor(checker, spot, run),
        "suspending_node" => match &run.ended {
            // R15: the node of the outermost graph that is suspended as a consequence.
            Ok(Ended::Suspended(it)) => checker.check_exact(&spot, it.outermost_node_name()),
            _ => checker.check_result(&spot.path, Err(format!("it {}", run.outcome_word()))),
        },
        "drain_summary" => match &run.drained {
            Some(drained) => return check_drain_summary(checker, spot, &drained.summary),
            None => return Err(CaseFailure::reader_error(&spot.path, "the invocation asks for no drain")),
        },
        "dev.singletree.drain_refused" => {
            checker.check_truth(&spot, ensure(run.drain_refused.is_some(), || "the limit is a time".into()));
        }
        "migrations_run" => checker.check_exact(&spot, run.reel.migrations.clone()),
        "inner_pre_state" => {
            let inner = run.reel.visits.iter().find(|visit| visit.namespace.len() > 1);
            checker.check_exact(
                &spot,
                inner.map_or(Value::Null, |inner| Value::Object(inner.pre_state.clone())),
            );
        }
        other => match other.strip_prefix("loaded_invoke_state_for_") {
            Some(field) => {
                let first = run.reel.visits.first().map(|visit| &visit.pre_state);
                checker.check_exact(
                    &spot,
                    first.and_then(|first| first.get(field)).cloned().unwrap_or_default(),
                );
            }
            None => return Err(unknown_key("expected", other, spot.node.line)),
        },
    }
    Ok(())
}

fn ensure_empty_phases_refused() -> Result<(), String> {
    struct SilentObserver;
    impl singletree::engine::Observer for SilentObserver {
        fn observe_event<'a>(
            &'a self,
            _event: &'a singletree::engine::GraphEvent,
        ) -> singletree::durable::BoxFuture<'a, Result<(), singletree::durable::BoxError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let made = Subscription::new(SilentObserver).limit_to_phases(Vec::<AttemptPhase>::new());
    ensure(made.is_err(), || "an observer of no phase was registered".into())
}

/// Asserts a signal descriptor: exactly, or its metadata as a subset.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn check_signal_descriptor(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &singletree::engine::Descriptor,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    checker.check_exact(&wanted.take_required("signal_id")?, actual.signal_id.clone());
    let metadata = actual.metadata.clone().unwrap_or_default();
    if let Some(exact) = wanted.take_value("metadata") {
        checker.check_exact(&exact, metadata.clone());
    }
    if let Some(part) = wanted.take_value("metadata_includes") {
        checker.check_value(&part, &metadata, ExtraKeyPolicy::Allowed);
    }
    wanted.reject_remaining_keys()
}

fn check_suspension_descriptor(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    match &run.ended {
        Ok(Ended::Suspended(it)) => check_signal_descriptor(checker, spot, &it.descriptor),
        _ => {
            checker.check_result(&spot.path, Err(format!("it {}", run.outcome_word())));
            Ok(())
        }
    }
}

fn check_drain_summary(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &DrainSummary,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    // spec: conformance-adapter §5.8: a summary has both its parts.
    let counts = wanted.remaining_keys().any(|it| it.starts_with("undelivered_count"));
    checker.check_result(
        wanted.path(),
        ensure(counts, || "the summary does not say how many events are left".into()),
    );
    checker.check_exact(&wanted.take_required("timeout_reached")?, actual.timeout_reached);
    if let Some(it) = wanted.take_value("undelivered_count") {
        checker.check_exact(&it, actual.undelivered_count);
    }
    if let Some(it) = wanted.take_value("undelivered_count_min") {
        let (min, count) = (it.as_integer()?, actual.undelivered_count);
        let enough = i64::try_from(count).is_ok_and(|it| it >= min);
        checker.check_result(&it.path, ensure(enough, || format!("expected at least {min}, found {count}")));
    }
    wanted.reject_remaining_keys()
}

fn check_events_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Outcome<()> {
    match key {
        "delivery_order" => events::check_delivery_order(checker, spot, &run.reel.deliveries),
        "observer_event_invariants" => {
            let only = around.observers.first();
            let only = only.ok_or_else(|| CaseFailure::reader_error(&spot.path, "there is no observer"))?;
            check_event_predicates(checker, spot, &events::events_received_by(&run.reel, only))
        }
        // pipeline-utilities 011 lists the events of no observer in particular.
        "observer_events" if spot.clone().into_items().is_ok() => {
            events::check_event_list(checker, spot, &events::events_received_by(&run.reel, RUNNERS))
        }
        _ => events::check_events_by_observer(checker, spot, around.observers, |it| {
            events::events_received_by(&run.reel, it)
        }),
    }
}

fn check_node_drains(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let mut nodes = spot.into_map_reader()?;
    while let Some((node, wanted)) = nodes.take_next_entry() {
        let Some(drain) = run.reel.drains.iter().find(|drain| drain.node == node) else {
            checker.check_result(&wanted.path, Err(format!("node '{node}' drained nothing")));
            continue;
        };
        if key == "node_drain_summaries" {
            check_drain_summary(checker, wanted, &drain.summary)?;
            continue;
        }
        let mut observers = wanted.into_map_reader()?;
        while let Some((observer, list)) = observers.take_next_entry() {
            match &drain.snapshot {
                Some((name, events)) if *name == observer && key == "node_accumulator_snapshots" => {
                    events::check_event_list(checker, list, events)?;
                }
                Some((name, events)) if *name == observer => check_event_predicates(checker, list, events)?,
                _ => {
                    return Err(CaseFailure::reader_error(
                        &list.path,
                        format!("'{observer}' is not what the node notes"),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Asserts the expectation under a key about sessions. Returns false when the key is about something else.
fn check_session_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    run: &InvocationResult,
) -> bool {
    let (loads, saves) = (run.reel.load_count(), run.reel.saved_records().count());
    let none =
        |what: &str, count: usize| ensure(count == 0, || format!("the store was called: {count} {what}"));
    match key {
        "no_session_load" => checker.check_truth(spot, none("loads", loads)),
        "no_session_save" => checker.check_truth(spot, none("saves", saves)),
        "store_untouched" => checker.check_truth(spot, none("calls", loads + saves)),
        "no_auto_save_on_end" => {
            let auto = saves.saturating_sub(run.reel.explicit_saves);
            checker.check_truth(spot, none("saves that no node asked for", auto));
        }
        "loaded_session_state" => {
            let loaded = run.reel.calls.iter().find_map(|call| match call {
                SessionStoreCall::Load(found) => Some(found),
                SessionStoreCall::Save(_) => None,
            });
            let state = match loaded {
                None => return record_absence(checker, spot, "the session was not loaded"),
                Some(None) => Some(Value::Null),
                Some(Some(record)) => checker.unwrap_or_record(state_to_json(record)),
            };
            if let Some(state) = state {
                checker.check_exact(spot, state);
            }
        }
        "saved_session_assertions" => match run.reel.saved_records().next_back() {
            None => return record_absence(checker, spot, "the session was not saved"),
            Some(record) => {
                let checked = state_to_json(record).and_then(|state| {
                    check_saved_record(checker, spot.clone(), run, (&record.schema_version, state))
                });
                checker.unwrap_or_record(checked);
            }
        },
        _ => return false,
    }
    true
}

/// Asserts the record of a suspended invocation, which has its own store (R16): the records of a checkpointer have
/// another type.
async fn check_paused_record(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    paused: Option<&CasePausedStore>,
) -> Outcome<()> {
    let record = match (paused, run.invocation_id()) {
        (Some(paused), Some(id)) => paused.load_record(&id).await,
        _ => Err("nothing was invoked".into()),
    };
    let record = record.map_err(|error| CaseFailure::build_error(&spot.path, error))?;
    let mut wanted = spot.into_map_reader()?;
    if let Some(it) = wanted.take_value("paused_invocation_record_exists") {
        checker.check_truth(&it, ensure(record.is_some(), || "there is no record".into()));
    }
    if let Some(it) = wanted.take_value("record_type") {
        let status = record.map(|record| serde_json::to_value(record.status).unwrap_or_default());
        checker.check_exact(&it, status);
    }
    wanted.reject_remaining_keys()
}

fn record_absence(checker: &mut AssertionChecker, spot: &LocatedNode, what: &str) -> bool {
    checker.check_result(&spot.path, Err(what.into()));
    true
}

/// Asserts that fields of the state were not saved. A field that the state does not have at all is a fixture's mistake.
fn check_excluded_fields(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (saved, declared): (&Value, &[String]),
) -> Outcome<()> {
    let path = spot.path.clone();
    for field in spot.into_distinct_texts()? {
        let known = ensure(declared.contains(&field), || format!("the state has no field '{field}'"));
        let outside =
            known.and_then(|()| ensure(saved.get(&field).is_none(), || format!("field '{field}' was saved")));
        checker.check_result(&path, outside);
    }
    Ok(())
}

fn check_saved_record(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    (version, state): (&str, Value),
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    if let Some(it) = wanted.take_value("schema_version") {
        checker.check_exact(&it, version);
    }
    if let Some(it) = wanted.take_value("excludes_fields") {
        check_excluded_fields(checker, it, (&state, &run.declared_fields()))?;
    }
    if let Some(it) = wanted.take_value("state_includes") {
        checker.check_value(&it, &state, ExtraKeyPolicy::Allowed);
    }
    if let Some(it) = wanted.take_value("state") {
        checker.check_exact(&it, state);
    }
    wanted.reject_remaining_keys()
}
