//! Node directives: running them. Every body is a real node over the engine's public interface.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use singletree::engine::{Snapshot, StateUpdate};
use singletree::{Ctx, Graph, NodeError, NodeResult};
use tokio::time::Instant;

use crate::adapt;
use crate::mocks::{self, MockCallCounters, MockCallSite};
use crate::nodes::{BodyResultSpec, NodeBodySpec, NodeDrainSpec};
use crate::tape::{CaseRecorder, NodeDrainResult, NodeVisit};
use crate::telemetry::{TelemetryRuntime, run_node_steps};

/// A body and its context.
#[derive(Debug)]
pub(crate) struct NodeBodyContext {
    /// The node's name.
    pub(crate) name: String,
    /// The name of its graph.
    pub(crate) graph: String,
    /// The declared behaviour.
    pub(crate) spec: NodeBodySpec,
    /// The tape that records its visits.
    pub(crate) tape: CaseRecorder,
    /// The state of the failure mocks.
    pub(crate) mocks: MockCallCounters,
    /// The outermost graph.
    pub(crate) whole: Arc<OnceLock<Graph<Snapshot>>>,
    /// The recorders of the case, and the model that its nodes call.
    pub(crate) telemetry: Arc<TelemetryRuntime>,
}

/// Runs a body.
///
/// # Errors
/// The error that the fixture makes the body raise, or the reason why the body cannot do its work.
pub(crate) async fn run_node_body(part: Arc<NodeBodyContext>, cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    let visit = NodeVisit {
        namespace: cx.namespace().iter().map(|it| it.as_ref().to_owned()).collect(),
        pre_state: cx.snapshot().to_json()?,
        invocation: cx.identity().invocation_id.to_string(),
        correlation: cx.identity().correlation_id.to_string(),
        session: cx.identity().session_id.as_ref().map(ToString::to_string),
        instance: cx.lineage().fan_out_index_chain().collect(),
        branch: cx.lineage().branch_name().map(str::to_owned),
        step: cx.step(),
        attempt: cx.attempt_index(),
        ended: false,
    };
    let in_instance = visit.fan_out_index().is_some();
    let has_siblings = in_instance || visit.branch.is_some();
    let at = {
        let mut reel = part.tape.lock_recording();
        reel.visits.push(visit);
        reel.visits.len() - 1
    };
    let counted = in_instance.then(|| RunningInstanceGuard::count_instance(&part.tape));
    if has_siblings {
        adapt::yield_before_work().await;
    }
    let returned = execute_directives(&part, &cx).await;
    drop(counted);
    if let Some(visit) = part.tape.lock_recording().visits.get_mut(at) {
        visit.ended = true;
    }
    returned
}

/// A body that is running in a fan-out instance.
struct RunningInstanceGuard(CaseRecorder);

impl RunningInstanceGuard {
    fn count_instance(tape: &CaseRecorder) -> Self {
        let mut reel = tape.lock_recording();
        reel.in_flight.now += 1;
        reel.in_flight.max = reel.in_flight.max.max(reel.in_flight.now);
        drop(reel);
        Self(tape.clone())
    }
}

impl Drop for RunningInstanceGuard {
    fn drop(&mut self) {
        let mut reel = self.0.lock_recording();
        reel.in_flight.now = reel.in_flight.now.saturating_sub(1);
    }
}

async fn execute_directives(part: &NodeBodyContext, cx: &Ctx<Snapshot>) -> NodeResult<Snapshot> {
    if let Some(sleep) = part.spec.sleep {
        tokio::time::sleep(sleep).await;
    }
    if let Some(drain) = &part.spec.drain {
        drain_in_node(part, drain, cx).await?;
    }
    let written = run_node_steps(&part.spec.steps, &part.telemetry, cx).await?;
    let update = with_fields(compute_update(part, &part.spec.end, cx).await?, written);
    if part.spec.save {
        // R10: the saved state includes the node's own update.
        cx.save_session_with(update.clone()).await?;
        part.tape.lock_recording().explicit_saves += 1;
    }
    Ok(update)
}

fn with_fields(update: StateUpdate, fields: Map<String, Value>) -> StateUpdate {
    fields.into_iter().fold(update, |update, (field, value)| update.with_json(field, value))
}

async fn compute_update(
    part: &NodeBodyContext,
    end: &BodyResultSpec,
    cx: &Ctx<Snapshot>,
) -> NodeResult<Snapshot> {
    match end {
        BodyResultSpec::Update(values) => update_from_values(values, cx),
        BodyResultSpec::FromField { target, source, multiplier } => {
            update_from_field(cx, target, source, *multiplier)
        }
        BodyResultSpec::Raises(raised) => Err(mocks::build_node_error(raised)),
        BodyResultSpec::Mock(mock) => {
            let state = cx.snapshot().to_json()?;
            let caller = MockCallSite {
                mock: vec![part.graph.clone(), part.name.clone()],
                instance: cx.lineage().fan_out_index_chain().collect(),
                state: &state,
            };
            part.tape.lock_recording().mock_calls += 1;
            match (part.mocks.error_for_call(mock, &caller), &mock.success) {
                (Some(raised), _) => Err(mocks::build_node_error(&raised)),
                (None, Some(values)) => update_from_values(values, cx),
                (None, None) => Err(NodeError::new("the fixture does not say what this node returns")),
            }
        }
        BodyResultSpec::Attempts(attempts) => {
            let attempt = usize::try_from(cx.attempt_index()).ok().and_then(|index| attempts.get(index));
            let (steps, error) = attempt.ok_or_else(|| NodeError::new("the fixture ends before"))?;
            let written = run_node_steps(steps, &part.telemetry, cx).await?;
            match error {
                Some(error) => Err(mocks::build_node_error(error)),
                None => Ok(with_fields(StateUpdate::new(), written)),
            }
        }
        BodyResultSpec::Suspend { signal, unless } => {
            let answered = match unless {
                Some(field) => read_state_field(cx, field)? == Value::Bool(true),
                None => false,
            };
            if answered { Ok(StateUpdate::new()) } else { cx.suspend(signal.as_ref().clone()).await }
        }
        BodyResultSpec::SuspendAt { item, signal, otherwise } => {
            let BodyResultSpec::FromField { target, source, multiplier } = otherwise.as_ref() else {
                return Err(NodeError::new("the fixture does not say what other instances do"));
            };
            if read_state_field(cx, source)?.as_i64() == Some(*item) {
                return cx.suspend(signal.as_ref().clone()).await;
            }
            update_from_field(cx, target, source, *multiplier)
        }
    }
}

/// An update of literal values, and of fields that are named and read (R12).
fn update_from_values(values: &Map<String, Value>, cx: &Ctx<Snapshot>) -> NodeResult<Snapshot> {
    values.iter().try_fold(StateUpdate::new(), |update, (field, value)| {
        let read = adapt::referenced_field(value, |it| cx.snapshot().get(it).is_some());
        let value = read.map_or_else(|| Ok(value.clone()), |read| read_state_field(cx, &read))?;
        Ok(update.with_json(field.clone(), value))
    })
}

fn update_from_field(
    cx: &Ctx<Snapshot>,
    target: &str,
    source: &str,
    multiplier: i64,
) -> NodeResult<Snapshot> {
    let product = multiply_value(&read_state_field(cx, source)?, multiplier)?;
    Ok(StateUpdate::new().with_json(target.to_owned(), product))
}

async fn drain_in_node(
    part: &NodeBodyContext,
    drain: &NodeDrainSpec,
    cx: &Ctx<Snapshot>,
) -> Result<(), NodeError> {
    let whole = part.whole.get().ok_or_else(|| NodeError::new("the graph is not there yet"))?;
    let invocation = &cx.identity().invocation_id;
    let began = Instant::now();
    let summary = whole.drain_events_for(invocation, drain.timeout).await;
    let took = began.elapsed();
    let mut tape = part.tape.lock_recording();
    let snapshot = drain.snapshot.as_ref().map(|observer| {
        let taken =
            tape.events_taken_by(observer).filter(|taken_by| taken_by.identity.invocation_id == *invocation);
        (observer.clone(), taken.cloned().collect())
    });
    tape.drains.push(NodeDrainResult {
        node: part.name.clone(),
        summary,
        took,
        limit: drain.timeout,
        snapshot,
    });
    Ok(())
}

fn read_state_field(cx: &Ctx<Snapshot>, field: &str) -> Result<Value, NodeError> {
    match cx.snapshot().get(field) {
        Some(slot) => Ok(slot.to_json()?),
        None => Err(NodeError::new(format!("the fixture reads field '{field}', which is not declared"))),
    }
}

/// A product; a multiplier of one passes on whatever it is.
fn multiply_value(value: &Value, multiplier: i64) -> Result<Value, NodeError> {
    let whole = || Some(Value::from(value.as_i64()?.checked_mul(multiplier)?));
    #[expect(clippy::cast_precision_loss, reason = "fixtures count in small numbers")]
    let fraction = || Some(Value::from(value.as_f64()? * multiplier as f64));
    if multiplier == 1 {
        return Ok(value.clone());
    }
    whole().or_else(fraction).ok_or_else(|| NodeError::new(format!("{value} cannot be multiplied")))
}
