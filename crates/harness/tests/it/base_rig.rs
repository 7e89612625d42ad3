//! Helpers for tests of the abstract harness: one graph that pauses, fails or ends as its state says, a session store
//! that counts, ids that count.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_durable::{
    BoxFuture, ExpectedVersion, JournalSessions, RecordVersion, Result as StoreResult, SessionFilter,
    SessionId, SessionKey, SessionRecord, SessionStore, SessionSummary, TenantId,
};
use singletree_engine::{
    Ctx, END, FieldContent, FieldShape, FieldSpec, Graph, GraphBuilder, IdGenerator, NodeError, NodeResult,
    Reducer, Signal, Snapshot, StateSchema, StateUpdate,
};
use singletree_harness::{HarnessOutcome, InboundRequest, SignalArrival, TurnFailure, TurnReport};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

pub(crate) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not a map"),
    }
}

pub(crate) fn update(value: Value) -> StateUpdate {
    map(value).into()
}

pub(crate) fn message(fields: Value) -> InboundRequest {
    InboundRequest::message(map(fields))
}

/// A signal by its name.
pub(crate) fn signal(id: &str, payload: Value) -> InboundRequest {
    InboundRequest::signal(SignalArrival::for_signal(id, map(payload)))
}

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

fn text(cx: &Ctx<Snapshot>, field: &str) -> String {
    let value = cx.state().get(field).unwrap().to_json().unwrap();
    value.as_str().unwrap().to_owned()
}

/// Notes that the turn began; fails when the message says with which category.
async fn begin(cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    match text(&cx, "fails").as_str() {
        "" => Ok(update(json!({"log": ["begin"]}))),
        "uncategorised" => Err(NodeError::new("it broke")),
        category => Err(NodeError::new("it broke").with_category(category)),
    }
}

/// Waits for a signal when the message names one.
async fn gate(cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    match text(&cx, "waits_for").as_str() {
        "" => Ok(StateUpdate::new()),
        signal => cx.suspend(Signal::new(signal).with("kind", "approval")).await,
    }
}

async fn end(cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    match text(&cx, "then").as_str() {
        "fail" => Err(NodeError::new("it broke afterwards").with_category("provider_unavailable")),
        "wait again" => cx.suspend(Signal::new("second").mark_node_completed(true)).await,
        _ => Ok(update(json!({"log": ["end"]}))),
    }
}

fn fields() -> StateSchema {
    let field =
        |name: &'static str, shape, default| FieldSpec::new(name, shape, FieldContent::from_json(default));
    StateSchema::new(
        "test",
        vec![
            field("log", FieldShape::Str.list(), json!([])).reducer(Reducer::Append),
            field("approved", FieldShape::Bool, json!(false)),
            field("fails", FieldShape::Str, json!("")),
            field("waits_for", FieldShape::Str, json!("")),
            field("then", FieldShape::Str, json!("")),
        ],
    )
}

/// A graph of three nodes; the last one is given.
pub(crate) fn ending<F, Fut>(end: F) -> GraphBuilder<Snapshot>
where
    F: Fn(Ctx<Snapshot>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = NodeResult<Snapshot>> + Send + 'static,
{
    let builder = Graph::builder_with(fields()).node("begin", begin).node("gate", gate).node("end", end);
    builder.edge("begin", "gate").edge("gate", "end").edge("end", END).entry("begin").ids(Counting::new(1))
}

pub(crate) fn graph() -> GraphBuilder<Snapshot> {
    ending(end)
}

/// Identifiers that count.
#[derive(Debug)]
pub(crate) struct Counting(AtomicU64);

impl Counting {
    pub(crate) fn new(first: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(first)))
    }
}

impl IdGenerator for Counting {
    fn generate_uuid(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A session store that writes down how it is called.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: FaultInjectingStore<JournalSessions>,
    fails_to_load: bool,
    calls: Mutex<Vec<&'static str>>,
}

impl Watched {
    fn failing(write: u64, fails_to_load: bool) -> Arc<Self> {
        Self::over(&TestStore::new(), write, fails_to_load)
    }

    fn over(store: &TestStore, write: u64, fails_to_load: bool) -> Arc<Self> {
        let sessions = Arc::new(store.session_store());
        let inner = FaultInjectingStore::new(sessions, write, FailedWriteEffect::Before);
        Arc::new(Self { inner, fails_to_load, calls: Mutex::default() })
    }

    pub(crate) fn new() -> Arc<Self> {
        Self::failing(u64::MAX, false)
    }

    /// One that answers within a poll.
    pub(crate) fn in_memory() -> Arc<Self> {
        Self::over(&TestStore::in_memory("it checks that a call does not wait"), u64::MAX, false)
    }

    pub(crate) fn that_does_not_save() -> Arc<Self> {
        Self::failing(1, false)
    }

    pub(crate) fn that_does_not_load() -> Arc<Self> {
        Self::failing(u64::MAX, true)
    }

    /// Returns how it was called since it was last asked.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Returns one field of a stored session.
    pub(crate) async fn stored(&self, id: &str, field: &str) -> Option<Value> {
        let key = SessionKey::new(TenantId::single(), session(id));
        let (record, _) = self.inner.load(&key).await.unwrap()?;
        Some(record.state[field].decode().unwrap())
    }

    fn called(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

impl SessionStore for Watched {
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, StoreResult<Option<(SessionRecord, RecordVersion)>>> {
        self.called("load");
        if self.fails_to_load {
            return Box::pin(async { Err(singletree_durable::Error::Closed) });
        }
        self.inner.load(key)
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, StoreResult<RecordVersion>> {
        self.called("save");
        self.inner.save(key, record, expected)
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, StoreResult<()>> {
        self.called("delete");
        self.inner.delete(key)
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, StoreResult<Vec<SessionSummary>>> {
        self.called("list");
        self.inner.list(tenant, filter)
    }
}

/// The fields of a state that are not at their defaults.
pub(crate) fn changed(state: &Snapshot) -> Value {
    let defaults: BTreeMap<_, _> =
        fields().fields().iter().map(|it| (it.name().to_owned(), it.default_content().cloned())).collect();
    let changed = state.iter_fields().filter(|(name, slot)| defaults[*name].as_ref() != Some(*slot));
    changed.map(|(name, slot)| (name.to_owned(), slot.to_json().unwrap())).collect::<Map<_, _>>().into()
}

#[track_caller]
pub(crate) fn completed(report: TurnReport<Snapshot>) -> singletree_engine::CompletedRun<Snapshot> {
    match report.outcome {
        HarnessOutcome::Completed(done) => done,
        other => panic!("it completes, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn suspended(report: TurnReport<Snapshot>) -> singletree_engine::SuspendedRun<Snapshot> {
    match report.outcome {
        HarnessOutcome::Suspended(paused) => paused,
        other => panic!("it suspends, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn errored(report: TurnReport<Snapshot>) -> TurnFailure {
    match report.outcome {
        HarnessOutcome::Errored(failure) => failure,
        other => panic!("it fails, not {other:?}"),
    }
}

/// The category of a turn that failed.
#[track_caller]
pub(crate) fn category(report: TurnReport<Snapshot>) -> String {
    errored(report).category
}
