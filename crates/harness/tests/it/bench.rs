//! Shared helpers of the tests: a state, graphs of a few words, a clock that follows tokio's, and a look at the rows.

use std::borrow::Borrow;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_durable::{
    Journal, SessionId, SessionKey, StoredTurnStatus, StoredWaitStatus, TenantId, Timestamp, TurnRowQuery,
    WaitRowQuery,
};
use singletree_engine::{Clock, Ctx, END, Graph, GraphBuilder, NodeError, Signal, Target};
use singletree_harness::{
    Answer, Chat, ChatBuilder, ChatTurnOutcome, Durability, GraphAgent, Messages, SendOptions, SignalAddress,
};
use singletree_llm::{ChatMessage, ToolCall};
use singletree_macros::State;
use tokio::sync::Notify;

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub(crate) struct Talk {
    #[state(append)]
    pub(crate) messages: Messages,
    #[state(append)]
    pub(crate) notes: Vec<String>,
    pub(crate) words: Vec<String>,
    pub(crate) count: i64,
    pub(crate) approved: bool,
}

/// Which nodes ran, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, node: &str) {
        self.0.lock().unwrap().push(node.to_owned());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A door that nodes wait at, and that tells who came.
#[derive(Debug, Clone)]
pub(crate) struct Door(Arc<(tokio::sync::Semaphore, Notify)>);

impl Door {
    pub(crate) fn shut() -> Self {
        Self(Arc::new((tokio::sync::Semaphore::new(0), Notify::new())))
    }

    pub(crate) async fn pass(&self) {
        self.0.1.notify_one();
        self.0.0.acquire().await.unwrap().forget();
    }

    pub(crate) async fn somebody(&self) {
        self.0.1.notified().await;
    }

    pub(crate) fn open_once(&self) {
        self.0.0.add_permits(1);
    }

    pub(crate) fn open(&self) {
        self.0.0.add_permits(1000);
    }
}

pub(crate) fn says(text: &str) -> TalkUpdate {
    Talk::update().messages([ChatMessage::assistant(text)])
}

/// Adds a node that says a word.
pub(crate) fn say(builder: GraphBuilder<Talk>, log: &Log, name: &'static str) -> GraphBuilder<Talk> {
    let log = log.clone();
    builder.node(name, move |_: Ctx<Talk>| {
        log.note(name);
        async move { Ok(says(name)) }
    })
}

/// Adds a node `n` that waits at a door before it answers.
pub(crate) fn door_node(builder: GraphBuilder<Talk>, door: &Door) -> GraphBuilder<Talk> {
    let door = door.clone();
    builder.node("n", move |_: Ctx<Talk>| {
        let door = door.clone();
        async move {
            door.pass().await;
            Ok(says("so"))
        }
    })
}

/// A graph of that node alone.
pub(crate) fn waiting_at(door: &Door) -> Graph<Talk> {
    chain(door_node(Graph::builder(), door), &["n"])
}

/// Adds a node that suspends.
pub(crate) fn gate(builder: GraphBuilder<Talk>, log: &Log, signal: Signal) -> GraphBuilder<Talk> {
    let log = log.clone();
    builder.node("gate", move |cx: Ctx<Talk>| {
        let (log, signal) = (log.clone(), signal.clone());
        async move {
            log.note("gate");
            cx.suspend(signal).await
        }
    })
}

/// Compiles a chain of nodes.
pub(crate) fn chain(mut builder: GraphBuilder<Talk>, names: &[&str]) -> Graph<Talk> {
    for pair in names.windows(2) {
        builder = builder.edge(pair[0], pair[1]);
    }
    builder.edge(names[names.len() - 1], Target::from(END)).entry(names[0]).compile().unwrap()
}

/// A graph that answers with one word.
pub(crate) fn plain(log: &Log) -> Graph<Talk> {
    chain(say(Graph::builder(), log, "hello"), &["hello"])
}

/// A graph that asks, waits, and says whether it was approved.
pub(crate) fn asking(log: &Log, signal: Signal) -> Graph<Talk> {
    let builder = gate(say(Graph::builder(), log, "ask"), log, signal);
    let log = log.clone();
    let builder = builder.node("act", move |cx: Ctx<Talk>| {
        log.note("act");
        let said = if cx.state().approved { "done" } else { "not done" };
        async move { Ok(Talk::update().approved(false).messages([ChatMessage::assistant(said)])) }
    });
    chain(builder, &["ask", "gate", "act"])
}

/// A graph that makes a call to a tool, and suspends before it is answered.
pub(crate) fn calling(log: &Log, signal: Signal) -> Graph<Talk> {
    let builder = Graph::builder().node("call", |_: Ctx<Talk>| async { Ok(called("c1")) });
    let builder = gate(builder, log, signal);
    let builder = builder.node("act", |cx: Ctx<Talk>| async move {
        if !cx.state().approved {
            return Err(NodeError::new("it broke").with_category("provider_unavailable"));
        }
        Ok(Talk::update().messages([ChatMessage::tool("c1", "ok"), ChatMessage::assistant("done")]))
    });
    chain(builder, &["call", "gate", "act"])
}

pub(crate) fn called(id: &str) -> TalkUpdate {
    let call = ToolCall::new(id, "send", serde_json::Map::new());
    Talk::update().messages([ChatMessage::assistant("").with_tool_calls([call])])
}

/// A clock that follows tokio's, so that it stands still with it.
#[derive(Debug)]
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000).saturating_add(self.0.elapsed())
    }
}

pub(crate) fn agent(graph: &Graph<Talk>, durability: Durability) -> GraphAgent {
    GraphAgent::new("a", graph).durability(durability)
}

pub(crate) fn chat_of(graph: &Graph<Talk>) -> ChatBuilder {
    Chat::builder().agent(agent(graph, Durability::Step))
}

pub(crate) fn user(text: &str) -> ChatMessage {
    ChatMessage::user(text)
}

pub(crate) fn key(key: &str) -> SendOptions {
    SendOptions::new().key(key)
}

pub(crate) fn approve(approved: bool) -> Answer {
    Answer::new(Map::from_iter([("approved".to_owned(), json!(approved))]))
}

pub(crate) fn at(session: &str, signal: &str) -> SignalAddress {
    SignalAddress::Session { session: session.into(), signal: signal.into() }
}

/// Writes an outcome in one line.
pub(crate) fn line(outcome: &ChatTurnOutcome) -> String {
    let texts =
        |messages: &[Arc<ChatMessage>]| messages.iter().map(|it| short(it)).collect::<Vec<_>>().join(", ");
    match outcome {
        ChatTurnOutcome::Completed(it) => format!("completed {} [{}]", it.path.as_str(), texts(&it.replies)),
        ChatTurnOutcome::Suspended(it) => {
            let (path, signal) = (it.path.as_str(), &it.signal_descriptor.signal_id);
            format!("suspended {path} {signal} [{}]", texts(&it.pending_messages))
        }
        ChatTurnOutcome::Errored(it) => format!("errored {}", it.error_category),
    }
}

/// Writes a message in short: its role's letter, its text, its calls.
pub(crate) fn short(message: &ChatMessage) -> String {
    let role = &message.role.as_str()[..1];
    let calls: Vec<_> = message.tool_calls.iter().map(|it| it.id.as_str()).collect();
    let of = message.tool_call_id.as_deref().unwrap_or_default();
    match (calls.is_empty(), of.is_empty()) {
        (true, true) => format!("{role}:{}", message.text()),
        (false, _) => format!("{role}:{}({})", message.text(), calls.join(",")),
        (true, false) => format!("{role}:{of}={}", message.text()),
    }
}

pub(crate) async fn history(chat: &Chat, session: &str) -> Vec<String> {
    match chat.session(session).history(0..10_000).await {
        Ok(entries) => entries.iter().map(|it| short(&it.message)).collect(),
        Err(_) => Vec::new(),
    }
}

pub(crate) fn category(outcome: impl Borrow<ChatTurnOutcome>) -> String {
    match outcome.borrow() {
        ChatTurnOutcome::Errored(it) => it.error_category.clone(),
        other => other.as_str().to_owned(),
    }
}

pub(crate) fn name(session: &str) -> SessionKey {
    SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
}

/// Checks INV-2 and INV-8 over the rows of a session in which nothing runs.
pub(crate) async fn check_rows(journal: &dyn Journal, session: &str) {
    let key = name(session);
    let turns = journal.read_turns(&key, &TurnRowQuery::From { no: 0, limit: 10_000 }).await.unwrap();
    let pending = journal.read_waits(&WaitRowQuery::Pending(key.clone())).await.unwrap();
    let mut suspended = 0;
    for turn in &turns {
        assert!(turn.status.is_ended() && turn.outcome.is_some(), "INV-2: {turn:?}");
        let later = turns.iter().any(|it| it.invocation == turn.invocation && it.ordinal > turn.ordinal);
        let waits = WaitRowQuery::Invocation(key.tenant.clone(), turn.invocation.clone());
        let waits = journal.read_waits(&waits).await.unwrap();
        let waiting = waits.iter().filter(|(_, it)| it.status == StoredWaitStatus::Pending).count();
        let position = journal.read_position(&key, &turn.invocation).await.unwrap();
        if turn.status == StoredTurnStatus::Suspended && !later {
            suspended += 1;
            assert_eq!((waiting, position.is_some()), (1, true), "INV-8: {turn:?}");
        } else if !later {
            assert_eq!((waiting, position.is_some()), (0, false), "INV-8: {turn:?}");
        }
        let records = journal.read_turn_records(&key, turn.no).await.unwrap();
        assert_eq!(records, [], "records are forgotten when their node has completed");
    }
    assert_eq!(pending.len(), suspended, "INV-8: pending waits");
}

pub(crate) fn fields(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
