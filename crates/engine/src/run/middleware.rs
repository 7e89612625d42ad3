//! Middleware: code that runs around nodes (pipeline-utilities §§2–3).

pub(crate) mod around;
pub(crate) mod isolation;
pub(crate) mod retry;
pub(crate) mod timing;

use std::sync::Arc;

use singletree_durable::BoxFuture;
use singletree_graph::{Snapshot, StateUpdate};

use super::chain::Next;
use super::fault::NodeError;
use crate::plan::problem::GraphProblem;

/// Runs around a node, an instance of a fan-out or a branch: sees the state on the way in and the update on the way
/// out.
///
/// The code before the call of `next` runs on the way in, the code after it on the way out. A middleware may hand
/// another state inwards, change the update, not call `next` at all, recover from its error, or call it again. The
/// update that the outermost middleware returns is merged into the state that the graph has, whatever state was handed
/// inwards. An error that leaves the chain is the node's.
///
/// One value serves all executions, also concurrent ones: they share the data that the value keeps between calls.
///
/// A chain around an instance or a branch speaks the terms of its graph: state and update are the inner graph's.
///
/// # Suspension
/// When an inner node suspends, the chain is dropped at its current await: nothing after `next` runs except destructors
/// (suspension §8.4). A middleware cannot suspend itself: [`suspend_invocation`](crate::suspend_invocation) in one ends the invocation with
/// `suspension_in_unsupported_context`.
///
/// # Cancellation
/// Dropping the future is how a run is cancelled, at any await. A middleware that drops the future of `next` (a time
/// limit) cancels the inner part of the chain.
pub trait Middleware: Send + Sync {
    /// Runs around `next`.
    ///
    /// # Errors
    /// The error of `next`, or one of the middleware's own; both are the node's unless a middleware further out
    /// recovers.
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        next: Next<'a>,
    ) -> BoxFuture<'a, std::result::Result<StateUpdate, NodeError>>;

    /// Asks, when a graph is compiled, how the middleware stands at a site: as it is (`None`), or as another one that
    /// is bound to the site.
    ///
    /// # Errors
    /// Why it cannot stand there: a problem of the graph.
    fn bind_to_site(
        &self,
        site: &MiddlewareSite<'_>,
    ) -> std::result::Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        let _ = site;
        Ok(None)
    }

    /// Tells whether the middleware numbers attempts ([`Next::run_attempt`]). After a suspension the innermost one that
    /// does goes on with the number of the attempt that suspended ([`Next::first_attempt_number`]).
    fn numbers_attempts(&self) -> bool {
        false
    }

    /// Returns the name of the middleware in pictures and descriptions; by default the name of its type.
    fn name(&self) -> &str {
        let path = std::any::type_name::<Self>();
        let outer = path.split('<').next().unwrap_or(path);
        outer.rsplit("::").next().unwrap_or(outer)
    }
}

/// Where a middleware is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MiddlewareSite<'a> {
    /// Around every node of a graph; asked once for each of them.
    Graph {
        /// The node.
        node: &'a str,
    },
    /// Around one node.
    Node {
        /// The node.
        node: &'a str,
    },
    /// Around each instance of a fan-out.
    Instance {
        /// The fan-out node.
        node: &'a str,
        /// The child field that is collected, if one is.
        collect_field: Option<&'a str>,
    },
    /// Around one of parallel branches.
    Branch {
        /// The node that dispatches the branches.
        node: &'a str,
        /// The branch.
        branch: &'a str,
    },
}

impl MiddlewareSite<'_> {
    /// Returns the name of the surrounded work: the branch's for a branch, else the node's.
    #[must_use]
    pub fn surrounded_name(&self) -> &str {
        match self {
            Self::Graph { node } | Self::Node { node } | Self::Instance { node, .. } => node,
            Self::Branch { branch, .. } => branch,
        }
    }
}

/// A shared middleware stands where its owner says.
impl<M: Middleware + ?Sized> Middleware for Arc<M> {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        next: Next<'a>,
    ) -> BoxFuture<'a, std::result::Result<StateUpdate, NodeError>> {
        self.as_ref().call(state, next)
    }

    fn bind_to_site(
        &self,
        site: &MiddlewareSite<'_>,
    ) -> std::result::Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        self.as_ref().bind_to_site(site)
    }

    fn numbers_attempts(&self) -> bool {
        self.as_ref().numbers_attempts()
    }

    fn name(&self) -> &str {
        self.as_ref().name()
    }
}

/// A chain of middleware, outermost first.
pub(crate) type MiddlewareChain = Arc<[Arc<dyn Middleware>]>;

/// Puts middleware at a site; a middleware that cannot stand there is a problem.
pub(crate) fn place_middleware<'a>(
    middleware: impl IntoIterator<Item = &'a Arc<dyn Middleware>>,
    site: &MiddlewareSite<'_>,
    problems: &mut Vec<GraphProblem>,
) -> Vec<Arc<dyn Middleware>> {
    let mut placed = Vec::new();
    for each in middleware {
        match each.bind_to_site(site) {
            Ok(bound) => placed.push(bound.unwrap_or_else(|| each.clone())),
            Err(problem) => problems.push(problem),
        }
    }
    placed
}
