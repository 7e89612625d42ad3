//! The telemetry of graphs' cases (conformance-adapter §5.5, §6.3, §6.4, §6.9): recorders of spans, typed events, logs,
//! measurements and Langfuse traces, and the expectations about what they recorded.
//!
//! The recorders are observers of the engine's public interface. Spans, traces and measurements are rendered of the events
//! by `singletree-telemetry`, under the settings of the case.

mod attributes;
mod collectors;
mod determinism;
mod direct_call;
mod event_json;
mod expect;
mod global_tracer;
mod langfuse;
mod langfuse_client;
mod measured;
mod metrics;
mod run_steps;
mod runtime;
mod span_tree;
mod spec;
mod steps;
mod typed_expect;
mod view;
mod vocabulary;

#[cfg(test)]
mod tests;

pub(crate) use attributes::{check_absent_attributes, check_attributes};
pub(crate) use direct_call::{is_direct_call, run_direct_call};
pub(crate) use expect::{TelemetryContext, check_telemetry_key, is_about_telemetry, is_telemetry_key};
pub(crate) use global_tracer::reserve_global_tracer;
pub(crate) use measured::check_telemetry_invariant;
#[cfg(test)]
pub(crate) use measured::telemetry_invariants;
pub(crate) use run_steps::{call_model_beside_node, run_node_steps};
pub(crate) use runtime::{LogLine, RunTelemetry, TelemetryRuntime};
pub(crate) use spec::TelemetryCaseSpec;
pub(crate) use steps::{LogLineSpec, NodeStepSpec, parse_log_line, take_node_steps};
