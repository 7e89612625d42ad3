//! Common helpers of most tests: run-time schemas, constant nodes, an observer that records its events.

use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_durable::{BoxError, BoxFuture, InvocationId, SessionId};
use singletree_engine::{
    Ctx, Error, ErrorLink, FieldContent, FieldShape, FieldSpec, Graph, GraphBuilder, GraphEvent, IdGenerator,
    InvokeOptions, IsolationEvent, NodeError, NodeResult, Observer, Reducer, RunOutcome, Snapshot,
    StateSchema, StateUpdate,
};

/// A dynamic graph under construction.
pub(crate) type Builder = GraphBuilder<Snapshot>;

pub(crate) fn field(name: &'static str, shape: FieldShape, default: Value) -> FieldSpec {
    FieldSpec::new(name, shape, FieldContent::from_json(default))
}

pub(crate) fn int(name: &'static str) -> FieldSpec {
    field(name, FieldShape::Int, json!(0))
}

pub(crate) fn text(name: &'static str) -> FieldSpec {
    field(name, FieldShape::Str, json!(""))
}

/// A list of texts under append.
pub(crate) fn log(name: &'static str) -> FieldSpec {
    field(name, FieldShape::Str.list(), json!([])).reducer(Reducer::Append)
}

pub(crate) fn over(fields: impl IntoIterator<Item = FieldSpec>) -> Builder {
    Graph::builder_with(StateSchema::new("test", fields.into_iter().collect()))
}

pub(crate) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not a map"),
    }
}

pub(crate) fn update(value: Value) -> StateUpdate {
    StateUpdate::from(map(value))
}

/// A node that always returns the same update.
pub(crate) fn sets(value: Value) -> impl Fn(Ctx<Snapshot>) -> Ready<NodeResult<Snapshot>> + Send + Sync {
    let update = update(value);
    move |_| ready(Ok(update.clone()))
}

pub(crate) fn state(snapshot: &Snapshot) -> Value {
    Value::Object(snapshot.to_json().unwrap())
}

/// A node that fails so many times, each time with another message, and then sets.
pub(crate) fn flaky(
    category: &'static str,
    failures: u32,
    value: Value,
) -> impl Fn(Ctx<Snapshot>) -> Ready<NodeResult<Snapshot>> + Send + Sync {
    let (update, calls) = (update(value), AtomicU64::new(0));
    move |_| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let failed = || NodeError::new(format!("down {call}")).with_category(category);
        ready(if call < failures.into() { Err(failed()) } else { Ok(update.clone()) })
    }
}

/// Runs to the end with an observer; returns the outcome and the recorded events.
pub(crate) async fn observed(
    graph: &Graph<Snapshot>,
    initial: Value,
) -> (Result<RunOutcome<Snapshot>, Error>, Recorder) {
    let seen = Recorder::default();
    let options = InvokeOptions::new().observer(seen.clone());
    let outcome = graph.invoke(update(initial), options).await;
    graph.drain(None).await.unwrap();
    (outcome, seen)
}

/// Runs to the end and returns the final state.
pub(crate) async fn run(graph: &Graph<Snapshot>, initial: Value) -> Value {
    completed(graph.invoke(update(initial), InvokeOptions::new()).await)
}

/// Runs into an error.
pub(crate) async fn fail(graph: &Graph<Snapshot>, initial: Value) -> Error {
    graph.invoke(update(initial), InvokeOptions::new()).await.unwrap_err()
}

#[track_caller]
pub(crate) fn completed(outcome: Result<RunOutcome<Snapshot>, Error>) -> Value {
    match outcome {
        Ok(RunOutcome::Completed(done)) => state(&done.state),
        other => panic!("it completes, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn suspended(
    outcome: Result<RunOutcome<Snapshot>, Error>,
) -> singletree_engine::SuspendedRun<Snapshot> {
    match outcome {
        Ok(RunOutcome::Suspended(paused)) => paused,
        other => panic!("it suspends, not {other:?}"),
    }
}

/// An error's category, its node, and the state that can be recovered from it.
pub(crate) fn described(error: &Error) -> (&'static str, Option<String>, Option<Value>) {
    let node = error.node_location().map(|it| it.node.to_string());
    (error.category(), node, error.recoverable_state().map(state))
}

pub(crate) fn invocation(id: &str) -> InvocationId {
    InvocationId::parse(id).unwrap()
}

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

/// Identifiers that count.
#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl IdGenerator for Counting {
    fn generate_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// An observer that records events, and shares the recording with its clones.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    name: &'static str,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Recorder {
    /// A recorder that writes into the same book under its own name.
    pub(crate) fn named(&self, name: &'static str) -> Self {
        Self { name, seen: self.seen.clone() }
    }

    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// The recorded events, shortened to "observer step phase path".
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |it: &Value| {
            let path: Vec<_> = it["namespace"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let phase = it["phase"].as_str().unwrap();
            format!("{} {} {phase} {}", it["by"].as_str().unwrap(), it["step"], path.join("/"))
                .trim()
                .to_owned()
        };
        self.seen().iter().map(line).collect()
    }

    /// The recorded events, shortened to "step.attempt phase path{members} outcome".
    pub(crate) fn told(&self) -> Vec<String> {
        self.seen().iter().map(told).collect()
    }
}

fn told(it: &Value) -> String {
    let boundaries = it["lineage"].as_array().cloned().unwrap_or_default();
    let path = it["namespace"].as_array().unwrap().iter().enumerate().map(|(at, name)| {
        let member = |kind| boundaries.get(at).and_then(|it| it.get(kind));
        let member = member("instance").or(member("branch"));
        let member =
            member.map_or_else(String::new, |it| format!("[{}]", it.as_str().unwrap_or(&it.to_string())));
        format!("{}{member}", name.as_str().unwrap())
    });
    let path = path.collect::<Vec<_>>().join("/");
    if let Some(name) = it["isolated"].as_str() {
        return format!(
            "isolated {name} {path}.{} {}",
            it["attempt"],
            it["category"].as_str().unwrap_or("-")
        );
    }
    let end = match (it.get("error"), it.get("post")) {
        (Some(error), _) => format!(" {}", error.as_str().unwrap()),
        (None, Some(_)) => " ok".to_owned(),
        (None, None) => String::new(),
    };
    format!("{}.{} {} {path}{end}", it["step"], it["attempt"], it["phase"].as_str().unwrap())
}

impl Observer for Recorder {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        // Saves have tests of their own.
        if !matches!(event, GraphEvent::CheckpointSaved(_)) {
            let mut described = describe(event);
            described["by"] = json!(self.name);
            self.seen.lock().unwrap().push(described);
        }
        Box::pin(ready(Ok(())))
    }
}

/// Writes an event as JSON, whole but for time and identity.
pub(crate) fn describe(event: &GraphEvent) -> Value {
    let event = match event {
        GraphEvent::Node(event) => event,
        GraphEvent::FailureIsolated(event) => return describe_isolation(event),
        other => panic!("{other:?} is not known"),
    };
    let strings = |it: &[Arc<str>]| it.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut described = json!({
        "phase": event.phase.as_str(),
        "node": event.node_name.as_ref(),
        "namespace": strings(&event.namespace),
        "step": event.step,
        "attempt": event.attempt_index,
        "pre": state(&event.pre_state),
        "parents": event.parent_states.iter().map(state).collect::<Vec<_>>(),
    });
    if let Some(post) = event.post_state() {
        described["post"] = state(post);
    }
    if let Some(error) = event.attempt_error() {
        described["error"] = json!(error.category);
    }
    if let Some(descriptor) = &event.descriptor {
        described["descriptor"] = serde_json::to_value(descriptor).unwrap();
    }
    if event.fan_out_index().is_some() || event.branch_name().is_some() {
        described["lineage"] = serde_json::to_value(&event.lineage).unwrap();
    }
    if let Some(config) = event.fan_out_config() {
        described["fan_out"] = json!({
            "item_count": config.item_count,
            "concurrency": config.concurrency,
            "error_policy": config.error_policy.as_str(),
            "parent_node_name": config.parent_node_name.as_ref(),
        });
    }
    if let Some(config) = event.parallel_branches_config() {
        described["branches"] = json!({
            "branch_names": strings(&config.branch_names),
            "branch_count": config.branch_count,
            "error_policy": config.error_policy.as_str(),
            "parent_node_name": config.parent_node_name.as_ref(),
        });
    }
    described
}

fn describe_isolation(event: &IsolationEvent) -> Value {
    let caught = &event.caught_exception;
    let link = |it: &ErrorLink| json!([it.carrier, it.category, it.message]);
    let entries =
        event.post_state.iter_entries().map(|(name, slot)| (name.to_owned(), slot.to_json().unwrap()));
    json!({
        "isolated": event.event_name.as_ref(),
        "namespace": event.namespace.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "lineage": serde_json::to_value(&event.lineage).unwrap(),
        "attempt": event.attempt_index,
        "pre": state(&event.pre_state),
        "post": entries.collect::<Map<_, _>>(),
        "category": caught.category,
        "message": caught.message,
        "chain": caught.chain.iter().map(link).collect::<Vec<_>>(),
    })
}
