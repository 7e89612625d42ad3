//! The trace of a caller goes through the turn to its model and its tools, and on when another process resumes it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_durable::{Journal, JournalMaintenance, MemoryStore};
use singletree_env::TraceHeaders;
use singletree_harness::{Chat, SendOptions};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Provider, Request, Response, ResponseDelta, Result, ScriptedProvider,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_telemetry::{SpanId, SpanSettings, TraceContext, TraceSampling};
use singletree_tools::Recovery;

use crate::crashes::go_on;
use crate::probe::{CallTrace, World};
use crate::rig::{SESSION, script, small_with, suspended};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// The scripted model; notes the trace in which it is asked.
#[derive(Debug)]
struct NotingModel(ScriptedProvider, World);

impl Provider for NotingModel {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.1.note_trace("model");
        self.0.complete(request)
    }

    fn can_stream(&self) -> bool {
        self.0.can_stream()
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.1.note_trace("model");
        self.0.stream_deltas(request)
    }
}

fn chat_builder(world: &World) -> singletree_harness::ChatBuilder {
    let model = NotingModel(ScriptedProvider::new(script()), world.clone());
    Chat::builder().agent(small_with(Arc::new(model), world, Recovery::Rerun))
}

/// Opens a chat whose traces are exported.
fn open(world: &World, store: impl Journal + JournalMaintenance + 'static) -> Chat {
    chat_builder(world).note_unsent_turns(Duration::from_hours(1)).open(store).unwrap()
}

fn caller() -> TraceHeaders {
    TraceHeaders::new(format!("00-{TRACE}-{CALLER}-01")).with_tracestate("a=1").with_baggage("user=q")
}

/// Sends a message that needs two approvals in a trace, and gives them without one, as far as the process lives.
async fn converse(chat: &Chat, alive: impl Fn() -> bool) {
    for turn in chat.sweep().await.unwrap_or_default() {
        drop(turn.outcome().await);
    }
    go_on(chat, ("sends", SendOptions::new().trace(caller())), alive).await;
}

/// Renders the spans of all turns, and returns their ids. All are in the caller's trace, and the first of each invocation
/// below the caller's span.
async fn span_ids(chat: &Chat) -> HashSet<SpanId> {
    let mut ids = HashSet::new();
    let page = chat.session(SESSION).turns(0, 100).await.unwrap();
    for turn in &page.items {
        let spans = chat.turn_trace(&turn.id).await.unwrap().render_spans(&SpanSettings::new());
        let root = spans.iter().find(|span| span.name.as_ref() == "openarmature.invocation").unwrap();
        match turn.id.ordinal {
            0 => assert_eq!(root.parent_id.unwrap().to_string(), CALLER),
            _ => assert!(ids.contains(&root.parent_id.unwrap()), "{}", turn.id),
        }
        for span in spans {
            let trace = (span.trace_id.to_string(), span.trace_state.as_deref());
            assert_eq!(trace, (TRACE.to_owned(), Some("a=1")), "{} of {}", span.name, turn.id);
            ids.insert(span.span_id);
        }
    }
    assert!(!page.items.is_empty());
    ids
}

fn check_calls(calls: &[CallTrace], spans: &HashSet<SpanId>, at: &str) {
    for (call, trace) in calls {
        let trace = trace.as_ref().unwrap_or_else(|| panic!("{at}: {call} is in no trace"));
        let context = TraceContext::from_header(trace.traceparent()).unwrap();
        assert_eq!(
            (context.trace_id.to_string().as_str(), context.is_sampled),
            (TRACE, true),
            "{at}: {call}"
        );
        assert!(spans.contains(&context.parent_id), "{at}: {call} is below a span that there is not");
        assert_eq!((trace.tracestate(), trace.baggage()), (Some("a=1"), Some("user=q")), "{at}: {call}");
    }
}

// spec: W3C Trace Context §2; also after a death at any write, whoever goes on with the turn.
#[tokio::test]
async fn calls_go_out_in_the_callers_trace_also_from_another_process() {
    for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
        let mut n = 1;
        loop {
            let (store, world) = (MemoryStore::new(), World::default());
            let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
            let first = open(&world, dying.clone());
            converse(&first, || !dying.fired()).await;
            first.shutdown(Duration::ZERO).await;
            let second = open(&world, store.reopen());
            converse(&second, || true).await;
            let (calls, spans) = (world.call_traces(), span_ids(&second).await);
            check_calls(&calls, &spans, &format!("dies at {n}, {land:?}"));
            let of = |name: &str| calls.iter().filter(|(call, _)| call == name).count();
            assert!(of("model") >= 2 && of("send") >= 2 && of("act") >= 1, "{calls:?}");
            if !dying.fired() {
                assert_eq!((of("model"), of("send"), of("act")), (2, 2, 1));
                break;
            }
            n += 1;
        }
        assert!(n > 6, "the sweep has looked at something");
    }
}

thread_local! {
    /// The lines that were logged on this thread, while a test wants them.
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

// spec: observability §7
#[tokio::test]
async fn the_lines_of_a_turn_name_its_session_and_spans_that_are_exported() {
    // The only subscriber of these tests.
    tracing_subscriber::fmt().json().with_writer(|| ThreadWriter).init();
    LINES.set(Some(Vec::new()));
    let world = World::default();
    let chat = open(&world, MemoryStore::new());
    converse(&chat, || true).await;
    let text = String::from_utf8(LINES.take().unwrap()).unwrap();

    let spans: HashSet<String> = span_ids(&chat).await.iter().map(ToString::to_string).collect();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_calls: Vec<_> = lines.iter().filter(|line| line["target"] == "it::probe").collect();
    assert_eq!(of_calls.len(), 5, "{text}");
    for line in of_calls {
        let around = line["spans"].as_array().unwrap();
        assert_eq!(around[0]["openarmature.session_id"], SESSION, "{line}");
        let logged =
            around.iter().filter_map(|span| Some((span["trace_id"].as_str()?, span["span_id"].as_str()?)));
        let logged: Vec<_> = logged.collect();
        assert!(logged.len() >= 2, "{line}");
        assert!(logged.iter().all(|(trace, span)| *trace == TRACE && spans.contains(*span)), "{line}");
    }
}

// A wait that is given up, and one whose turn never ran, are in the trace of the message.
#[tokio::test]
async fn turns_that_end_without_running_are_in_the_callers_trace() {
    let (store, world) = (MemoryStore::new(), World::default());
    let chat = open(&world, store.clone());
    let options = SendOptions::new().trace(caller());
    let waiting = chat.session(SESSION).send_with("sends", options.clone()).await;
    chat.cancel(&suspended(&waiting).turn).await.unwrap();
    let refused = SendOptions::new().trace(caller());
    chat.session(SESSION).send_with("fail provider_unavailable", refused).await;
    span_ids(&chat).await;
}

#[tokio::test]
async fn a_message_without_a_trace_passes_none_on_unless_turns_are_exported() {
    let (store, world) = (MemoryStore::new(), World::default());
    let chat = chat_builder(&world).open(store).unwrap();
    chat.session(SESSION).send(ChatMessage::user("look")).await;
    let calls = world.call_traces();
    assert!(calls.len() == 3 && calls.iter().all(|(_, trace)| trace.is_none()), "{calls:?}");

    for (share, is_sampled) in [(1.0, true), (0.0, false)] {
        let (store, world) = (MemoryStore::new(), World::default());
        let chat = chat_builder(&world)
            .note_unsent_turns(Duration::from_hours(1))
            .trace_sampling(TraceSampling::new().default_share(share))
            .open(store)
            .unwrap();
        chat.session(SESSION).send(ChatMessage::user("look")).await;
        let turn = chat.session(SESSION).turns(0, 1).await.unwrap().items.remove(0).id;
        let trace = chat.turn_trace(&turn).await.unwrap();
        let ids: HashSet<_> = trace.render_spans(&SpanSettings::new()).iter().map(|it| it.span_id).collect();
        for (call, headers) in world.call_traces() {
            let context = TraceContext::from_header(headers.unwrap().traceparent()).unwrap();
            assert_eq!(context.trace_id, trace.trace_id(&SpanSettings::new()), "{call}");
            assert_eq!(context.is_sampled, is_sampled, "{call}");
            assert!(ids.contains(&context.parent_id), "{call}");
        }
    }
}

// W3C Trace Context §2.3: who makes no spans passes the headers on as they came.
#[tokio::test]
async fn a_chat_that_exports_nothing_passes_the_callers_headers_on() {
    let (store, world) = (MemoryStore::new(), World::default());
    let first = chat_builder(&world).open(store.clone()).unwrap();
    first.session(SESSION).send_with("sends", SendOptions::new().trace(caller())).await;
    first.shutdown(Duration::ZERO).await;
    converse(&chat_builder(&world).open(store.reopen()).unwrap(), || true).await;
    let calls = world.call_traces();
    assert!(calls.len() >= 5, "{calls:?}");
    for (call, trace) in calls {
        assert_eq!(trace.as_deref(), Some(&caller()), "{call}");
    }
}
