//! Values of metrics at one time, and where they are sent.

use std::collections::BTreeMap;
use std::fmt;

use singletree_env::{BoxFuture, Timestamp};

use crate::receiver::SpanRefusal;

/// The names and values of the dimensions of a value.
pub type MetricAttributes = BTreeMap<String, String>;

/// A metric with its values at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub description: String,
    /// The unit of its values, by UCUM; empty where they only count.
    pub unit: String,
    /// Its values.
    pub values: MetricValues,
}

/// The values of a metric, by their dimensions.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValues {
    /// Sums since the process began, which only grow.
    Counter(Vec<(MetricAttributes, f64)>),
    /// Values of this moment.
    Gauge(Vec<(MetricAttributes, f64)>),
    /// Counts since the process began.
    Histogram(Vec<(MetricAttributes, HistogramCounts)>),
}

/// The counts of a histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramCounts {
    /// The upper bounds of the buckets but the last one, which has none.
    pub bounds: Vec<f64>,
    /// How many values each bucket has: one count more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

/// The values of all metrics of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSnapshot {
    /// When counting began.
    pub started_at: Timestamp,
    /// When the values were read.
    pub at: Timestamp,
    /// The metrics.
    pub families: Vec<MetricFamily>,
}

/// Takes values of metrics, such as a collector of OpenTelemetry's.
pub trait MetricReceiver: fmt::Debug + Send + Sync {
    /// Sends the values of one time. Sums and counts are those since the process began, so that values that were not taken
    /// are part of the next ones.
    ///
    /// # Errors
    /// [`SpanRefusal`].
    ///
    /// # Cancellation
    /// Dropping the future ends the request; the receiver may have taken the values.
    fn send_metrics<'a>(
        &'a self,
        snapshot: &'a MetricSnapshot,
    ) -> BoxFuture<'a, std::result::Result<(), SpanRefusal>>;
}
