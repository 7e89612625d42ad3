//! A chat whose turns are noted, a receiver that is a script, and a clock that follows tokio's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use singletree_durable::{BoxFuture, Journal, JournalMaintenance, MemoryStore, TenantId, Timestamp};
use singletree_engine::{Clock, Ctx, END, Graph, Signal, Target};
use singletree_env::Env;
use singletree_export::{ExportProblem, TenantBacklog, TraceExporter};
use singletree_harness::{Answer, Chat, Durability, GraphAgent, Messages, SignalAddress};
use singletree_llm::ChatMessage;
use singletree_macros::State;
use singletree_telemetry::{
    SpanId, SpanReceipt, SpanReceiver, SpanRefusal, SpanSettings, TraceId, TraceSpan,
};

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub(crate) struct Talk {
    #[state(append)]
    pub(crate) messages: Messages,
    pub(crate) approved: bool,
}

/// A graph that asks, waits for a person, and answers.
fn asking() -> Graph<Talk> {
    let says = |text: &'static str| {
        move |_: Ctx<Talk>| async move { Ok(Talk::update().messages([ChatMessage::assistant(text)])) }
    };
    Graph::builder()
        .node("ask", says("May I?"))
        .node("gate", |cx: Ctx<Talk>| async move { cx.suspend(Signal::new("ok")).await })
        .node("act", says("Done."))
        .edge("ask", "gate")
        .edge("gate", "act")
        .edge("act", Target::from(END))
        .entry("ask")
        .compile()
        .unwrap()
}

/// A graph of one word.
fn plain() -> Graph<Talk> {
    let says = |_: Ctx<Talk>| async { Ok(Talk::update().messages([ChatMessage::assistant("Hello.")])) };
    Graph::builder().node("hello", says).edge("hello", Target::from(END)).entry("hello").compile().unwrap()
}

/// A graph that takes a second.
fn slow() -> Graph<Talk> {
    let says = |_: Ctx<Talk>| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Talk::update().messages([ChatMessage::assistant("At last.")]))
    };
    Graph::builder().node("wait", says).edge("wait", Target::from(END)).entry("wait").compile().unwrap()
}

fn agent(name: &str, graph: &Graph<Talk>) -> GraphAgent {
    GraphAgent::new(name, graph).durability(Durability::Step)
}

/// Opens a chat with the agents `plain`, `asking` and `slow` whose turns are noted.
pub(crate) fn open(store: impl Journal + JournalMaintenance + 'static, env: &Env) -> Chat {
    Chat::builder()
        .agent(agent("plain", &plain()))
        .agent(agent("asking", &asking()))
        .agent(agent("slow", &slow()))
        .env(env.clone())
        .note_unsent_turns(Duration::from_hours(48))
        .open(store)
        .unwrap()
}

/// The real environment, with a clock that stands still with tokio's.
pub(crate) fn env() -> Env {
    Env { clock: Arc::new(TokioClock(tokio::time::Instant::now())), ..Env::from_system() }
}

#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        Timestamp::from_millis(1_800_000_000_000 + passed)
    }
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// Approves the pending wait of a session.
pub(crate) async fn approve(chat: &Chat, session: &str) {
    let session = chat.session(session);
    if !session.pending().await.unwrap().is_empty() {
        let yes = serde_json::Map::from_iter([("approved".to_owned(), serde_json::json!(true))]);
        let address = SignalAddress::Session { session: session.id().to_string(), signal: "ok".to_owned() };
        if let Ok(turn) = chat.answer(address, Answer::new(yes)).await {
            drop(turn.outcome().await);
        }
    }
}

/// A receiver's reaction to one request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Take,
    /// Takes the spans and says that it dropped so many.
    Drop(u64),
    Refuse(SpanRefusal),
    /// Takes the spans, and the answer is lost.
    TakeAndFail,
    Hang,
}

/// Answers as the test says, and then takes everything.
#[derive(Debug, Default)]
pub(crate) struct ScriptedReceiver {
    replies: Mutex<VecDeque<Reply>>,
    /// Refuses spans of this trace for good.
    hated: Mutex<Option<TraceId>>,
    received: Mutex<Vec<Vec<TraceSpan>>>,
}

impl ScriptedReceiver {
    pub(crate) fn replying(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn refuse_trace(&self, trace: TraceId) {
        *self.hated.lock().unwrap() = Some(trace);
    }

    /// Returns the spans that were taken, each once: those with one id must be the same.
    pub(crate) fn spans(&self) -> BTreeMap<(TraceId, SpanId), TraceSpan> {
        let mut all = BTreeMap::new();
        for span in self.received.lock().unwrap().iter().flatten() {
            let before = all.insert((span.trace_id, span.span_id), span.clone());
            assert!(before.is_none_or(|before| before == *span), "two deliveries of one id differ: {span:?}");
        }
        all
    }

    /// Returns how many spans were taken, also twice.
    pub(crate) fn count(&self) -> usize {
        self.received.lock().unwrap().iter().flatten().count()
    }

    pub(crate) fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

impl SpanReceiver for ScriptedReceiver {
    fn send_spans<'a>(&'a self, spans: &'a [TraceSpan]) -> BoxFuture<'a, Result<SpanReceipt, SpanRefusal>> {
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or(Reply::Take);
        let is_hated =
            self.hated.lock().unwrap().is_some_and(|it| spans.iter().any(|span| span.trace_id == it));
        Box::pin(async move {
            if is_hated {
                return Err(SpanRefusal::Content { problem: "no".to_owned() });
            }
            let take = || self.received.lock().unwrap().push(spans.to_vec());
            match reply {
                Reply::Take => {
                    take();
                    Ok(SpanReceipt::default())
                }
                Reply::Drop(rejected) => {
                    take();
                    Ok(SpanReceipt { rejected, message: Some("too many".to_owned()) })
                }
                Reply::TakeAndFail => {
                    take();
                    Err(unavailable())
                }
                Reply::Refuse(refusal) => Err(refusal),
                Reply::Hang => std::future::pending().await,
            }
        })
    }
}

pub(crate) fn unavailable() -> SpanRefusal {
    SpanRefusal::Unavailable { problem: "away".to_owned(), wait: None }
}

/// Hears of problems.
pub(crate) type Problems = Arc<Mutex<Vec<ExportProblem>>>;

pub(crate) fn exporter(
    (chat, env): (&Chat, &Env),
    store: &MemoryStore,
    receiver: &Arc<ScriptedReceiver>,
) -> (TraceExporter, Problems) {
    let problems = Problems::default();
    let noting = problems.clone();
    let exporter = TraceExporter::new(chat.clone(), Arc::new(store.clone()), receiver.clone(), env.clone())
        .on_problem(Arc::new(move |problem| noting.lock().unwrap().push(problem.clone())));
    (exporter, problems)
}

/// Exports for so long in the time of the test.
pub(crate) async fn export_for(exporter: &TraceExporter, span: Duration) {
    exporter.run(tokio::time::sleep(span)).await;
}

pub(crate) async fn backlog(store: &MemoryStore, tenant: &TenantId) -> u64 {
    TenantBacklog::read(store, tenant).await.unwrap().turns
}

/// Renders all turns of a session from the store: the spans that an export has to send.
pub(crate) async fn stored_spans(chat: &Chat, session: &str) -> BTreeMap<(TraceId, SpanId), TraceSpan> {
    let page = chat.session(session).turns(0, 100).await.unwrap();
    let mut spans = BTreeMap::new();
    for turn in page.items {
        let trace = chat.turn_trace(&turn.id).await.unwrap();
        assert!(trace.is_ended, "{turn:?}");
        for span in trace.render_spans(&SpanSettings::new()) {
            spans.insert((span.trace_id, span.span_id), span);
        }
    }
    spans
}
