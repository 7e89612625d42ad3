//! Measurements of model calls (spec: observability §11).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use singletree_engine::{GraphEvent, LlmCall, LlmFailure, LlmOutput};

/// An instrument (§11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum MetricInstrument {
    /// Tokens of a call, by their type: a histogram.
    TokenUsage,
    /// Seconds of an attempt: a histogram.
    OperationDuration,
    /// Calls that exceeded a bound of their prompt's budget: a counter.
    TokenBudgetExceeded,
    /// The part of a bound that a call used: a histogram.
    TokenBudgetUtilization,
}

impl MetricInstrument {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::TokenUsage, Self::OperationDuration, Self::TokenBudgetExceeded, Self::TokenBudgetUtilization];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenUsage => "openarmature.gen_ai.client.token.usage",
            Self::OperationDuration => "openarmature.gen_ai.client.operation.duration",
            Self::TokenBudgetExceeded => "openarmature.gen_ai.client.token_budget.exceeded",
            Self::TokenBudgetUtilization => "openarmature.gen_ai.client.token_budget.utilization",
        }
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::TokenUsage => "{token}",
            Self::OperationDuration => "s",
            Self::TokenBudgetExceeded => "{call}",
            Self::TokenBudgetUtilization => "1",
        }
    }

    /// Returns the bounds of a histogram's buckets; none for a counter.
    #[must_use]
    pub fn bucket_bounds(self) -> &'static [f64] {
        match self {
            Self::TokenUsage => &[
                1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0,
                4194304.0, 16777216.0, 67108864.0,
            ],
            Self::OperationDuration => {
                &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
            }
            Self::TokenBudgetExceeded => &[],
            Self::TokenBudgetUtilization => &[0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0],
        }
    }
}

/// The names of all dimensions (§11.3).
pub const METRIC_DIMENSIONS: [&str; 6] = [
    "error.type",
    "gen_ai.request.model",
    "gen_ai.system",
    "openarmature.gen_ai.operation",
    "openarmature.gen_ai.token.type",
    "openarmature.gen_ai.token_budget.kind",
];

/// One measurement of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallMeasurement {
    /// The instrument.
    pub instrument: MetricInstrument,
    /// The value, in the instrument's unit.
    pub value: f64,
    /// The dimensions, by name: few values each (§11.3).
    pub dimensions: BTreeMap<&'static str, String>,
}

/// Measures the model calls among the events of an invocation: tokens and time of each attempt, and the budget of each
/// call.
#[must_use]
pub fn measure_calls(events: &[GraphEvent]) -> Vec<CallMeasurement> {
    let mut meter = CallMeter::default();
    events.iter().for_each(|event| meter.add_event(event));
    meter.made
}

/// How many calls that have attempts and no end are remembered (INV-12). A call that is forgotten and ends nevertheless is
/// measured as one of one attempt.
const OPEN_CALLS: usize = 10_000;

/// Measures model calls while the events of any number of invocations come in.
#[derive(Debug, Default)]
pub struct CallMeter {
    made: Vec<CallMeasurement>,
    /// The calls whose attempts were measured and that have not ended.
    attempted: HashSet<Arc<str>>,
}

impl CallMeter {
    /// Returns the measurements that an event makes. Events of one invocation must come in their order.
    pub fn measure_event(&mut self, event: &GraphEvent) -> Vec<CallMeasurement> {
        self.add_event(event);
        std::mem::take(&mut self.made)
    }

    fn add_event(&mut self, event: &GraphEvent) {
        match event {
            GraphEvent::LlmAttempt(event) => {
                if self.attempted.len() >= OPEN_CALLS {
                    self.attempted.clear();
                }
                self.attempted.insert(event.call.call_id.clone());
                let outcome = event.outcome.as_deref().map_err(AsRef::as_ref);
                self.add_attempt(&event.call, event.latency_ms, outcome);
            }
            GraphEvent::LlmCompletion(event) => {
                self.add_call(&event.call, event.latency_ms, Ok(&event.output))
            }
            GraphEvent::LlmFailed(event) => self.add_call(&event.call, event.latency_ms, Err(&event.failure)),
            _ => {}
        }
    }

    /// Measures a call that ended: its budget, and its only attempt where attempts are not told of.
    fn add_call(
        &mut self,
        call: &LlmCall,
        latency_ms: Option<f64>,
        outcome: Result<&LlmOutput, &LlmFailure>,
    ) {
        if !self.attempted.remove(&call.call_id) {
            self.add_attempt(call, latency_ms, outcome);
        }
        let Some((budget, output)) = call.request().token_budget().zip(reported_output(outcome)) else {
            return;
        };
        for bound in budget.evaluate(&output.usage) {
            let kind = ("openarmature.gen_ai.token_budget.kind", bound.kind);
            if bound.is_exceeded() {
                self.add(MetricInstrument::TokenBudgetExceeded, 1.0, call, [kind]);
            }
            if bound.bound > 0 {
                // Counts of tokens are far below what a fraction can hold.
                #[expect(clippy::cast_precision_loss, reason = "counts of tokens are small")]
                let ratio = bound.used as f64 / bound.bound as f64;
                self.add(MetricInstrument::TokenBudgetUtilization, ratio, call, [kind]);
            }
        }
    }

    fn add_attempt(
        &mut self,
        call: &LlmCall,
        latency_ms: Option<f64>,
        outcome: Result<&LlmOutput, &LlmFailure>,
    ) {
        if let Some(output) = reported_output(outcome) {
            let counts = [("input", output.usage.prompt_tokens), ("output", output.usage.completion_tokens)];
            for (token_type, count) in counts {
                if let Some(count) = count {
                    #[expect(clippy::cast_precision_loss, reason = "counts of tokens are small")]
                    let count = count as f64;
                    let dimension = ("openarmature.gen_ai.token.type", token_type);
                    self.add(MetricInstrument::TokenUsage, count, call, [dimension]);
                }
            }
        }
        if let Some(latency_ms) = latency_ms {
            let failed = outcome.err().map(|failure| ("error.type", failure.error_category.as_ref()));
            self.add(MetricInstrument::OperationDuration, latency_ms / 1000.0, call, failed);
        }
    }

    fn add<'a>(
        &mut self,
        instrument: MetricInstrument,
        value: f64,
        call: &LlmCall,
        more: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) {
        let mut dimensions = BTreeMap::from([
            ("openarmature.gen_ai.operation", "chat".to_owned()),
            ("gen_ai.request.model", call.model.to_string()),
            ("gen_ai.system", call.provider.to_string()),
        ]);
        dimensions.extend(more.into_iter().map(|(name, value)| (name, value.to_owned())));
        self.made.push(CallMeasurement { instrument, value, dimensions });
    }
}

/// Returns the answer with its usage, also one that failed its validation.
fn reported_output<'a>(outcome: Result<&'a LlmOutput, &'a LlmFailure>) -> Option<&'a LlmOutput> {
    match outcome {
        Ok(output) => Some(output),
        Err(failure) => failure.output.as_ref(),
    }
}
