//! Values of metrics as requests of OTLP.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use prost::Message as _;
use singletree_telemetry::{HistogramCounts, MetricAttributes, MetricFamily, MetricSnapshot, MetricValues};

use crate::encode::{ExportResource, build_scope, resource_to_wire, text_to_wire, to_nanoseconds};

/// Writes the values of metrics at one time as the body of one request (`ExportMetricsServiceRequest`). Sums and counts are
/// those since counting began.
#[must_use]
pub fn encode_metrics(snapshot: &MetricSnapshot, resource: &ExportResource) -> Vec<u8> {
    wrap_metrics(snapshot, resource).encode_to_vec()
}

pub(crate) fn wrap_metrics(
    snapshot: &MetricSnapshot,
    resource: &ExportResource,
) -> ExportMetricsServiceRequest {
    let times = (to_nanoseconds(snapshot.started_at), to_nanoseconds(snapshot.at));
    let metrics = snapshot.families.iter().map(|family| family_to_wire(family, times)).collect();
    let scoped = ScopeMetrics { scope: Some(build_scope()), metrics, ..ScopeMetrics::default() };
    let resource = Some(resource_to_wire(resource));
    let all = ResourceMetrics { resource, scope_metrics: vec![scoped], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }
}

fn family_to_wire(family: &MetricFamily, times: (u64, u64)) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let data = match &family.values {
        MetricValues::Counter(values) => {
            let data_points = numbers_to_wire(values, times);
            Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
        }
        // A value of this moment has no beginning.
        MetricValues::Gauge(values) => {
            Data::Gauge(Gauge { data_points: numbers_to_wire(values, (0, times.1)) })
        }
        MetricValues::Histogram(values) => {
            let points = values.iter().map(|(attributes, counts)| counts_to_wire(attributes, counts, times));
            Data::Histogram(Histogram { data_points: points.collect(), aggregation_temporality })
        }
    };
    Metric {
        name: family.name.clone(),
        description: family.description.clone(),
        unit: family.unit.clone(),
        data: Some(data),
        ..Metric::default()
    }
}

fn numbers_to_wire(values: &[(MetricAttributes, f64)], (started_at, at): (u64, u64)) -> Vec<NumberDataPoint> {
    let points = values.iter().map(|(attributes, value)| NumberDataPoint {
        attributes: attributes_to_wire(attributes),
        start_time_unix_nano: started_at,
        time_unix_nano: at,
        value: Some(Value::AsDouble(*value)),
        ..NumberDataPoint::default()
    });
    points.collect()
}

fn counts_to_wire(
    attributes: &MetricAttributes,
    counts: &HistogramCounts,
    (started_at, at): (u64, u64),
) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes_to_wire(attributes),
        start_time_unix_nano: started_at,
        time_unix_nano: at,
        count: counts.counts.iter().sum(),
        sum: Some(counts.sum),
        bucket_counts: counts.counts.clone(),
        explicit_bounds: counts.bounds.clone(),
        ..HistogramDataPoint::default()
    }
}

fn attributes_to_wire(attributes: &MetricAttributes) -> Vec<KeyValue> {
    attributes.iter().map(|(name, value)| text_to_wire(name, value)).collect()
}
