//! Middleware directives: running them. The canonical ones are the engine's; the fixtures' own stand on the engine's
//! interface as an application's would.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use singletree::NodeError;
use singletree::durable::BoxFuture;
use singletree::engine::{
    FailureIsolation, Middleware, MonotonicClock, Next, Retry, RetryBackoff, Signal, Snapshot, StateUpdate,
    Timing, current_metadata, suspend_invocation,
};

use crate::inner_graphs::ITEM_FIELD;
use crate::llm::ModelCallSpec;
use crate::middleware::{
    DegradedResultSpec, IsolationSpec, MiddlewareSpec, RetryClassifier, RetryMiddlewareSpec,
};
use crate::tape::{CaseRecorder, MiddlewareTrace};
use crate::telemetry::{LogLine, LogLineSpec, TelemetryRuntime, call_model_beside_node};

/// What the nodes and the middleware of a case work with.
#[derive(Debug, Clone)]
pub(crate) struct NodeTools {
    /// The tape that records what they do.
    pub(crate) tape: CaseRecorder,
    /// How far the clock of timings goes each time that it is read.
    pub(crate) tick: Option<Duration>,
    /// The recorders of the case, and the model that its nodes call.
    pub(crate) telemetry: Arc<TelemetryRuntime>,
}

/// Makes a middleware.
#[must_use]
pub(crate) fn build_middleware(spec: &MiddlewareSpec, tools: &NodeTools) -> Arc<dyn Middleware> {
    let (tape, tick) = (&tools.tape, tools.tick);
    match spec {
        MiddlewareSpec::Retry(spec) => Arc::new(build_retry(spec)),
        MiddlewareSpec::Timing { node } => Arc::new(build_timing(node.as_deref(), tape, tick)),
        MiddlewareSpec::Isolation(spec) => Arc::new(build_isolation(spec, tape)),
        MiddlewareSpec::Recorder { name, pre, post } => Arc::new(RecordingMiddleware {
            name: name.clone(),
            pre: pre.clone(),
            post: post.clone(),
            tape: tape.clone(),
        }),
        MiddlewareSpec::ShortCircuit(update) => {
            Arc::new(ReplacementMiddleware { update: update.clone(), always: true })
        }
        MiddlewareSpec::Recovery(update) => {
            Arc::new(ReplacementMiddleware { update: update.clone(), always: false })
        }
        MiddlewareSpec::Raiser(message) => Arc::new(RaisingMiddleware(message.clone())),
        MiddlewareSpec::Inspector => Arc::new(InspectingMiddleware),
        MiddlewareSpec::Logger { pre, post } => {
            Arc::new(LoggingMiddleware { pre: pre.clone(), post: post.clone(), tape: tape.clone() })
        }
        MiddlewareSpec::Suspender(signal) => Arc::new(SuspendingMiddleware(signal.as_ref().clone())),
        MiddlewareSpec::ModelCaller { call, is_before } => {
            let telemetry = tools.telemetry.clone();
            Arc::new(ModelCallingMiddleware { call: call.clone(), is_before: *is_before, telemetry })
        }
        MiddlewareSpec::LineWriter(line) => {
            Arc::new(LineWritingMiddleware { line: line.clone(), telemetry: tools.telemetry.clone() })
        }
        MiddlewareSpec::ItemUnpacker => Arc::new(ItemUnpackingMiddleware),
    }
}

fn build_retry(spec: &RetryMiddlewareSpec) -> Retry {
    let mut retry = Retry::new();
    if let Some(attempts) = spec.max_attempts {
        retry = retry.max_attempts(attempts);
    }
    if let Some(wait) = spec.backoff {
        retry = retry.backoff(RetryBackoff::Constant(wait));
    }
    match spec.classifier.clone() {
        None => retry,
        Some(RetryClassifier::WhileRetriesRemain) => retry.classifier(|_, state| {
            let state = state.downcast_ref::<Snapshot>();
            let left =
                state.and_then(|state| state.get("max_retries_remaining")).and_then(|it| it.to_json().ok());
            left.and_then(|left| left.as_i64()).is_some_and(|value| value > 0)
        }),
        Some(RetryClassifier::Categories(categories)) => retry.classifier(move |error, _| {
            let category = error.downcast_ref::<NodeError>().and_then(|error| error.classify().category);
            category.is_some_and(|category| categories.contains(&category))
        }),
    }
}

/// A clock that goes on by the same time at each reading.
#[derive(Debug)]
struct TickingClock {
    tick: Duration,
    read: Mutex<u32>,
}

impl MonotonicClock for TickingClock {
    fn elapsed_since_origin(&self) -> Duration {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        *read += 1;
        self.tick * *read
    }
}

fn build_timing(node: Option<&str>, tape: &CaseRecorder, tick: Option<Duration>) -> Timing {
    let tape = tape.clone();
    let complete = move |it: singletree::engine::TimingRecord| {
        tape.lock_recording().timings.push(json!({
            "node_name": it.node_name,
            "duration_ms": it.duration_ms,
            "outcome": it.outcome.as_str(),
            "exception_category": it.exception_category,
        }));
        std::future::ready(Ok(()))
    };
    let timing = match node {
        Some(node) => Timing::for_node(node, complete),
        None => Timing::for_each_site(complete),
    };
    match tick {
        Some(tick) => timing.clock(Arc::new(TickingClock { tick, read: Mutex::new(0) })),
        None => timing,
    }
}

fn build_isolation(spec: &IsolationSpec, tape: &CaseRecorder) -> FailureIsolation {
    let mut isolation = match spec.degraded.clone() {
        DegradedResultSpec::Update(update) => FailureIsolation::new(&spec.event_name, update),
        DegradedResultSpec::Template { template, target } => {
            FailureIsolation::from_function(&spec.event_name, move |state| {
                Ok(StateUpdate::new()
                    .with_json(target.clone(), Value::String(fill_template(&template, state)?)))
            })
        }
    };
    if let Some(categories) = &spec.catch {
        isolation = isolation.catch(categories.iter().map(String::as_str));
    }
    if let Some(category) = spec.predicate.clone() {
        isolation = isolation.predicate(move |error| error.category() == Some(category.as_str()));
    }
    if let Some(channel) = spec.on_caught.clone() {
        let tape = tape.clone();
        isolation = isolation.on_caught(move |error| {
            let mut reel = tape.lock_recording();
            reel.caught_messages.push(error.to_string());
            let calls = reel.caught_messages.len();
            reel.beside.insert(channel.count.clone(), calls.into());
            reel.beside.insert(channel.message.clone(), error.to_string().into());
            Box::pin(std::future::ready(Ok(())))
        });
    }
    isolation
}

/// Puts values of fields where a template says `{{ state.field }}`.
fn fill_template(template: &str, state: &Snapshot) -> Result<String, NodeError> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) =
            after.split_once("}}").ok_or_else(|| NodeError::new("the template does not close"))?;
        let field = name.trim().strip_prefix("state.").unwrap_or_default();
        let value = state.get(field).ok_or_else(|| NodeError::new(format!("no field '{field}'")))?;
        text.push_str(before);
        match value.to_json()? {
            Value::String(it) => text.push_str(&it),
            other => text.push_str(&other.to_string()),
        }
        rest = after;
    }
    Ok(text + rest)
}

type MiddlewareFuture<'a> = BoxFuture<'a, Result<StateUpdate, NodeError>>;

/// Records the states and updates that pass through, and marks the updates.
struct RecordingMiddleware {
    name: String,
    pre: Option<String>,
    post: Option<String>,
    tape: CaseRecorder,
}

impl Middleware for RecordingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let at = {
                let mut reel = self.tape.lock_recording();
                let traces = reel.traces.entry(self.name.clone()).or_default();
                traces.push(MiddlewareTrace { state_in: state.to_json()?, ..MiddlewareTrace::default() });
                traces.len() - 1
            };
            let update = add_trace_markers(next.run(state).await?, self.pre.as_ref(), self.post.as_ref())?;
            let (seen, returned) = (state.to_json()?, update_to_json(&update)?);
            let mut reel = self.tape.lock_recording();
            if let Some(trace) = reel.traces.get_mut(&self.name).and_then(|trace| trace.get_mut(at)) {
                trace.after = Some((seen, returned));
            }
            drop(reel);
            Ok(update)
        })
    }
}

fn update_to_json(update: &StateUpdate) -> Result<Map<String, Value>, NodeError> {
    let fields = update.iter_entries().map(|(field, slot)| Ok((field.to_owned(), slot.to_json()?)));
    fields.collect()
}

/// Puts the markers around the update's list `trace`.
fn add_trace_markers(
    update: StateUpdate,
    pre: Option<&String>,
    post: Option<&String>,
) -> Result<StateUpdate, NodeError> {
    if pre.is_none() && post.is_none() {
        return Ok(update);
    }
    let mut fields = update_to_json(&update)?;
    let inside = fields.remove("trace").unwrap_or_else(|| json!([]));
    let Value::Array(inside) = inside else { return Err(NodeError::new("'trace' is no list")) };
    let marker = |it: Option<&String>| it.cloned().map(Value::String);
    let trace = marker(pre).into_iter().chain(inside).chain(marker(post));
    fields.insert("trace".into(), trace.collect());
    Ok(fields.into())
}

/// Returns its own update: always, or when the wrapped call fails.
struct ReplacementMiddleware {
    update: Map<String, Value>,
    always: bool,
}

impl Middleware for ReplacementMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            if self.always {
                return Ok(self.update.clone().into());
            }
            Ok(next.run(state).await.unwrap_or_else(|_| self.update.clone().into()))
        })
    }
}

struct RaisingMiddleware(String);

impl Middleware for RaisingMiddleware {
    fn call<'a>(&'a self, _state: &'a Snapshot, _next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(std::future::ready(Err(NodeError::new(self.0.clone()))))
    }
}

/// Fails when the state that it received changes during the wrapped call.
struct InspectingMiddleware;

impl Middleware for InspectingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let before = state.to_json()?;
            let returned = next.run(state).await;
            if state.to_json()? != before {
                return Err(NodeError::new("the state changed while the node ran"));
            }
            returned
        })
    }
}

struct LoggingMiddleware {
    pre: Option<String>,
    post: Option<String>,
    tape: CaseRecorder,
}

impl Middleware for LoggingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            self.tape.lock_recording().log.extend(self.pre.clone());
            let returned = next.run(state).await;
            self.tape.lock_recording().log.extend(self.post.clone());
            returned
        })
    }
}

struct SuspendingMiddleware(Signal);

impl Middleware for SuspendingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let refused = suspend_invocation(self.0.clone()).await;
            // A middleware that ignores the refusal goes on; the invocation ends all the same.
            drop(refused);
            next.run(state).await
        })
    }
}

/// Calls the case's model beside the node.
struct ModelCallingMiddleware {
    call: Arc<ModelCallSpec>,
    is_before: bool,
    telemetry: Arc<TelemetryRuntime>,
}

impl Middleware for ModelCallingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let calls = next.calls();
            if self.is_before {
                call_model_beside_node(&self.telemetry, &self.call, &calls).await?;
                return next.run(state).await;
            }
            let update = next.run(state).await?;
            call_model_beside_node(&self.telemetry, &self.call, &calls).await?;
            Ok(update)
        })
    }
}

struct LineWritingMiddleware {
    line: LogLineSpec,
    telemetry: Arc<TelemetryRuntime>,
}

impl Middleware for LineWritingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let line = LogLine::new(&self.line, next.event_source(), current_metadata());
            self.telemetry.lock_captures().logs.push(line);
            next.run(state).await
        })
    }
}

/// Puts the entries of an item into the fields of their names, as far as the graph declares them.
struct ItemUnpackingMiddleware;

impl Middleware for ItemUnpackingMiddleware {
    fn call<'a>(&'a self, state: &'a Snapshot, mut next: Next<'a>) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let item = state.get(ITEM_FIELD).map(|slot| slot.to_json()).transpose()?;
            let entries = item.as_ref().and_then(Value::as_object).into_iter().flatten();
            let declared = entries.filter(|(name, _)| state.get(name).is_some());
            let update = declared.fold(StateUpdate::new(), |update, (name, value)| {
                update.with_json(name.clone(), value.clone())
            });
            let unpacked =
                state.merge_update(update).map_err(|fault| NodeError::new(format!("{fault:?}")))?;
            next.run(&unpacked).await
        })
    }
}
