//! Node directives: running them. Every body is a real node over the engine's public interface.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use singletree::engine::{Snapshot, Update};
use singletree::{Ctx, Graph, NodeError, NodeResult};
use tokio::time::Instant;

use crate::adapt;
use crate::nodes::{BodySpec, DrainSpec, End};
use crate::tape::{NodeDrain, Tape, Visit};

/// A body and what it works with.
#[derive(Debug)]
pub(crate) struct Part {
    /// The node's name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) spec: BodySpec,
    /// Where it writes what it does.
    pub(crate) tape: Tape,
    /// The outermost graph.
    pub(crate) whole: Arc<OnceLock<Graph<Snapshot>>>,
}

/// Runs a body.
///
/// # Errors
/// What the fixture lets it raise, or why it could not do what the fixture says.
pub(crate) async fn run(part: Arc<Part>, cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    let visit = Visit {
        namespace: cx.namespace().iter().map(|it| it.as_ref().to_owned()).collect(),
        pre_state: cx.snapshot().to_json()?,
        invocation: cx.identity().invocation_id.to_string(),
        session: cx.identity().session_id.as_ref().map(ToString::to_string),
    };
    part.tape.write().visits.push(visit);
    if let Some(sleep) = part.spec.sleep {
        tokio::time::sleep(sleep).await;
    }
    if let Some(drain) = &part.spec.drain {
        run_drain(&part, drain, &cx).await?;
    }
    let update = match &part.spec.end {
        End::Update(values) => values.iter().try_fold(Update::new(), |update, (field, value)| {
            let read = adapt::is_read(value, |it| cx.snapshot().get(it).is_some());
            let value = read.map_or_else(|| Ok(value.clone()), |it| field_of(&cx, &it))?;
            Ok::<_, NodeError>(update.with_json(field.clone(), value))
        })?,
        End::FromField { target, source, multiplier } => {
            let product = multiply(&field_of(&cx, source)?, *multiplier)?;
            Update::new().with_json(target.clone(), product)
        }
        End::Raises { message, category } => {
            let error = NodeError::new(message.clone());
            return Err(match category {
                Some(category) => error.with_category(category.clone()),
                None => error,
            });
        }
        End::Suspend { signal, unless } => {
            let answered = match unless {
                Some(field) => field_of(&cx, field)? == Value::Bool(true),
                None => false,
            };
            if !answered {
                return cx.suspend(signal.as_ref().clone()).await;
            }
            Update::new()
        }
    };
    if part.spec.save {
        // R10: what is saved is the state as it will be with the node's own update.
        cx.save_session_with(update.clone()).await?;
        part.tape.write().explicit_saves += 1;
    }
    Ok(update)
}

async fn run_drain(part: &Part, drain: &DrainSpec, cx: &Ctx<Snapshot>) -> Result<(), NodeError> {
    let whole = part.whole.get().ok_or_else(|| NodeError::new("the graph is not there yet"))?;
    let invocation = &cx.identity().invocation_id;
    let began = Instant::now();
    let summary = whole.drain_events_for(invocation, drain.timeout).await;
    let took = began.elapsed();
    let mut tape = part.tape.write();
    let snapshot = drain.snapshot.as_ref().map(|observer| {
        let taken = tape.taken_by(observer).filter(|it| it.identity.invocation_id == *invocation);
        (observer.clone(), taken.cloned().collect())
    });
    tape.drains.push(NodeDrain { node: part.name.clone(), summary, took, limit: drain.timeout, snapshot });
    Ok(())
}

fn field_of(cx: &Ctx<Snapshot>, field: &str) -> Result<Value, NodeError> {
    match cx.snapshot().get(field) {
        Some(slot) => Ok(slot.to_json()?),
        None => Err(NodeError::new(format!("the fixture reads field '{field}', which is not declared"))),
    }
}

/// A product; a multiplier of one passes on whatever it is.
fn multiply(value: &Value, multiplier: i64) -> Result<Value, NodeError> {
    let whole = || Some(Value::from(value.as_i64()?.checked_mul(multiplier)?));
    #[expect(clippy::cast_precision_loss, reason = "fixtures count in small numbers")]
    let fraction = || Some(Value::from(value.as_f64()? * multiplier as f64));
    if multiplier == 1 {
        return Ok(value.clone());
    }
    whole().or_else(fraction).ok_or_else(|| NodeError::new(format!("{value} cannot be multiplied")))
}
