//! Trying again (pipeline-utilities §6.1).

use std::sync::Arc;

use singletree_env::{BoxFuture, Retry, RetryableError, TRANSIENT_CATEGORIES};
use singletree_graph::{Snapshot, StateUpdate};

use super::super::chain::Next;
use super::super::classify;
use super::super::fault::NodeError;
use super::{Middleware, MiddlewareSite};
use crate::plan::problem::{GraphProblem, GraphProblemKind};

/// Checks whether an error is worth another attempt: its category is transient, or its node marked it so
/// ([`NodeError::mark_transient`]).
///
/// The function looks at the error and, where that is a wrapper of the engine's, at the error directly inside; never
/// deeper, since failures further in are retried further in. A failed branch is as transient as the failure inside it.
/// A policy that wants more walks the chain with [`NodeError::classify`].
#[must_use]
pub fn is_transient_error(error: &NodeError) -> bool {
    // The wrapper of a failed branch is skipped for the failure inside it (pipeline-utilities §11.9).
    let mut links = classify::walk_error_links(error.as_node_fault())
        .skip_while(classify::BorrowedErrorLink::wraps_branch_failure);
    let direct = match links.next() {
        Some(wrapper) if wrapper.carrier => links.next(),
        other => other,
    };
    direct.is_some_and(|direct| {
        !direct.carrier
            && (direct.transient
                || direct.category.is_some_and(|category| TRANSIENT_CATEGORIES.contains(&category)))
    })
}

impl RetryableError for NodeError {
    fn category(&self) -> Option<&str> {
        Self::category(self)
    }

    fn is_transient(&self) -> bool {
        is_transient_error(self)
    }
}

/// Repeats a node, an instance or a branch that failed for a reason that may go away.
///
/// Each attempt has its own pair of events and its own `attempt_index`. Data that looks like an error is not one: only
/// failures are retried. Inside of [`FailureIsolation`](crate::FailureIsolation), never outside: isolation would catch
/// the failures that are to be retried. The classifier is called with the [`NodeError`] and the [`Snapshot`] that the
/// failed attempt began with.
impl Middleware for Retry {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let mut attempt = next.first_attempt_number();
            loop {
                let error = match next.run_attempt(attempt, state).await {
                    Ok(update) => return Ok(update),
                    Err(error) => error,
                };
                next.settle_attempt();
                if attempt.saturating_add(1) >= self.attempt_limit() || !self.is_retryable(&error, state) {
                    return Err(error);
                }
                self.notify_on_retry(&error, attempt).await.map_err(NodeError::from_boxed)?;
                let wait = self.retry_backoff().wait_after_attempt(attempt, &error, || next.draw_fraction());
                // The shortest wait of a timer is longer than none.
                if !wait.is_zero() {
                    next.sleep_for(wait).await;
                }
                attempt += 1;
            }
        })
    }

    fn bind_to_site(&self, site: &MiddlewareSite<'_>) -> Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        if self.attempt_limit() == 0 {
            let message = format!("a retry at '{}' has no attempt at all", site.surrounded_name());
            return Err(GraphProblem { kind: GraphProblemKind::InvalidDeclaration, message });
        }
        Ok(None)
    }

    fn numbers_attempts(&self) -> bool {
        true
    }
}
