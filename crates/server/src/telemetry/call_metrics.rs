//! The metrics of model calls that the specification names (spec: observability §11).

use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use singletree_engine::GraphEvent;
use singletree_telemetry::{CallMeasurement, CallMeter, METRIC_DIMENSIONS, MetricInstrument};

use super::label_values::LabelValues;

/// Names and values of dimensions.
type Dimensions = Vec<(String, String)>;

type Histograms = Family<Dimensions, Histogram, InstrumentBuckets>;

/// Makes the histograms of an instrument.
#[derive(Debug, Clone)]
struct InstrumentBuckets(MetricInstrument);

impl MetricConstructor<Histogram> for InstrumentBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.bucket_bounds().iter().copied())
    }
}

/// The instruments, and the meter of the calls. Names have underscores in place of dots, as Prometheus demands.
#[derive(Debug)]
pub(super) struct CallMetrics {
    meter: Mutex<CallMeter>,
    token_usage: Histograms,
    operation_duration: Histograms,
    token_budget_exceeded: Family<Dimensions, Counter>,
    token_budget_utilization: Histograms,
    /// The values so far of each dimension.
    values: [LabelValues; METRIC_DIMENSIONS.len()],
}

impl Default for CallMetrics {
    fn default() -> Self {
        let histograms = |instrument| Family::new_with_constructor(InstrumentBuckets(instrument));
        Self {
            meter: Mutex::default(),
            token_usage: histograms(MetricInstrument::TokenUsage),
            operation_duration: histograms(MetricInstrument::OperationDuration),
            token_budget_exceeded: Family::default(),
            token_budget_utilization: histograms(MetricInstrument::TokenBudgetUtilization),
            values: Default::default(),
        }
    }
}

impl CallMetrics {
    /// Registers the instruments by their whole names.
    pub(super) fn register_instruments(&self, to: &mut Registry) {
        let name = |instrument: MetricInstrument| replace_dots(instrument.name());
        let tokens = "Tokens of model calls";
        to.register(name(MetricInstrument::TokenUsage), tokens, self.token_usage.clone());
        let (duration, took) =
            (name(MetricInstrument::OperationDuration), "How long attempts of model calls took");
        to.register_with_unit(duration, took, Unit::Seconds, self.operation_duration.clone());
        let exceeded = "Model calls that exceeded a bound of their prompt's budget of tokens";
        to.register(
            name(MetricInstrument::TokenBudgetExceeded),
            exceeded,
            self.token_budget_exceeded.clone(),
        );
        let part = "The part of a bound of a prompt's budget of tokens that model calls used";
        to.register(
            name(MetricInstrument::TokenBudgetUtilization),
            part,
            self.token_budget_utilization.clone(),
        );
    }

    /// Measures the call that an event tells of, if it tells of one.
    pub(super) fn measure_event(&self, event: &GraphEvent) {
        let tells_of_call = matches!(
            event,
            GraphEvent::LlmAttempt(_) | GraphEvent::LlmCompletion(_) | GraphEvent::LlmFailed(_)
        );
        if tells_of_call {
            let measured = self.meter.lock().unwrap_or_else(PoisonError::into_inner).measure_event(event);
            measured.iter().for_each(|measurement| self.record_measurement(measurement));
        }
    }

    fn record_measurement(&self, measurement: &CallMeasurement) {
        let known = METRIC_DIMENSIONS.iter().zip(&self.values);
        let dimensions: Dimensions = known
            .filter_map(|(name, values)| {
                let value = measurement.dimensions.get(name)?;
                Some((replace_dots(name), values.bounded_value(value)))
            })
            .collect();
        let histograms = match measurement.instrument {
            MetricInstrument::TokenUsage => &self.token_usage,
            MetricInstrument::OperationDuration => &self.operation_duration,
            MetricInstrument::TokenBudgetUtilization => &self.token_budget_utilization,
            MetricInstrument::TokenBudgetExceeded => {
                self.token_budget_exceeded.get_or_create(&dimensions).inc();
                return;
            }
        };
        histograms.get_or_create(&dimensions).observe(measurement.value);
    }
}

/// Writes a name as Prometheus has it.
pub(super) fn replace_dots(name: &str) -> String {
    name.replace('.', "_")
}
