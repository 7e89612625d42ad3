//! `transmissions:` (the harness suite): a synthetic transport in front of the abstract harness.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use singletree::Graph;
use singletree::durable::{BoxError, BoxFuture, InvocationId, TenantId};
use singletree::engine::{Descriptor, Snapshot};
use singletree::harness::{
    DispatchPath, EngineInvocation, FailureBucket, Harness, HarnessOutcome, InboundIntent, InboundRequest,
    MemoryCoordinator, SignalArrival, SignalCoordinator, SignalTarget, TurnFailure as Failed, TurnReport,
};
use tokio::time::Instant;

use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::expect::check_signal_descriptor;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::graph::FixtureGraphSpec;
use crate::matcher::ExtraKeyPolicy;
use crate::paused::CasePausedStore;
use crate::schema::parse_literals;
use crate::tape::{CaseRecorder, CaseRecording};

/// The program of a case of the harness suite.
#[derive(Debug)]
pub(crate) struct HarnessCaseSpec {
    stateless: bool,
    subscribe_raises: bool,
    transmissions: Vec<TransmissionSpec>,
}

#[derive(Debug)]
struct TransmissionSpec {
    name: String,
    payload: Map<String, Value>,
    signal: Option<Map<String, Value>>,
    intent: Option<InboundIntent>,
    expected: Vec<(String, LocatedNode)>,
}

/// The results of a transmission.
#[derive(Debug)]
pub(crate) struct TransmissionResult {
    /// The report of the harness.
    pub(crate) report: TurnReport<Snapshot>,
    /// The runner's recording during the transmission.
    pub(crate) reel: CaseRecording,
    /// The subscriptions that were made: signal and invocation.
    pub(crate) subscribed: Vec<(String, String)>,
    /// The ids of the invocations to which the signals resolved, in order.
    pub(crate) resolved: Vec<String>,
    /// Whether the invocation's paused record is kept; why nobody knows.
    kept: Result<bool, String>,
    /// How long the harness took.
    pub(crate) took: Duration,
}

impl HarnessCaseSpec {
    /// Takes the suite's keys out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut harness = block.take_required("harness")?.into_map_reader()?;
        let mode = harness.take_required("mode")?;
        let stateless = match mode.as_text()? {
            "sessioned" => false,
            "stateless" => true,
            other => return Err(CaseFailure::reader_error(&mode.path, format!("unknown mode '{other}'"))),
        };
        adapt::take_signal_coordinator(&mut harness)?;
        let subscribe_raises = adapt::take_subscribe_raises(&mut harness)?;
        harness.reject_remaining_keys()?;
        adapt::take_checkpointer_for_pauses(block)?;
        let transmissions =
            block.take_required("transmissions")?.into_items()?.into_iter().map(parse_transmission);
        Ok(Self { stateless, subscribe_raises, transmissions: transmissions.collect::<Outcome<_>>()? })
    }
}

fn parse_transmission(spot: LocatedNode) -> Outcome<TransmissionSpec> {
    let mut block = spot.into_map_reader()?;
    let intent = block.take_value("dispatch_intent");
    let intent = intent.map(|intent| match intent.as_text()? {
        "new_session" => Ok(InboundIntent::NewSession),
        "existing_session" => Ok(InboundIntent::ExistingSession),
        "signal_resume" => Ok(InboundIntent::SignalResume),
        other => Err(CaseFailure::reader_error(&intent.path, format!("unknown intent '{other}'"))),
    });
    let mut transmission = TransmissionSpec {
        name: block.take_required("name")?.as_text()?.to_owned(),
        payload: parse_literals(block.take_required("payload")?)?,
        signal: block.take_value("signal_payload").map(parse_literals).transpose()?,
        intent: intent.transpose()?,
        expected: Vec::new(),
    };
    let mut expected = block.take_required("expected")?.into_map_reader()?;
    while let Some(entry) = expected.take_next_entry() {
        transmission.expected.push(entry);
    }
    block.reject_remaining_keys()?;
    Ok(transmission)
}

/// Runs the transmissions and asserts the expectations of each.
///
/// # Errors
/// When a transmission cannot be made.
pub(crate) async fn run_transmissions(
    spec: HarnessCaseSpec,
    graph: Graph<Snapshot>,
    (declared, tape, paused): (&FixtureGraphSpec, &CaseRecorder, &Arc<CasePausedStore>),
    checker: &mut AssertionChecker,
) -> Outcome<Vec<TransmissionResult>> {
    let coordinator =
        Arc::new(RecordingCoordinator { raises: spec.subscribe_raises, ..RecordingCoordinator::default() });
    let harness = if spec.stateless { Harness::stateless(graph) } else { Harness::sessioned(graph) };
    let harness = harness.coordinator(coordinator.clone()).paused_store(paused.clone(), TenantId::single());
    let harness = harness.build();
    let mut handled = Vec::new();
    for transmission in spec.transmissions {
        let inbound = build_inbound_request(&transmission, declared, checker)?;
        let began = Instant::now();
        let report = harness.handle(inbound).await;
        let took = began.elapsed();
        let (subscribed, resolved) = coordinator.take_calls();
        let reel = tape.take_recording();
        let kept = match reel.visits.first() {
            Some(visit) => paused.load_record(&visit.invocation).await.map(|record| record.is_some()),
            None => Err("nothing was invoked".into()),
        };
        let one = TransmissionResult { report, reel, subscribed, resolved, kept, took };
        if let HarnessOutcome::Suspended(it) = &one.report.outcome {
            let id = Value::String(it.identity.invocation_id.to_string());
            checker.bindings.bind_reference("<from previous suspended outcome>", id.clone());
            checker.bindings.bind_reference(format!("<from {} suspended outcome>", transmission.name), id);
        }
        if let (HarnessOutcome::Errored(_), Some(visit)) = (&one.report.outcome, one.reel.visits.first()) {
            let id = Value::String(visit.invocation.clone());
            checker.bindings.bind_reference("<invocation_id from previous errored invoke>", id);
        }
        for (key, spot) in transmission.expected {
            let checked = check_expectation(checker, &key, spot, &one);
            checker.unwrap_or_record(checked);
        }
        handled.push(one);
    }
    Ok(handled)
}

/// Converts a payload as a transport would: into names, message, signal.
fn build_inbound_request(
    from: &TransmissionSpec,
    declared: &FixtureGraphSpec,
    checker: &AssertionChecker,
) -> Outcome<InboundRequest> {
    let mut payload = from.payload.clone();
    let mut name = |key: &str| -> Outcome<Option<String>> {
        match payload.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let referred = checker.bindings.resolve_reference(&text).and_then(Value::as_str);
                Ok(Some(referred.unwrap_or(&text).to_owned()))
            }
            Some(_) => Err(CaseFailure::reader_error(format!("payload.{key}"), "is no text")),
        }
    };
    let (session, signal_id, invocation) = (name("session_id")?, name("signal_id")?, name("invocation_id")?);
    name("kind")?;
    let mut inbound = InboundRequest::message(adapt::select_message_fields(payload, |it| {
        declared.state.declares_field(it)
    }));
    inbound.session_id = session;
    inbound.intent = from.intent;
    inbound.signal = match (signal_id, invocation, from.signal.clone()) {
        (None, None, None) => None,
        (Some(id), None, signal) => Some(SignalArrival::for_signal(id, signal.unwrap_or_default())),
        (None, Some(id), signal) => Some(SignalArrival::for_invocation(id, signal.unwrap_or_default())),
        _ => {
            return Err(CaseFailure::reader_error(
                "payload",
                "names a signal and an invocation, or none for its signal_payload",
            ));
        }
    };
    Ok(inbound)
}

fn check_expectation(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    handled: &TransmissionResult,
) -> Outcome<()> {
    let report = &handled.report;
    match key {
        "dispatch_path" => checker.check_exact(&spot, report.path.map(DispatchPath::as_str)),
        "invoke_outcome" => checker.check_exact(&spot, report.outcome.as_str()),
        "final_state" => checker.check_exact(&spot, final_state_json(report)),
        "descriptor" => match paused_descriptor(report) {
            Ok(it) => return check_signal_descriptor(checker, spot, it),
            Err(what) => checker.check_result(&spot.path, Err(what)),
        },
        "error_category" => {
            checker.check_exact(&spot, failed_turn(report).map(|failed| failed.category.clone()))
        }
        "error_bucket" => {
            checker.check_exact(&spot, failed_turn(report).map(|failed| failed.bucket.as_str()))
        }
        "invoke_args" => return check_invoke_arguments(checker, spot, handled),
        "signal_subscription_registered" | "harness_signal_subscription_registered" => {
            checker.check_truth(&spot, ensure_subscribed(handled));
        }
        "descriptor_read_from_outcome" => checker.check_truth(&spot, paused_descriptor(report).map(drop)),
        "harness_did_not_block" => checker.check_truth(&spot, ensure_not_blocked(handled)),
        "signal_correlation_resolved" => {
            checker
                .check_truth(&spot, ensure(!handled.resolved.is_empty(), || "the signal led nowhere".into()));
        }
        "resolved_to_invocation_id" => checker.check_exact(&spot, handled.resolved.last().cloned()),
        "outbound_shape" => checker.check_exact(&spot, outbound_shape(report)),
        "outbound_payload_includes" => {
            let payload = failed_turn(report).map_or_else(|| completion_json(report), failure_json);
            checker.check_value(&spot, &payload, ExtraKeyPolicy::Allowed);
        }
        "dev.singletree.paused_record_kept" => match &handled.kept {
            Ok(kept) => checker.check_exact(&spot, *kept),
            Err(what) => checker.check_result(&spot.path, Err(what.clone())),
        },
        "session_store_load_calls" => checker.check_exact(&spot, handled.reel.load_count()),
        "session_store_save_calls" => checker.check_exact(&spot, handled.reel.saved_records().count()),
        "harness_auto_retried" => {
            checker.check_truth(&spot, ensure(was_retried(handled), || "nothing was tried twice".into()));
        }
        other => return Err(unknown_key("expected", other, spot.node.line)),
    }
    Ok(())
}

fn final_state_json(report: &TurnReport<Snapshot>) -> Value {
    match &report.outcome {
        HarnessOutcome::Completed(it) => it.state.to_json().map(Value::Object).unwrap_or_default(),
        other => json!({"ended": other.as_str()}),
    }
}

fn failed_turn(report: &TurnReport<Snapshot>) -> Option<&Failed> {
    match &report.outcome {
        HarnessOutcome::Errored(it) => Some(it),
        HarnessOutcome::Completed(_) | HarnessOutcome::Suspended(_) => None,
    }
}

fn paused_descriptor(report: &TurnReport<Snapshot>) -> Result<&Descriptor, String> {
    match &report.outcome {
        HarnessOutcome::Suspended(it) => Ok(&it.descriptor),
        other => Err(format!("the turn {}", other.as_str())),
    }
}

/// Tells whether the pause of a turn was subscribed to: this signal, for this invocation.
///
/// # Errors
/// Why not.
pub(crate) fn ensure_subscribed(handled: &TransmissionResult) -> Result<(), String> {
    let HarnessOutcome::Suspended(it) = &handled.report.outcome else {
        return Err(format!("the turn {}", handled.report.outcome.as_str()));
    };
    let wanted = (it.descriptor.signal_id.clone(), it.identity.invocation_id.to_string());
    ensure(handled.subscribed.contains(&wanted), || format!("subscribed were {:?}", handled.subscribed))
}

/// Tells whether the harness tried a transmission again by itself: its session was loaded, or its entry ran, twice.
pub(crate) fn was_retried(handled: &TransmissionResult) -> bool {
    let visits = &handled.reel.visits;
    let entry = visits.first().map(|visit| &visit.namespace);
    handled.reel.load_count() > 1 || visits.iter().skip(1).any(|visit| Some(&visit.namespace) == entry)
}

/// Tells whether the harness handed the turn back at once: with time paused, whoever waits lets it pass.
///
/// # Errors
/// Why not.
pub(crate) fn ensure_not_blocked(handled: &TransmissionResult) -> Result<(), String> {
    paused_descriptor(&handled.report)?;
    ensure(handled.took.is_zero(), || format!("it took {:?}", handled.took))
}

fn outbound_shape(report: &TurnReport<Snapshot>) -> &'static str {
    match &report.outcome {
        HarnessOutcome::Completed(_) => "completion_response",
        HarnessOutcome::Suspended(_) => "suspended_acknowledgment",
        HarnessOutcome::Errored(_) => "error_response",
    }
}

/// Returns the state that a transport sends of a completed turn: the fields of the final state. Of a pause it sends
/// no state.
fn completion_json(report: &TurnReport<Snapshot>) -> Value {
    match &report.outcome {
        HarnessOutcome::Completed(_) => final_state_json(report),
        HarnessOutcome::Suspended(_) | HarnessOutcome::Errored(_) => Value::Null,
    }
}

/// Returns the JSON that a transport sends of a failure.
fn failure_json(failed: &Failed) -> Value {
    json!({
        "category": failed.category,
        "bucket": failed.bucket.as_str(),
        "retry_safe": failed.retry_safe,
        "diagnostic_message": failed.message,
        "user_action_required": failed.bucket == FailureBucket::UserCorrectable,
        "intervention_required": failed.bucket == FailureBucket::SessionTerminating,
    })
}

fn check_invoke_arguments(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    handled: &TransmissionResult,
) -> Outcome<()> {
    let Some(invoked) = &handled.report.invoked else {
        checker.check_result(&spot.path, Err("the graph was not invoked".into()));
        return Ok(());
    };
    let (session, assigned, resumed) = match invoked {
        EngineInvocation::Start { session, assigned, .. } => {
            (session.as_ref().map(ToString::to_string), *assigned, None)
        }
        EngineInvocation::Resume { invocation, payload } => {
            (None, false, Some((invocation.to_string(), payload.clone())))
        }
    };
    // The session that the harness reports must be the session that the engine's nodes see.
    if let (EngineInvocation::Start { .. }, Some(visit)) = (invoked, handled.reel.visits.first()) {
        let agree =
            ensure(visit.session == session, || format!("the engine has session {:?}", visit.session));
        checker.check_result(&spot.path, agree);
    }
    let none = || "no session was passed".to_owned();
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, it)) = wanted.take_next_entry() {
        match key.as_str() {
            "session_id" => checker.check_exact(&it, session.clone()),
            "session_id_present" => checker.check_truth(&it, ensure(session.is_some(), none)),
            "session_id_auto_generated" => {
                checker
                    .check_truth(&it, ensure(assigned && session.is_some(), || "the caller named it".into()));
            }
            "session_id_caller_supplied" => {
                checker.check_truth(
                    &it,
                    ensure(!assigned && session.is_some(), || "the harness named it".into()),
                );
            }
            "session_id_absent_verified" => {
                checker.check_truth(&it, ensure(session.is_none(), || "a session was passed".into()));
            }
            "resume_invocation" => checker.check_exact(&it, resumed.as_ref().map(|(id, _)| id.clone())),
            "signal_payload" => {
                let payload = resumed.as_ref().map(|(_, it)| Value::Object(it.clone()));
                checker.check_exact(&it, payload);
            }
            other => return Err(unknown_key("invoke_args", other, it.node.line)),
        }
    }
    Ok(())
}

/// A coordinator in memory that records the calls to it.
#[derive(Debug, Default)]
struct RecordingCoordinator {
    inner: MemoryCoordinator,
    /// Whether every subscription fails.
    raises: bool,
    asked: Mutex<CoordinatorCalls>,
}

/// Subscriptions (signal, invocation), and the ids of the invocations to which signals resolved.
type CoordinatorCalls = (Vec<(String, String)>, Vec<String>);

impl RecordingCoordinator {
    fn take_calls(&self) -> CoordinatorCalls {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SignalCoordinator for RecordingCoordinator {
    fn subscribe<'a>(
        &'a self,
        descriptor: &'a Descriptor,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        if self.raises {
            return Box::pin(std::future::ready(Err("the fixture lets this coordinator fail".into())));
        }
        let one = (descriptor.signal_id.clone(), invocation.to_string());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).0.push(one);
        self.inner.subscribe(descriptor, invocation)
    }

    fn resolve_signal<'a>(
        &'a self,
        target: &'a SignalTarget,
    ) -> BoxFuture<'a, Result<Option<InvocationId>, BoxError>> {
        Box::pin(async move {
            let found = self.inner.resolve_signal(target).await?;
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.1.extend(found.as_ref().map(ToString::to_string));
            Ok(found)
        })
    }

    fn unsubscribe<'a>(&'a self, invocation: &'a InvocationId) -> BoxFuture<'a, Result<(), BoxError>> {
        self.inner.unsubscribe(invocation)
    }
}
