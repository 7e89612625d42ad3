//! The reports of the calls that a node or a middleware makes (graph-engine §6).

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use singletree_llm::{ModelStreamUpdate, Provider, ProviderCall, Request, Response};

use super::call_event::{CallerMetadata, EventSource, ToolExecution};
use super::chain::UnitContext;
use super::event::GraphEvent;
use super::metadata::MetadataScope;
use super::model_call::ModelCallScope;
use super::observe::Subscription;
use super::scope::{NodeAttempt, RunContext};
use super::tool_call::ToolCallScope;

/// Reports the calls of models and tools that a node makes to the observers of its run (graph-engine §6).
///
/// The engine makes no call by itself: the node does, and this value watches. Without observers it does nothing and
/// costs nothing. Cheap to clone; a clone may be moved into a task of the node's own.
///
/// ```
/// # use singletree_engine::{Ctx, END, Graph, InvokeOptions, NodeResult, RunOutcome};
/// # use singletree_macros::State;
/// use std::sync::Arc;
/// use singletree_llm::{ChatMessage, ProviderCall, Request, Script, ScriptedProvider};
///
/// # #[derive(Debug, State)]
/// # #[state(engine = singletree_engine)]
/// # struct Answers { answer: String }
/// async fn ask(cx: Ctx<Answers>) -> NodeResult<Answers> {
///     let provider = ScriptedProvider::new(Script::replies(["4"]));
///     let request = Request::new(vec![Arc::new(ChatMessage::user("What is 2 + 2?"))]);
///     let response = cx.calls().complete(ProviderCall::of(&provider), &request).await?;
///     Ok(Answers::update().answer(response.message.text()))
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let graph = Graph::<Answers>::builder().node("ask", ask).edge("ask", END).entry("ask").compile()?;
/// # let RunOutcome::Completed(run) = graph.invoke(Answers::update(), InvokeOptions::new()).await? else { unreachable!() };
/// # assert_eq!(run.state.answer, "4");
/// # Ok::<(), singletree_engine::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct ObservedCalls(Option<CallOrigin>);

/// Numbers the calls of one attempt of a node.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    next: AtomicU64,
    /// The ids of the model's calls that were answered; held for a change only.
    answered: Mutex<Vec<String>>,
}

impl CallNumbers {
    fn take_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the id of a model's call, with a number where it is answered again.
    fn name_answer(&self, id: &str) -> String {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = answered.iter().filter(|other| *other == id).count();
        answered.push(id.to_owned());
        if before == 0 { id.to_owned() } else { format!("{id}#{before}") }
    }
}

/// Where calls are made.
#[derive(Clone)]
enum CallOrigin {
    Node(Arc<NodeAttempt>),
    Middleware(Arc<MiddlewareOrigin>),
}

struct MiddlewareOrigin {
    run: Arc<RunContext>,
    observers: Arc<[Subscription]>,
    metadata: Arc<MetadataScope>,
    source: EventSource,
}

impl ObservedCalls {
    /// Reports nothing: for code that runs in no invocation.
    #[must_use]
    pub fn unobserved() -> Self {
        Self(None)
    }

    pub(crate) fn of_node(scope: &Arc<NodeAttempt>) -> Self {
        Self(scope.run.events.is_some().then(|| CallOrigin::Node(scope.clone())))
    }

    pub(crate) fn of_middleware(unit: &UnitContext) -> Self {
        Self(unit.run.events.is_some().then(|| {
            CallOrigin::Middleware(Arc::new(MiddlewareOrigin {
                run: unit.run.clone(),
                observers: unit.level.observers.clone(),
                metadata: unit.metadata.clone(),
                source: unit.event_source(),
            }))
        }))
    }

    /// Makes a call of a model and reports it: its pieces never, its attempts and its end.
    ///
    /// # Errors
    /// Those of [`ProviderCall::complete`].
    ///
    /// # Cancellation
    /// As [`ProviderCall::complete`]; a call that was dropped has no event.
    pub async fn complete(
        &self,
        call: ProviderCall<'_>,
        request: &Request,
    ) -> Result<Response, singletree_llm::Error> {
        let scope = self.begin_model_call(call.provider(), request);
        let answered = call.reporting_to(&scope).complete(request).await;
        scope.end(answered.as_ref());
        answered
    }

    /// As [`complete`](Self::complete), piece by piece: each is reported, and then shown.
    ///
    /// # Errors
    /// Those of [`ProviderCall::complete_with_updates`].
    ///
    /// # Cancellation
    /// As [`complete`](Self::complete).
    pub async fn complete_with_updates(
        &self,
        call: ProviderCall<'_>,
        request: &Request,
        on_shown: impl FnMut(ModelStreamUpdate<'_>) + Send,
    ) -> Result<Response, singletree_llm::Error> {
        let scope = self.begin_model_call(call.provider(), request);
        let answered = call.reporting_to(&scope).complete_with_updates(request, on_shown).await;
        scope.end(answered.as_ref());
        answered
    }

    /// Begins the report of a model call that the caller makes itself, with
    /// [`ProviderCall::reporting_to`] and [`ModelCallScope::end`].
    pub fn begin_model_call(&self, provider: &dyn Provider, request: &Request) -> ModelCallScope {
        ModelCallScope::begin(self.clone(), provider, request)
    }

    /// Runs a tool and reports it. The error goes on to the caller.
    ///
    /// # Errors
    /// Those of the tool.
    ///
    /// # Cancellation
    /// Dropping the future drops the tool's; there is no event then.
    pub async fn run_tool<T, E>(
        &self,
        tool: ToolRun<'_>,
        work: impl Future<Output = Result<T, E>>,
        to_value: impl FnOnce(&T) -> Value,
    ) -> Result<T, E>
    where
        E: fmt::Display,
    {
        let scope = self.begin_tool_call(tool);
        let returned = scope.run_in_trace(work).await;
        match &returned {
            Ok(result) => scope.complete(|| to_value(result)),
            Err(error) => scope.fail(Some(std::any::type_name::<E>()), || error.to_string()),
        }
        returned
    }

    /// Begins the report of one execution of a tool. Its events carry the identity of the node that begins it here,
    /// wherever its outcome is known.
    pub fn begin_tool_call(&self, tool: ToolRun<'_>) -> ToolCallScope {
        ToolCallScope::begin(self.clone(), tool)
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.0.is_some()
    }

    /// Tells whether an observer hears of the calls, and not only the port that keeps the run.
    pub(crate) fn reaches_observers(&self) -> bool {
        self.run().and_then(|run| run.events.as_ref()).is_some_and(|events| events.observer_queue().is_some())
    }

    pub(crate) fn run(&self) -> Option<&Arc<RunContext>> {
        Some(match self.0.as_ref()? {
            CallOrigin::Node(scope) => &scope.run,
            CallOrigin::Middleware(origin) => &origin.run,
        })
    }

    /// Describes where the calls are made.
    pub(crate) fn event_source(&self) -> Option<EventSource> {
        Some(match self.0.as_ref()? {
            CallOrigin::Node(scope) => scope.event_source(),
            CallOrigin::Middleware(origin) => origin.source.clone(),
        })
    }

    /// Names a call by its place in the run, so that a run that repeats it gives it the same name.
    pub(crate) fn take_call_id(&self) -> Option<Arc<str>> {
        Some(match self.0.as_ref()? {
            CallOrigin::Node(scope) => {
                let number = scope.calls.take_number();
                let invocation = &scope.run.who.identity.invocation_id;
                format!("{invocation}:{}.{}.{number}", scope.step, scope.attempt).into()
            }
            CallOrigin::Middleware(origin) => {
                let number = origin.run.middleware_calls.fetch_add(1, Ordering::Relaxed);
                format!("{}:middleware.{number}", origin.run.who.identity.invocation_id).into()
            }
        })
    }

    /// Names the execution of a tool: by the id of the model's call where it answers one, which is the same when a run
    /// that died goes on and skips the executions that are recorded; else as any call.
    pub(crate) fn take_tool_call_id(&self, tool_call_id: Option<&str>) -> Option<Arc<str>> {
        match (self.0.as_ref()?, tool_call_id) {
            (CallOrigin::Node(scope), Some(id)) => {
                let invocation = &scope.run.who.identity.invocation_id;
                let name = scope.calls.name_answer(id);
                Some(format!("{invocation}:{}.{}:{name}", scope.step, scope.attempt).into())
            }
            _ => self.take_call_id(),
        }
    }

    /// Returns the caller's metadata for an event.
    pub(crate) fn observed_metadata(&self) -> CallerMetadata {
        match self.0.as_ref()? {
            CallOrigin::Node(scope) => scope.run.observed_metadata(&scope.level.metadata),
            CallOrigin::Middleware(origin) => origin.run.observed_metadata(&origin.metadata),
        }
    }

    pub(crate) fn dispatch(&self, event: GraphEvent) {
        let Some(origin) = &self.0 else { return };
        let (run, observers) = match origin {
            CallOrigin::Node(scope) => (&scope.run, &scope.level.observers),
            CallOrigin::Middleware(origin) => (&origin.run, &origin.observers),
        };
        if let Some(events) = &run.events {
            events.dispatch_event(event, observers.clone());
        }
    }
}

impl fmt::Debug for ObservedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObservedCalls({})", if self.is_observed() { "observed" } else { "unobserved" })
    }
}

/// One execution of a tool, for [`ObservedCalls::begin_tool_call`].
#[derive(Debug, Clone, Copy)]
pub struct ToolRun<'a> {
    /// The tool's name.
    pub tool_name: &'a str,
    /// The arguments, if it takes any.
    pub arguments: Option<&'a Map<String, Value>>,
    /// The id of the model's call that it answers; nothing for a function that no model asked for.
    pub tool_call_id: Option<&'a str>,
}

impl ToolRun<'_> {
    pub(crate) fn describe(self, source: EventSource, call_id: Arc<str>) -> ToolExecution {
        ToolExecution {
            source,
            call_id,
            tool_name: self.tool_name.to_owned(),
            tool_call_id: self.tool_call_id.map(str::to_owned),
            arguments: self.arguments.cloned(),
        }
    }
}
