//! Sends spans and metrics to collectors, and spans to Langfuse, by OTLP over HTTP with protobuf bodies (spec: observability §6, §8.9).
//!
//! [`encode_spans`] writes spans as a request of OTLP; the same spans are always the same bytes. [`OtlpClient`] sends
//! them, again where that may help. [`LangfuseExporter`] renders the events of an invocation as Langfuse traces and hands
//! them to a [`LangfuseClient`]: the caller's own, or one that is made of credentials. [`encode_metrics`] writes the values
//! of metrics, which an [`OtlpClient`] of another address sends.
//!
//! There is no tracer and no provider of OpenTelemetry's here: ids and times come from the spans, which may have begun in
//! another process. Nothing can leak to a provider that others use.

mod client;
mod encode;
mod error;
mod exporter;
mod langfuse;
mod limits;
mod metrics;

pub use client::{ExportSummary, OtlpClient};
pub use encode::{ExportResource, encode_spans};
pub use error::{Error, Result};
pub use exporter::LangfuseExporter;
pub use langfuse::{LangfuseClient, LangfuseCredentials, LangfuseHttpClient};
pub use limits::ExportLimits;
pub use metrics::encode_metrics;
