//! Spans, metrics and Langfuse observations, rendered from the events of runs (spec: observability).
//!
//! # Vocabulary
//!
//! A *collector* is an observer that keeps the events of invocations in memory. *Rendering* is a pure function of the
//! events of one invocation and of settings: it makes *spans* ([`render_spans`]), *measurements* ([`measure_calls`]) or a
//! *Langfuse trace* ([`render_langfuse_traces`]). The same events give the same spans, with the same ids, in every process;
//! so sending them twice is harmless where a receiver keeps the first.
//!
//! This crate exports nothing, has no clock, and registers nothing globally (INV-17).
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use singletree_engine::{END, FieldSpec, Graph, InvokeOptions, StateSchema, StateUpdate, Subscription};
//! use singletree_telemetry::{EventCollector, SpanSettings, render_spans};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let builder = Graph::builder_with(StateSchema::new("empty", Vec::<FieldSpec>::new()));
//! let graph = builder.node("greet", |_| async { Ok(StateUpdate::new()) }).edge("greet", END).entry("greet").compile()?;
//! let collector = Arc::new(EventCollector::new());
//! graph.attach_observer(collector.subscription());
//! let run = graph.invoke(StateUpdate::new(), InvokeOptions::new()).await?;
//! graph.drain(None).await?;
//!
//! let events = collector.events_of(&run.identity().invocation_id);
//! let spans = render_spans(&events, &SpanSettings::new());
//! let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
//! assert_eq!(names, ["greet", "openarmature.invocation"]); // in the order in which they end
//! collector.drop_events(&run.identity().invocation_id);
//! # Ok::<(), singletree_engine::Error>(())
//! # }).unwrap();
//! ```

mod active;
mod attribute;
mod call_spans;
mod collector;
mod draft;
mod genai;
mod ids;
mod invocation_trace;
mod langfuse;
mod measure;
mod metric_family;
mod open_spans;
mod payload;
mod receiver;
mod record;
mod render;
mod sampling;
mod settings;
mod span;
mod trace_context;
mod unit_spans;

pub use active::{find_active_span, log_attributes};
pub use attribute::{AttributeValue, Attributes};
pub use collector::{CollectorLimits, EventCollector};
pub use ids::{SpanId, TraceId};
pub use invocation_trace::InvocationTrace;
pub use langfuse::{
    LangfuseObservation, LangfuseSettings, LangfuseTrace, ObservationLevel, StateView, render_langfuse_traces,
};
pub use measure::{CallMeasurement, CallMeter, METRIC_DIMENSIONS, MetricInstrument, measure_calls};
pub use metric_family::{
    HistogramCounts, MetricAttributes, MetricFamily, MetricReceiver, MetricSnapshot, MetricValues,
};
pub use payload::PayloadCap;
pub use receiver::{SpanReceipt, SpanReceiver, SpanRefusal};
pub use record::{
    ConversationTexts, RecordedPiece, RecorderLimits, ReferredMessages, StoredTurn, StoredTurnEnding,
    TurnPiece, TurnRecorder,
};
pub use render::render_spans;
pub use sampling::TraceSampling;
pub use settings::{LlmSpanScope, SpanProfile, SpanSettings};
pub use span::{InvocationEnding, SpanException, SpanLink, SpanStatus, SpanSubject, TraceSpan};
pub use trace_context::TraceContext;
