//! Lines that code of a run logs say which invocation, node and span they belong to (observability §7).

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Once};

use serde_json::{Map, Value, json};
use singletree_durable::{BoxError, BoxFuture, InvocationId};
use singletree_engine::{
    CallTracing, Ctx, END, Graph, GraphEvent, InvokeOptions, Next, Observer, Snapshot, StateUpdate,
    Subscription, ToolRun, TraceHeaders, TracedCall, around,
};

use crate::rig::{int, over, update};

thread_local! {
    /// The lines that were logged on this thread, while somebody wants them. A test has its thread for itself.
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes to the lines of the thread.
struct ThreadWriter;

impl Write for ThreadWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a graph. Returns for each line that is logged its message, and its fields with those of all spans around it: those of
/// inner ones in place of the same ones of outer ones.
pub(crate) async fn lines_of_run(
    graph: &Graph<Snapshot>,
    options: InvokeOptions,
) -> Vec<(String, Map<String, Value>)> {
    // Subscribers of single threads hinder each other: whether a span is wanted is remembered for all threads.
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| tracing_subscriber::fmt().json().with_writer(|| ThreadWriter).init());
    LINES.set(Some(Vec::new()));
    graph.invoke(StateUpdate::new(), options).await.unwrap();
    graph.drain(None).await.unwrap();
    let text = String::from_utf8(LINES.take().unwrap()).unwrap();
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let spans = line["spans"].as_array().unwrap().iter();
        let all = spans.chain([&line["fields"]]);
        let fields = all.flat_map(|of| of.as_object().unwrap().clone()).collect();
        (line["fields"]["message"].as_str().unwrap().to_owned(), fields)
    };
    text.lines().map(read).collect()
}

/// Says that every call is in one trace, with the kind of the call as the id of its span.
#[derive(Debug)]
struct NamedSpans;

fn headers(span: &str) -> Option<Arc<TraceHeaders>> {
    Some(Arc::new(TraceHeaders::new(format!("00-trace-{span}-01"))))
}

impl CallTracing for NamedSpans {
    fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>> {
        match call {
            TracedCall::Node(source) => headers(&source.node_name),
            TracedCall::Tool(execution) => headers(&execution.tool_name),
            TracedCall::Model(..) => None,
        }
    }

    fn trace_of_invocation(&self) -> Option<Arc<TraceHeaders>> {
        headers("invocation")
    }
}

struct Logging;

impl Observer for Logging {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if let GraphEvent::ToolCall(_) = event {
            tracing::info!("observer");
        }
        Box::pin(async { Ok(()) })
    }
}

async fn work(cx: Ctx<Snapshot>) -> singletree_engine::NodeResult<Snapshot> {
    tracing::info!("node");
    cx.add_metadata("k", "two").unwrap();
    tracing::info!("later");
    let tool = ToolRun { tool_name: "look", arguments: None, tool_call_id: None };
    let looked = async {
        tokio::task::yield_now().await;
        tracing::info!("tool");
        Ok::<_, std::fmt::Error>(1)
    };
    cx.calls().run_tool(tool, looked, |it| json!(it)).await.unwrap();
    Ok(update(json!({"v": 1})))
}

#[tokio::test]
async fn a_line_carries_the_ids_of_its_invocation_and_of_the_span_that_its_code_runs_in() {
    let notes = around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        tracing::info!("middleware");
        Box::pin(async move { next.run(&state).await })
    });
    let builder = over([int("v")]).node("first", work).middleware(notes).edge("first", END).entry("first");
    let graph = builder.compile().unwrap();
    let options = InvokeOptions::new()
        .invocation(InvocationId::parse("i-1").unwrap())
        .correlation("c-1")
        .metadata("tenant", "t")
        .call_tracing(Arc::new(NamedSpans))
        .observer(Subscription::new(Logging));
    let lines = lines_of_run(&graph, options).await;

    let told: Vec<_> = lines
        .iter()
        .map(|(message, fields)| {
            assert_eq!(fields["openarmature.invocation_id"], "i-1", "{message}");
            assert_eq!(fields["openarmature.correlation_id"], "c-1", "{message}");
            let text = |name: &str| fields.get(name).map_or("", |it| it.as_str().unwrap());
            [message, text("trace_id"), text("span_id"), text("openarmature.user")].map(str::to_owned)
        })
        .collect();
    let (before, after) = (r#"{"tenant":"t"}"#, r#"{"k":"two","tenant":"t"}"#);
    let expected = [
        ["middleware", "trace", "invocation", before],
        ["node", "trace", "first", before],
        ["later", "trace", "first", after],
        ["tool", "trace", "look", after],
        // An observer looks on from outside of the trace.
        ["observer", "", "", before],
    ];
    assert_eq!(told, expected.map(|line| line.map(str::to_owned)));
    assert_eq!(lines[1].1["openarmature.node.name"], "first");
    assert_eq!(lines[1].1["openarmature.node.attempt_index"], 0);
    assert_eq!(lines[3].1["openarmature.tool.name"], "look");
}
