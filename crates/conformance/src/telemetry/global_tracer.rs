//! OpenTelemetry's global tracer, as an application or another library uses it, with an exporter that keeps its spans
//! (`caller_global_otel_active`).

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use opentelemetry::global;
use opentelemetry::trace::{Span as _, Tracer as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

/// The exporter behind the global provider of this process.
static EXPORTER: OnceLock<InMemorySpanExporter> = OnceLock::new();

/// Held by the one case that uses the global provider, from its beginning to its end.
static IN_USE: Mutex<()> = Mutex::new(());

/// Installs the global provider, empties its exporter, and keeps other cases from using it.
pub(crate) fn reserve_global_tracer() -> MutexGuard<'static, ()> {
    let reserved = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let exporter = EXPORTER.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        global::set_tracer_provider(provider);
        exporter
    });
    exporter.reset();
    reserved
}

/// Makes a span by the global tracer, beginning and end.
pub(super) fn emit_span(name: &str) {
    global::tracer("conformance").start(name.to_owned()).end();
}

/// Returns the spans that reached the global exporter.
pub(super) fn exported_spans() -> Vec<SpanData> {
    EXPORTER.get().and_then(|exporter| exporter.get_finished_spans().ok()).unwrap_or_default()
}
