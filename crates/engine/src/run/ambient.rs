//! Who the running invocation is, readable anywhere in its call tree (sessions §3).

use std::future::Future;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::InvocationId;
use singletree_graph::{Identity, Snapshot};

use super::attempt::OpenAttempt;
use super::chain::UnitContext;
use super::fault::NodeError;
use super::level::containers_outwards;
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
    Invocation(CurrentInvocation),
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
}

impl AmbientContext {
    fn current_invocation(&self) -> &CurrentInvocation {
        match self {
            Self::Invocation(who) | Self::Observer(who) => who,
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

/// Returns the caller's metadata of the running invocation
/// ([`InvokeOptions::metadata`](crate::InvokeOptions::metadata)); reaches as far as [`current_identity`].
#[must_use]
pub fn current_metadata() -> Option<Arc<Map<String, Value>>> {
    AMBIENT.try_with(|it| it.current_invocation().metadata.clone()).ok()
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

pub(crate) async fn run_in_invocation<T>(who: CurrentInvocation, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(AmbientContext::Invocation(who), work).await
}

pub(crate) async fn run_in_observer<T>(who: CurrentInvocation, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(AmbientContext::Observer(who), work).await
}

pub(crate) async fn run_in_node<T>(scope: Arc<NodeAttempt>, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(AmbientContext::Node(scope), work).await
}

pub(crate) async fn run_in_middleware<T>(
    seat: &UnitContext,
    state: &Snapshot,
    work: impl Future<Output = T>,
) -> T {
    let (run, within, open) = (seat.run.clone(), seat.within.clone(), seat.open.clone());
    let wrapping = Arc::new(MiddlewareContext { run, within, open, state: state.clone() });
    AMBIENT.scope(AmbientContext::Middleware(wrapping), work).await
}
