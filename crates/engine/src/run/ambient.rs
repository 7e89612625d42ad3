//! Who the running invocation is, readable anywhere in its call tree (sessions §3).

use std::future::Future;
use std::sync::Arc;

use super::fault::NodeError;
use super::outcome::Identity;
use super::scope::Scope;
use super::signal::Signal;

#[derive(Clone)]
enum Ambient {
    /// Inside an invocation, but in no node's body: an observer.
    Invocation(Arc<Identity>),
    /// Inside a node's body.
    Node(Arc<Scope>),
}

tokio::task_local! {
    static AMBIENT: Ambient;
}

/// Returns who the invocation is that this code runs in: in a node, in an observer, and in what they call.
///
/// It does not cross `tokio::spawn`.
#[must_use]
pub fn current() -> Option<Arc<Identity>> {
    let identity = AMBIENT.try_with(|ambient| match ambient {
        Ambient::Invocation(identity) => identity.clone(),
        Ambient::Node(scope) => scope.run.identity.clone(),
    });
    identity.ok()
}

/// Suspends the invocation that this code runs in, as [`Ctx::suspend`](crate::Ctx::suspend) does, from a function that was not
/// handed the context.
///
/// # Errors
/// `suspension_in_unsupported_context` outside a node's body (suspension §3); otherwise it fails only when the pause
/// could not be recorded (`suspension_persistence_failed`), and does not return when it could.
pub async fn suspend(signal: Signal) -> NodeError {
    let scope = AMBIENT.try_with(|ambient| match ambient {
        Ambient::Invocation(_) => None,
        Ambient::Node(scope) => Some(scope.clone()),
    });
    match scope {
        Ok(Some(scope)) => scope.suspend(signal).await,
        Ok(None) => unsupported("inside an invocation, but not in a node's body"),
        Err(_) => unsupported("outside an invocation"),
    }
}

fn unsupported(context: &str) -> NodeError {
    crate::Error::SuspensionContext { context: context.into() }.into()
}

pub(crate) async fn within<T>(identity: Arc<Identity>, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(Ambient::Invocation(identity), work).await
}

pub(crate) async fn within_node<T>(scope: Arc<Scope>, work: impl Future<Output = T>) -> T {
    AMBIENT.scope(Ambient::Node(scope), work).await
}
