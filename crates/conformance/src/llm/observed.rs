//! A call in a node of a graph, with the recorder of spans that an application attaches.

use std::sync::{Arc, Mutex, PoisonError};

use singletree::durable::BoxFuture;
use singletree::engine::{
    Ctx, Graph, InvokeOptions, NodeError, ObservedCalls, Snapshot, StateSchema, StateUpdate,
};
use singletree_telemetry::{EventCollector, SpanSettings, SpanSubject, TraceSpan, render_spans};

use crate::failure::{CaseFailure, Outcome};

/// Work that makes a call and reports it.
type ObservedWork<T> = Box<dyn FnOnce(ObservedCalls) -> BoxFuture<'static, T> + Send>;

const NODE: &str = "call";

/// Runs the work of a node, and returns the spans of its calls, in the order in which they began.
///
/// # Errors
/// When the graph cannot be built, or does not run its node.
pub(super) async fn run_observed_work<T: Send + 'static>(
    work: ObservedWork<T>,
) -> Outcome<(T, Vec<TraceSpan>)> {
    let failed = |what: String| CaseFailure::build_error("llm_spans", what);
    let (work, made) = (Arc::new(Mutex::new(Some(work))), Arc::new(Mutex::new(None)));
    let keeps = made.clone();
    let body = move |cx: Ctx<Snapshot>| {
        let (work, keeps) = (work.clone(), keeps.clone());
        async move {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            let work = work.ok_or_else(|| NodeError::new("the node runs once"))?;
            let result = work(cx.calls()).await;
            *keeps.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Ok(StateUpdate::new())
        }
    };
    let graph = Graph::<Snapshot>::builder_with(StateSchema::new("call", Vec::new()))
        .node(NODE, body)
        .edge(NODE, singletree::engine::END)
        .entry(NODE)
        .compile()
        .map_err(|error| failed(error.to_string()))?;
    let collector = Arc::new(EventCollector::new());
    let options = InvokeOptions::new().observer(collector.subscription());
    graph.invoke(StateUpdate::new(), options).await.map_err(|error| failed(error.to_string()))?;
    graph.drain(None).await.map_err(|error| failed(error.to_string()))?;
    let events: Vec<_> =
        collector.invocations().iter().flat_map(|invocation| collector.events_of(invocation)).collect();
    let mut spans = render_spans(&events, &SpanSettings::new());
    spans.retain(|span| matches!(span.subject, SpanSubject::Llm(_)));
    spans.sort_by_key(|span| span.order);
    let made = made.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok((made.ok_or_else(|| failed("the node did not run".into()))?, spans))
}
