//! Expected measurements (conformance-adapter §5.8, §6.9).

use serde_json::{Value, json};
use singletree_telemetry::CallMeasurement;

use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::matcher::{ExtraKeyPolicy, ValueMatcher};

/// Asserts measurements, whatever their order: each entry is one of its own. An empty list says that there is none.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_measurements(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    measurements: &[CallMeasurement],
) -> Outcome<()> {
    let path = spot.path.clone();
    let entries = spot.clone().into_items()?;
    if entries.is_empty() {
        let count = measurements.len();
        checker.check_result(&path, ensure(count == 0, || format!("there are {count} measurements")));
        return Ok(());
    }
    let mut left: Vec<Value> = measurements.iter().map(measurement_to_json).collect();
    for entry in spot.into_distinct_items()? {
        let matcher = MeasurementMatcher::from_yaml_node(entry.clone())?;
        let found = left.iter().position(|measured| matcher.matches(measured, checker));
        checker.check_result(
            &entry.path,
            ensure(found.is_some(), || {
                format!("no measurement is so; there are {}", Value::from(left.clone()))
            }),
        );
        if let Some(at) = found {
            left.remove(at);
        }
    }
    Ok(())
}

fn measurement_to_json(measured: &CallMeasurement) -> Value {
    json!({
        "instrument": measured.instrument.name(),
        "value": measured.value,
        "dimensions": measured.dimensions,
    })
}

/// An expected measurement. It has exactly the dimensions that are named; a value that is not named may be any.
struct MeasurementMatcher {
    instrument: ValueMatcher,
    dimensions: ValueMatcher,
    value: Option<ValueMatcher>,
}

impl MeasurementMatcher {
    fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let matcher = Self {
            instrument: ValueMatcher::from_yaml_node(&block.take_required("instrument")?)?,
            dimensions: ValueMatcher::from_yaml_node(&block.take_required("dimensions")?)?,
            value: block.take_value("value").map(|spot| ValueMatcher::from_yaml_node(&spot)).transpose()?,
        };
        block.reject_remaining_keys()?;
        Ok(matcher)
    }

    fn matches(&self, measured: &Value, checker: &mut AssertionChecker) -> bool {
        let mut matches = |matcher: &ValueMatcher, key: &str| {
            let bindings = &mut checker.bindings;
            matcher.match_value(&measured[key], ExtraKeyPolicy::Refused, bindings).is_ok()
        };
        matches(&self.instrument, "instrument")
            && matches(&self.dimensions, "dimensions")
            && self.value.as_ref().is_none_or(|value| matches(value, "value"))
    }
}
