//! Who the running invocation is, readable anywhere in its call tree (sessions §3).

use std::future::Future;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::InvocationId;
use singletree_env::TraceHeaders;
use singletree_graph::{Identity, Snapshot};
use tracing::{Instrument as _, Span};

use super::attempt::OpenAttempt;
use super::call_tracing::TracedCall;
use super::calls::ObservedCalls;
use super::chain::UnitContext;
use super::event::GraphEvent;
use super::fault::NodeError;
use super::level::containers_outwards;
use super::lifecycle_event::MetadataEvent;
use super::log_span::{identity_span, invocation_span, node_span, record_user};
use super::metadata::{MetadataScope, check_metadata};
use super::scope::{NodeAttempt, RunContext};
use super::signal::Signal;
use super::suspend::AbortRequest;
use crate::error::Error;

/// The identity of an invocation and the caller's metadata.
#[derive(Clone)]
pub(crate) struct CurrentInvocation {
    pub(crate) identity: Arc<Identity>,
    pub(crate) metadata: Arc<Map<String, Value>>,
}

#[derive(Clone)]
enum AmbientContext {
    /// Inside an invocation, but in no node's body: an edge function, a reducer.
    Invocation(Arc<RunContext>),
    /// Inside an observer.
    Observer(CurrentInvocation),
    /// Inside a middleware.
    Middleware(Arc<MiddlewareContext>),
    /// Inside a node's body.
    Node(Arc<NodeAttempt>),
}

/// Where a middleware runs.
struct MiddlewareContext {
    run: Arc<RunContext>,
    /// The attempt of the innermost container around it.
    within: Option<Arc<NodeAttempt>>,
    open: Arc<OpenAttempt>,
    /// The state that the middleware received.
    state: Snapshot,
    metadata: Arc<MetadataScope>,
    calls: ObservedCalls,
}

impl AmbientContext {
    fn current_invocation(&self) -> &CurrentInvocation {
        match self {
            Self::Observer(who) => who,
            Self::Invocation(run) => &run.who,
            Self::Middleware(wrapping) => &wrapping.run.who,
            Self::Node(scope) => &scope.run.who,
        }
    }
}

tokio::task_local! {
    static AMBIENT: AmbientContext;
}

/// Returns the identity of the invocation that this code runs in: in a node, in an observer, and in functions called by
/// them.
///
/// It does not cross `tokio::spawn`.
#[must_use]
pub fn current_identity() -> Option<Arc<Identity>> {
    AMBIENT.try_with(|it| it.current_invocation().identity.clone()).ok()
}

/// Returns the caller's metadata as this code sees it: of the invocation
/// ([`InvokeOptions::metadata`](crate::InvokeOptions::metadata)) and with what was added on the way here
/// ([`add_invocation_metadata`]). An observer sees what the invocation began with. Empty outside of an invocation;
/// reaches as far as [`current_identity`].
///
/// spec: observability §3.4
#[must_use]
pub fn current_metadata() -> Arc<Map<String, Value>> {
    let entries = AMBIENT.try_with(|ambient| match ambient {
        AmbientContext::Invocation(run) => run.metadata.entries(),
        AmbientContext::Observer(who) => who.metadata.clone(),
        AmbientContext::Middleware(wrapping) => wrapping.metadata.entries(),
        AmbientContext::Node(scope) => scope.level.metadata.entries(),
    });
    entries.unwrap_or_default()
}

/// Adds to the caller's metadata from a function that was not handed the context, as
/// [`Ctx::add_metadata`](crate::Ctx::add_metadata) does. Outside of nodes and middleware it does nothing.
///
/// # Errors
/// `invalid_argument` for a reserved key or a value that is neither a scalar nor an array of scalars; then nothing is
/// added.
pub fn add_invocation_metadata(entries: Map<String, Value>) -> crate::Result<()> {
    check_metadata(&entries)?;
    let added = AMBIENT.try_with(|ambient| match ambient {
        AmbientContext::Invocation(_) | AmbientContext::Observer(_) => None,
        AmbientContext::Middleware(wrapping) => Some((wrapping.metadata.clone(), wrapping.calls.clone())),
        AmbientContext::Node(scope) => Some((scope.level.metadata.clone(), ObservedCalls::of_node(scope))),
    });
    if let Ok(Some((scope, calls))) = added {
        add_to_scope(&scope, &calls, entries);
    }
    Ok(())
}

/// Returns the reports of calls for code that was not handed the context, as [`Ctx::calls`](crate::Ctx::calls) does.
/// Outside of nodes and middleware it reports nothing.
#[must_use]
pub fn current_calls() -> ObservedCalls {
    let calls = AMBIENT.try_with(|ambient| match ambient {
        AmbientContext::Invocation(_) | AmbientContext::Observer(_) => ObservedCalls::unobserved(),
        AmbientContext::Middleware(wrapping) => wrapping.calls.clone(),
        AmbientContext::Node(scope) => ObservedCalls::of_node(scope),
    });
    calls.unwrap_or_else(|_| ObservedCalls::unobserved())
}

/// Adds entries that were checked, and tells observers.
pub(crate) fn add_to_scope(scope: &MetadataScope, calls: &ObservedCalls, entries: Map<String, Value>) {
    if let Some((source, run)) = calls.event_source().zip(calls.run()) {
        let at = run.core.env.clock.now();
        calls.dispatch(GraphEvent::MetadataAdded(MetadataEvent { source, at, entries: entries.clone() }));
    }
    scope.add_entries(entries);
    record_user(&Span::current(), &scope.entries());
}

/// Tells whether this code runs in an observer of an invocation.
pub(crate) fn is_in_observer_of(invocation: &InvocationId) -> bool {
    let observes = AMBIENT.try_with(|ambient| match ambient {
        AmbientContext::Observer(who) => who.identity.invocation_id == *invocation,
        AmbientContext::Invocation(_) | AmbientContext::Middleware(_) | AmbientContext::Node(_) => false,
    });
    observes.unwrap_or(false)
}

/// Suspends the invocation that this code runs in, as [`Ctx::suspend`](crate::Ctx::suspend) does, from a function that
/// was not handed the context.
///
/// # Errors
/// `suspension_in_unsupported_context` outside a node's body (suspension §3); otherwise it fails only when the pause
/// could not be recorded (`suspension_persistence_failed`), and does not return when it could.
///
/// In a middleware it does not return either: the invocation ends with `suspension_in_unsupported_context`.
pub async fn suspend_invocation(signal: Signal) -> NodeError {
    enum SuspendOrigin {
        Nowhere,
        Middleware(Arc<MiddlewareContext>),
        Node(Arc<NodeAttempt>),
    }
    let from = AMBIENT.try_with(|ambient| match ambient {
        AmbientContext::Invocation(_) | AmbientContext::Observer(_) => SuspendOrigin::Nowhere,
        AmbientContext::Middleware(wrapping) => SuspendOrigin::Middleware(wrapping.clone()),
        AmbientContext::Node(scope) => SuspendOrigin::Node(scope.clone()),
    });
    match from {
        Ok(SuspendOrigin::Node(scope)) => scope.request_suspension(signal).await,
        Ok(SuspendOrigin::Middleware(wrapping)) => {
            let error = Error::SuspensionContext {
                context: "in a middleware".into(),
                state: Some(wrapping.state.clone()),
            };
            let scopes = wrapping
                .open
                .take_attempt()
                .into_iter()
                .chain(containers_outwards(wrapping.within.clone()))
                .collect();
            wrapping.run.requests.request_abort(AbortRequest { error, scopes }).await
        }
        Ok(SuspendOrigin::Nowhere) => {
            unsupported_context_error("inside an invocation, but not in a node's body")
        }
        Err(_) => unsupported_context_error("outside an invocation"),
    }
}

fn unsupported_context_error(context: &str) -> NodeError {
    Error::SuspensionContext { context: context.into(), state: None }.into()
}

pub(crate) async fn run_in_invocation<T>(run: Arc<RunContext>, work: impl Future<Output = T>) -> T {
    let span = invocation_span(&run);
    AMBIENT.scope(AmbientContext::Invocation(run), work).instrument(span).await
}

pub(crate) async fn run_in_observer<T>(who: CurrentInvocation, work: impl Future<Output = T>) -> T {
    let span = identity_span(&who);
    AMBIENT.scope(AmbientContext::Observer(who), work).instrument(span).await
}

pub(crate) async fn run_in_node<T>(scope: Arc<NodeAttempt>, work: impl Future<Output = T>) -> T {
    let traced = scope.run.tracing.as_ref();
    let trace = traced.and_then(|it| it.trace_of_call(TracedCall::Node(&scope.event_source())));
    let span = node_span(&scope, trace.as_deref());
    let work = AMBIENT.scope(AmbientContext::Node(scope), work).instrument(span);
    match trace {
        Some(trace) => TraceHeaders::scope(Some(trace), work).await,
        None => work.await,
    }
}

pub(crate) async fn run_in_middleware<T>(
    seat: &UnitContext,
    state: &Snapshot,
    work: impl Future<Output = T>,
) -> T {
    let (run, within, open) = (seat.run.clone(), seat.within.clone(), seat.open.clone());
    let (metadata, calls) = (seat.metadata.clone(), ObservedCalls::of_middleware(seat));
    let wrapping = Arc::new(MiddlewareContext { run, within, open, state: state.clone(), metadata, calls });
    AMBIENT.scope(AmbientContext::Middleware(wrapping), work).await
}
