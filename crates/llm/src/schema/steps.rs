//! Bounds the work of one check: each schema that is applied to a value counts its steps, and a check that takes too
//! many is given up. A small schema may apply thousands of times to each item of a long list, which no bound on the
//! schema alone prevents.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use super::positions::{for_each_schema_mut, holds_schemas};

/// The steps that finding out whether a value fits may take: some tenths of a second at most.
const CHECK_STEPS: u64 = 1_000_000;
/// The steps that finding out why it does not fit may take.
const EXPLAIN_STEPS: u64 = 50_000;
/// The keyword that counts; it stands in our copy of a schema only.
const KEYWORD: &str = "x-singletree-steps";
/// Bytes of one compiled pattern.
const PATTERN_SIZE: usize = 256 << 10;
/// How often a pattern with look-around may go back.
const BACKTRACKS: usize = 10_000;
/// The cost of a pattern for each 256 bytes of text.
const PATTERN_STEPS: u64 = 32;

/// A compiled schema whose checks take a bounded number of steps.
pub(super) struct BoundedValidator {
    validator: Validator,
    steps: Arc<AtomicU64>,
    /// One check at a time: the steps are counted for it alone.
    checking: Mutex<()>,
}

/// The result of a check.
pub(super) enum ValidationOutcome {
    Fits,
    /// The first mismatches, by path; none where explaining them would take too long.
    Mismatches(Vec<(String, String)>),
    TooManySteps,
}

/// The panic payload that ends a check with too many steps.
struct StepsExceeded;

/// Counts the steps of one schema.
struct StepKeyword {
    steps: Arc<AtomicU64>,
    weight: u64,
    /// Whether all of a value is looked at, and not only its outermost level.
    is_deep: bool,
}

impl BoundedValidator {
    /// Compiles a schema. The bounds of the schema itself are checked before.
    pub(super) fn new(source: &Value) -> Result<Self, ValidationError<'static>> {
        let mut counted = source.clone();
        for_each_schema_mut(&mut counted, &mut |schema| {
            let weight = compute_step_cost(schema);
            schema.insert(KEYWORD.to_owned(), weight.into());
        });
        let steps = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&steps);
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(PATTERN_SIZE)
            .dfa_size_limit(PATTERN_SIZE);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .with_keyword(KEYWORD, move |parent: &Map<String, Value>, weight: &Value, _| {
                let is_deep = ["const", "enum", "uniqueItems"].iter().any(|item| parent.contains_key(*item));
                let (steps, weight) = (Arc::clone(&counter), weight.as_u64().unwrap_or(1));
                Ok(Box::new(StepKeyword { steps, weight, is_deep }) as Box<dyn for<'i> Keyword<'i>>)
            })
            .build(&counted)
            .map_err(|error| error.to_owned())?;
        Ok(Self { validator, steps, checking: Mutex::default() })
    }

    /// Checks a value, and explains at most so many mismatches.
    pub(super) fn check_value(&self, value: &Value, told_max: usize) -> ValidationOutcome {
        let _checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        match self.run_within_steps(CHECK_STEPS, || self.validator.is_valid(value)) {
            Some(true) => ValidationOutcome::Fits,
            None => ValidationOutcome::TooManySteps,
            Some(false) => {
                let explained = self.run_within_steps(EXPLAIN_STEPS, || {
                    let errors = self.validator.iter_errors(value).take(told_max);
                    errors.map(|it| (it.instance_path().to_string(), it.masked().to_string())).collect()
                });
                ValidationOutcome::Mismatches(explained.unwrap_or_default())
            }
        }
    }

    /// Runs a check that may take so many steps; none when it takes more.
    fn run_within_steps<T>(&self, steps: u64, check: impl FnOnce() -> T) -> Option<T> {
        self.steps.store(steps, Ordering::Relaxed);
        match catch_unwind(AssertUnwindSafe(check)) {
            Ok(checked) => Some(checked),
            Err(panic) if panic.is::<StepsExceeded>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl StepKeyword {
    /// Counts one application to a value. Unwinds when it is one too many: that ends the check wherever it stands,
    /// and is no panic that anybody is told of.
    fn count_application(&self, value: &Value) {
        let size = match value {
            _ if self.is_deep => measure_deep_size(value),
            Value::String(text) => text.len() as u64 / 256,
            Value::Array(list) => list.len() as u64 / 16,
            Value::Object(map) => map.len() as u64 / 16,
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        };
        let cost = self.weight.saturating_mul(size + 1);
        let left = self.steps.load(Ordering::Relaxed);
        if cost > left {
            resume_unwind(Box::new(StepsExceeded));
        }
        self.steps.store(left - cost, Ordering::Relaxed);
    }
}

impl<'i> Keyword<'i> for StepKeyword {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.count_application(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.count_application(instance);
        true
    }
}

/// Returns the cost of one application of a schema, without the schemas inside of it.
fn compute_step_cost(schema: &Map<String, Value>) -> u64 {
    let own = schema.iter().map(|(keyword, value)| match (keyword.as_str(), value) {
        ("pattern", _) => PATTERN_STEPS,
        ("patternProperties", Value::Object(named)) => PATTERN_STEPS * named.len() as u64,
        ("properties" | "dependentSchemas" | "dependencies", Value::Object(named)) => named.len() as u64 / 8,
        (keyword, _) if holds_schemas(keyword) => 0,
        (_, value) => measure_deep_size(value) / 8,
    });
    1 + own.sum::<u64>()
}

/// Counts the values that a value consists of, and texts by their length.
fn measure_deep_size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / 256,
        Value::Array(list) => 1 + list.iter().map(measure_deep_size).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(measure_deep_size).sum::<u64>(),
    }
}
