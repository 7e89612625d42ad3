//! Who the running invocation is, readable anywhere in its call tree (sessions §3).

use std::future::Future;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::InvocationId;

use super::attempt::OpenAttempt;
use super::chain::Seat;
use super::fault::NodeError;
use super::level::outwards;
use super::outcome::Identity;
use super::scope::{Run, Scope};
use super::signal::Signal;
use super::suspend::Abort;
use crate::error::Error;
use crate::plan::snapshot::Snapshot;

/// The identity of an invocation and the caller's metadata.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) identity: Arc<Identity>,
    pub(crate) metadata: Arc<Map<String, Value>>,
}

#[derive(Clone)]
enum Ambient {
    /// Inside an invocation, but in no node's body: an edge function, a reducer.
    Invocation(Who),
    /// Inside an observer.
    Observer(Who),
    /// Inside a middleware.
    Middleware(Arc<Wrapping>),
    /// Inside a node's body.
    Node(Arc<Scope>),
}

/// Where a middleware runs.
struct Wrapping {
    run: Arc<Run>,
    /// The attempt of the innermost container around it.
    within: Option<Arc<Scope>>,
    open: Arc<OpenAttempt>,
    /// The state that the middleware received.
    state: Snapshot,
}

impl Ambient {
    fn who(&self) -> &Who {
        match self {
            Self::Invocation(who) | Self::Observer(who) => who,
            Self::Middleware(wrapping) => &wrapping.run.who,
            Self::Node(scope) => &scope.run.who,
        }
    }
}

tokio::task_local! {
    static AMBIENT: Ambient;
}

/// Returns the identity of the invocation that this code runs in: in a node, in an observer, and in functions called by
/// them.
///
/// It does not cross `tokio::spawn`.
#[must_use]
pub fn current() -> Option<Arc<Identity>> {
    AMBIENT.try_with(|it| it.who().identity.clone()).ok()
}

/// Returns the caller's metadata of the running invocation
/// ([`InvokeOptions::metadata`](crate::InvokeOptions::metadata)); reaches as far as [`current`].
#[must_use]
pub fn current_metadata() -> Option<Arc<Map<String, Value>>> {
    AMBIENT.try_with(|it| it.who().metadata.clone()).ok()
}

/// Tells whether this code runs in an observer of an invocation.
pub(crate) fn observes(invocation: &InvocationId) -> bool {
    let observes = AMBIENT.try_with(|ambient| match ambient {
        Ambient::Observer(who) => who.identity.invocation_id == *invocation,
        Ambient::Invocation(_) | Ambient::Middleware(_) | Ambient::Node(_) => false,
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
pub async fn suspend(signal: Signal) -> NodeError {
    enum From {
        Nowhere,
        Middleware(Arc<Wrapping>),
        Node(Arc<Scope>),
    }
    let from = AMBIENT.try_with(|ambient| match ambient {
        Ambient::Invocation(_) | Ambient::Observer(_) => From::Nowhere,
        Ambient::Middleware(wrapping) => From::Middleware(wrapping.clone()),
        Ambient::Node(scope) => From::Node(scope.clone()),
    });
    match from {
        Ok(From::Node(scope)) => scope.suspend(signal).await,
        Ok(From::Middleware(wrapping)) => {
            let error = Error::SuspensionContext {
                context: "in a middleware".into(),
                state: Some(wrapping.state.clone()),
            };
            let scopes = wrapping.open.take().into_iter().chain(outwards(wrapping.within.clone())).collect();
            wrapping.run.requests.abort(Abort { error, scopes }).await
        }
        Ok(From::Nowhere) => unsupported("inside an invocation, but not in a node's body"),
        Err(_) => unsupported("outside an invocation"),
    }
}

fn unsupported(context: &str) -> NodeError {
    Error::SuspensionContext { context: context.into(), state: None }.into()
}

pub(crate) async fn within<T>(who: Who, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(Ambient::Invocation(who), work).await
}

pub(crate) async fn within_observer<T>(who: Who, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(Ambient::Observer(who), work).await
}

pub(crate) async fn within_node<T>(scope: Arc<Scope>, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(Ambient::Node(scope), work).await
}

pub(crate) async fn within_middleware<T>(seat: &Seat, state: &Snapshot, work: impl Future<Output = T>) -> T {
    let (run, within, open) = (seat.run.clone(), seat.within.clone(), seat.open.clone());
    let wrapping = Arc::new(Wrapping { run, within, open, state: state.clone() });
    AMBIENT.scope(Ambient::Middleware(wrapping), work).await
}
