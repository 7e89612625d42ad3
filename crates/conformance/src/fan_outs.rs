//! `fan_out:` built through the engine's public interface.

use serde_json::Value;
use singletree::Graph;
use singletree::engine::{EmptyFanOutPolicy, ErrorPolicy, FanOut, Snapshot};

use crate::adapt;
use crate::around::{self, NodeTools};
use crate::nodes::{FanOutConcurrency, FanOutSpec, NumberSource};

/// Makes a fan-out over a compiled subgraph.
#[must_use]
pub(crate) fn build_fan_out(
    spec: &FanOutSpec,
    inner: &Graph<Snapshot>,
    tools: &NodeTools,
) -> FanOut<Snapshot> {
    let mut fan_out = apply_item_source(spec, FanOut::over(inner));
    if let Some((from, to)) = adapt::collection_fields(spec.collect.as_ref(), spec.target.as_ref()) {
        fan_out = fan_out.collect(from, to);
    }
    for (child, parent) in &spec.inputs {
        fan_out = fan_out.input(child, parent);
    }
    for (parent, child) in &spec.extra {
        fan_out = fan_out.extra_output(parent, child);
    }
    fan_out = match spec.concurrency.clone() {
        FanOutConcurrency::Default => fan_out,
        FanOutConcurrency::Unbounded => fan_out.unbounded(),
        FanOutConcurrency::Bounded(NumberSource::Is(limit)) => fan_out.concurrency(limit),
        FanOutConcurrency::Bounded(number) => {
            fan_out.concurrency_by(move |state| read_number(state, &number).map(Some))
        }
    };
    if let Some(collects) = spec.collects_errors {
        fan_out = fan_out.error_policy(if collects { ErrorPolicy::Collect } else { ErrorPolicy::FailFast });
    }
    if let Some(field) = &spec.errors {
        fan_out = fan_out.errors_field(field);
    }
    if let Some(fine) = spec.empty_is_fine {
        fan_out = fan_out.on_empty(if fine { EmptyFanOutPolicy::Noop } else { EmptyFanOutPolicy::Raise });
    }
    if let Some(field) = &spec.count_field {
        fan_out = fan_out.count_field(field);
    }
    spec.middleware
        .iter()
        .fold(fan_out, |fan_out, it| fan_out.instance_middleware(around::build_middleware(it, tools)))
}

fn apply_item_source(spec: &FanOutSpec, mut fan_out: FanOut<Snapshot>) -> FanOut<Snapshot> {
    if let Some((items, item)) = &spec.items {
        fan_out = fan_out.items(items, item);
    }
    match spec.count.clone() {
        None => fan_out,
        Some(NumberSource::Is(count)) => fan_out.count(count),
        Some(number) => fan_out.count_by(move |state| read_number(state, &number)),
    }
}

/// Reads a number from the state.
fn read_number(state: &Snapshot, number: &NumberSource) -> Result<i64, String> {
    let value = |field: &str| {
        let slot = state.get(field).ok_or_else(|| format!("field '{field}' is not declared"))?;
        slot.to_json().map_err(|error| error.to_string())
    };
    match number {
        NumberSource::Is(it) => Ok(*it),
        NumberSource::Field(field) => {
            value(field)?.as_i64().ok_or_else(|| format!("field '{field}' holds no whole number"))
        }
        NumberSource::Chunks { field, size } => match value(field)? {
            Value::Array(items) => {
                let count = i64::try_from(items.len()).map_err(|error| error.to_string())?;
                Ok((count / size).max(1))
            }
            other => Err(format!("field '{field}' holds no list: {other}")),
        },
    }
}
