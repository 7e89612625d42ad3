//! Expectations about one invocation (conformance-adapter §5.8): each key is asserted, an unknown one is an error.

mod stored;
mod witnessed;

use serde_json::{Value, json};
use singletree::engine::{AttemptPhase, DrainSummary, RunOutcome as Ended, Snapshot, Subscription};

use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::checkpoints::of_resume;
use crate::errors;
use crate::events;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown};
use crate::matcher::ExtraKeyPolicy;
use crate::observers::RUNNERS;
use crate::paused::CasePausedStore;
use crate::predicates::predicates;
use crate::run::{InvocationResult, InvocationSpec};
use crate::sessions::{RecordingSessionStore, state_of};
use crate::tape::SessionStoreCall;

/// The data against which expectations are checked, besides the run.
#[derive(Debug)]
pub(crate) struct ExpectationContext<'a> {
    /// The invocation as the fixture describes it.
    pub(crate) spec: &'a InvocationSpec,
    /// The names of the observers.
    pub(crate) observers: &'a [String],
    /// The fields that get records of failures.
    pub(crate) error_fields: &'a [String],
    /// The session store, when there is one.
    pub(crate) store: Option<&'a RecordingSessionStore>,
    /// The suspended invocations, when there is a store of them.
    pub(crate) paused: Option<&'a CasePausedStore>,
    /// The record that the invocation goes on from, when it does.
    pub(crate) record: Option<&'a Value>,
}

/// Asserts everything that a fixture expects of a run, and that it ended as it should. Returns the invariants that
/// stand among the expectations.
pub(crate) async fn expect(
    checker: &mut AssertionChecker,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Vec<LocatedNode> {
    expect_end(checker, run, around.spec);
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
                stored::store_after(checker, spot, run, of).await
            }
            "checkpointer_assertions" => paused_record(checker, spot, run, around.paused).await,
            "observer_events"
            | "delivery_order"
            | "observer_event_invariants"
            | "final_accumulator_state" => of_events(checker, key, spot, run, around),
            "node_drain_summaries"
            | "node_accumulator_snapshots"
            | "node_accumulator_snapshot_invariants" => of_node_drains(checker, key, spot, run),
            _ if of_sessions(checker, key, &spot, run) => Ok(()),
            _ if of_resume(checker, key, &spot, (run, around.record)) => Ok(()),
            _ => match witnessed::of_middleware(checker, key, &spot, run) {
                Ok(false) => of_run(checker, key, spot, run, around),
                told => told.map(drop),
            },
        };
        checker.take(checked);
    }
    invariants
}

/// Asserts how the run ended; a fixture that says nothing expects it to complete.
fn expect_end(checker: &mut AssertionChecker, run: &InvocationResult, spec: &InvocationSpec) {
    if spec.expects("outcome").is_some() || spec.expects("expected_error").is_some() {
        return;
    }
    let why = match &run.ended {
        Ok(Ended::Completed(_)) => return,
        Ok(Ended::Suspended(it)) => format!("it suspended at node '{}'", it.node_name),
        Err(error) => format!("it failed: {}", errors::told(error)),
    };
    checker.holds(&format!("{} (completes)", spec.path()), Err(why));
}

fn state(snapshot: Option<&Snapshot>) -> Value {
    match snapshot.map(Snapshot::to_json) {
        Some(Ok(map)) => Value::Object(map),
        Some(Err(error)) => json!({"unreadable": error.to_string()}),
        None => Value::Null,
    }
}

/// The state of a run that ended in a certain way; null when it ended in another.
fn state_if(run: &InvocationResult, word: &str) -> Value {
    if run.word() == word { state(run.state()) } else { json!({"ended": run.word()}) }
}

fn of_run(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Outcome<()> {
    match key {
        "outcome" => {
            let known = ["completed", "suspended", "errored"];
            if !known.contains(&spot.text()?) {
                return Err(CaseFailure::reader(&spot.path, format!("unknown outcome '{}'", spot.text()?)));
            }
            let ended = run.word().to_owned();
            checker.exactly(&spot, ended);
            if let (Err(error), Ok("completed" | "suspended")) = (&run.ended, spot.text()) {
                checker.holds(&spot.path, Err(errors::told(error)));
            }
        }
        "final_state" | "expected_final_state" => {
            let beside = adapt::RunnerAnnotations { noted: &run.reel.beside, errors: around.error_fields };
            let actual = adapt::final_state(&spot, state_if(run, "completed"), beside);
            checker.exactly(&spot, actual);
        }
        "suspended_state" => checker.exactly(&spot, state_if(run, "suspended")),
        // pipeline-utilities 033 names the state beside the error.
        "final_state_at_error" | "recoverable_state" => checker.exactly(&spot, state_if(run, "errored")),
        "execution_order" => checker.exactly(&spot, run.reel.order()),
        "expected_error" | "error" => return errors::expect(checker, spot, run, key == "expected_error"),
        "no_propagated_error" => {
            let propagated = run.ended.as_ref().map(drop).map_err(errors::told);
            checker.truth(&spot, propagated);
        }
        "empty_phases_raises_at_registration" => checker.truth(&spot, empty_phases_are_refused()),
        "descriptor" => return descriptor(checker, spot, run),
        "suspending_node" => match &run.ended {
            // R15: the node of the outermost graph that is suspended as a consequence.
            Ok(Ended::Suspended(it)) => checker.exactly(&spot, it.outer_node()),
            _ => checker.holds(&spot.path, Err(format!("it {}", run.word()))),
        },
        "drain_summary" => match &run.drained {
            Some(drained) => return summary(checker, spot, &drained.summary),
            None => return Err(CaseFailure::reader(&spot.path, "the invocation asks for no drain")),
        },
        "dev.singletree.drain_refused" => {
            checker.truth(&spot, ensure(run.drain_refused.is_some(), || "the limit is a time".into()));
        }
        "migrations_run" => checker.exactly(&spot, run.reel.migrations.clone()),
        "inner_pre_state" => {
            let inner = run.reel.visits.iter().find(|visit| visit.namespace.len() > 1);
            checker.exactly(&spot, inner.map_or(Value::Null, |inner| Value::Object(inner.pre_state.clone())));
        }
        other => match other.strip_prefix("loaded_invoke_state_for_") {
            Some(field) => {
                let first = run.reel.visits.first().map(|visit| &visit.pre_state);
                checker.exactly(&spot, first.and_then(|first| first.get(field)).cloned().unwrap_or_default());
            }
            None => return Err(unknown("expected", other, spot.node.line)),
        },
    }
    Ok(())
}

fn empty_phases_are_refused() -> Result<(), String> {
    struct SilentObserver;
    impl singletree::engine::Observer for SilentObserver {
        fn observe<'a>(
            &'a self,
            _event: &'a singletree::engine::GraphEvent,
        ) -> singletree::durable::BoxFuture<'a, Result<(), singletree::durable::BoxError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let made = Subscription::new(SilentObserver).phases(Vec::<AttemptPhase>::new());
    ensure(made.is_err(), || "an observer of no phase was registered".into())
}

/// Asserts a signal descriptor: exactly, or its metadata as a subset.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn signal_descriptor(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &singletree::engine::Descriptor,
) -> Outcome<()> {
    let mut wanted = spot.fields()?;
    checker.exactly(&wanted.need("signal_id")?, actual.signal_id.clone());
    let metadata = actual.metadata.clone().unwrap_or_default();
    if let Some(exact) = wanted.take("metadata") {
        checker.exactly(&exact, metadata.clone());
    }
    if let Some(part) = wanted.take("metadata_includes") {
        checker.value(&part, &metadata, ExtraKeyPolicy::Allowed);
    }
    wanted.finish()
}

fn descriptor(checker: &mut AssertionChecker, spot: LocatedNode, run: &InvocationResult) -> Outcome<()> {
    match &run.ended {
        Ok(Ended::Suspended(it)) => signal_descriptor(checker, spot, &it.descriptor),
        _ => {
            checker.holds(&spot.path, Err(format!("it {}", run.word())));
            Ok(())
        }
    }
}

fn summary(checker: &mut AssertionChecker, spot: LocatedNode, actual: &DrainSummary) -> Outcome<()> {
    let mut wanted = spot.fields()?;
    // spec: conformance-adapter §5.8: a summary has both its parts.
    let counts = wanted.keys().any(|it| it.starts_with("undelivered_count"));
    checker
        .holds(wanted.path(), ensure(counts, || "the summary does not say how many events are left".into()));
    checker.exactly(&wanted.need("timeout_reached")?, actual.timeout_reached);
    if let Some(it) = wanted.take("undelivered_count") {
        checker.exactly(&it, actual.undelivered_count);
    }
    if let Some(it) = wanted.take("undelivered_count_min") {
        let (min, count) = (it.whole()?, actual.undelivered_count);
        let enough = i64::try_from(count).is_ok_and(|it| it >= min);
        checker.holds(&it.path, ensure(enough, || format!("expected at least {min}, found {count}")));
    }
    wanted.finish()
}

fn of_events(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
    around: &ExpectationContext<'_>,
) -> Outcome<()> {
    match key {
        "delivery_order" => events::delivery_order(checker, spot, &run.reel.deliveries),
        "observer_event_invariants" => {
            let only = around.observers.first();
            let only = only.ok_or_else(|| CaseFailure::reader(&spot.path, "there is no observer"))?;
            predicates(checker, spot, &events::taken(&run.reel, only))
        }
        // pipeline-utilities 011 lists the events of no observer in particular.
        "observer_events" if spot.clone().items().is_ok() => {
            events::event_list(checker, spot, &events::taken(&run.reel, RUNNERS))
        }
        _ => events::by_observer(checker, spot, around.observers, |it| events::taken(&run.reel, it)),
    }
}

fn of_node_drains(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let mut nodes = spot.fields()?;
    while let Some((node, wanted)) = nodes.next() {
        let Some(drain) = run.reel.drains.iter().find(|drain| drain.node == node) else {
            checker.holds(&wanted.path, Err(format!("node '{node}' drained nothing")));
            continue;
        };
        if key == "node_drain_summaries" {
            summary(checker, wanted, &drain.summary)?;
            continue;
        }
        let mut observers = wanted.fields()?;
        while let Some((observer, list)) = observers.next() {
            match &drain.snapshot {
                Some((name, events)) if *name == observer && key == "node_accumulator_snapshots" => {
                    events::event_list(checker, list, events)?;
                }
                Some((name, events)) if *name == observer => predicates(checker, list, events)?,
                _ => {
                    return Err(CaseFailure::reader(
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
fn of_sessions(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    run: &InvocationResult,
) -> bool {
    let (loads, saves) = (run.reel.loads(), run.reel.saves().count());
    let none =
        |what: &str, count: usize| ensure(count == 0, || format!("the store was called: {count} {what}"));
    match key {
        "no_session_load" => checker.truth(spot, none("loads", loads)),
        "no_session_save" => checker.truth(spot, none("saves", saves)),
        "store_untouched" => checker.truth(spot, none("calls", loads + saves)),
        "no_auto_save_on_end" => {
            let auto = saves.saturating_sub(run.reel.explicit_saves);
            checker.truth(spot, none("saves that no node asked for", auto));
        }
        "loaded_session_state" => {
            let loaded = run.reel.calls.iter().find_map(|call| match call {
                SessionStoreCall::Load(found) => Some(found),
                SessionStoreCall::Save(_) => None,
            });
            let state = match loaded {
                None => return absent(checker, spot, "the session was not loaded"),
                Some(None) => Some(Value::Null),
                Some(Some(record)) => checker.take(state_of(record)),
            };
            if let Some(state) = state {
                checker.exactly(spot, state);
            }
        }
        "saved_session_assertions" => match run.reel.saves().next_back() {
            None => return absent(checker, spot, "the session was not saved"),
            Some(record) => {
                let checked = state_of(record)
                    .and_then(|state| saved(checker, spot.clone(), run, (&record.schema_version, state)));
                checker.take(checked);
            }
        },
        _ => return false,
    }
    true
}

/// Asserts the record of a suspended invocation, which has its own store (R16): the records of a checkpointer have
/// another type.
async fn paused_record(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    paused: Option<&CasePausedStore>,
) -> Outcome<()> {
    let record = match (paused, run.invocation()) {
        (Some(paused), Some(id)) => paused.record(&id).await,
        _ => Err("nothing was invoked".into()),
    };
    let record = record.map_err(|error| CaseFailure::build(&spot.path, error))?;
    let mut wanted = spot.fields()?;
    if let Some(it) = wanted.take("paused_invocation_record_exists") {
        checker.truth(&it, ensure(record.is_some(), || "there is no record".into()));
    }
    if let Some(it) = wanted.take("record_type") {
        let status = record.map(|record| serde_json::to_value(record.status).unwrap_or_default());
        checker.exactly(&it, status);
    }
    wanted.finish()
}

fn absent(checker: &mut AssertionChecker, spot: &LocatedNode, what: &str) -> bool {
    checker.holds(&spot.path, Err(what.into()));
    true
}

/// Asserts that fields of the state were not saved. A field that the state does not have at all is a fixture's mistake.
fn excludes(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (saved, declared): (&Value, &[String]),
) -> Outcome<()> {
    let path = spot.path.clone();
    for field in spot.distinct_texts()? {
        let known = ensure(declared.contains(&field), || format!("the state has no field '{field}'"));
        let outside =
            known.and_then(|()| ensure(saved.get(&field).is_none(), || format!("field '{field}' was saved")));
        checker.holds(&path, outside);
    }
    Ok(())
}

fn saved(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    (version, state): (&str, Value),
) -> Outcome<()> {
    let mut wanted = spot.fields()?;
    if let Some(it) = wanted.take("schema_version") {
        checker.exactly(&it, version);
    }
    if let Some(it) = wanted.take("excludes_fields") {
        excludes(checker, it, (&state, &run.declared_fields()))?;
    }
    if let Some(it) = wanted.take("state_includes") {
        checker.value(&it, &state, ExtraKeyPolicy::Allowed);
    }
    if let Some(it) = wanted.take("state") {
        checker.exactly(&it, state);
    }
    wanted.finish()
}
