//! Trying again (pipeline-utilities §6.1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::BoxFuture;
use singletree_graph::{Snapshot, StateUpdate};

use super::super::chain::Next;
use super::super::classify;
use super::super::fault::NodeError;
use super::{Middleware, MiddlewareSite};
use crate::plan::problem::{GraphProblem, GraphProblemKind};

/// The categories that may go away by themselves (llm-provider §7).
const TRANSIENT: [&str; 3] = ["provider_unavailable", "provider_rate_limit", "provider_model_not_loaded"];

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
            && (direct.transient || direct.category.is_some_and(|category| TRANSIENT.contains(&category)))
    })
}

type Classifier = Arc<dyn Fn(&NodeError, &Snapshot) -> bool + Send + Sync>;
type OnRetry = Arc<dyn for<'a> Fn(&'a NodeError, u32) -> BoxFuture<'a, Result<(), NodeError>> + Send + Sync>;

/// How long to wait before another attempt, by the number of the one that failed.
#[derive(Clone)]
pub enum RetryBackoff {
    /// Anything from nothing up to a limit that doubles with each attempt: the default, 1 s up to 30 s. Callers that
    /// failed together come back apart.
    Jittered {
        /// The limit after the first attempt.
        base: Duration,
        /// The limit's own limit.
        cap: Duration,
    },
    /// Always the same.
    Constant(Duration),
    /// As a function says.
    By(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl RetryBackoff {
    /// Makes a backoff of a function of the number of the attempt that failed, from 0.
    pub fn single_node(wait: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self::By(Arc::new(wait))
    }

    /// Returns the wait after an attempt; `fraction` is drawn where there is jitter.
    fn wait_after_attempt(&self, attempt: u32, fraction: impl FnOnce() -> f64) -> Duration {
        match self {
            Self::Jittered { base, cap } => {
                let doubled = 2_u32.checked_pow(attempt).and_then(|factor| base.checked_mul(factor));
                doubled.unwrap_or(*cap).min(*cap).mul_f64(fraction())
            }
            Self::Constant(wait) => *wait,
            Self::By(wait) => wait(attempt),
        }
    }
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self::Jittered { base: Duration::from_secs(1), cap: Duration::from_secs(30) }
    }
}

impl fmt::Debug for RetryBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jittered { base, cap } => write!(f, "Jittered({base:?}..{cap:?})"),
            Self::Constant(wait) => write!(f, "Constant({wait:?})"),
            Self::By(_) => f.write_str("By(..)"),
        }
    }
}

/// Repeats a node, an instance or a branch that failed for a reason that may go away.
///
/// Each attempt has its own pair of events and its own `attempt_index`. Data that looks like an error is not one: only
/// failures are retried. Inside of [`FailureIsolation`](crate::FailureIsolation), never outside: isolation would catch
/// the failures that are to be retried.
#[derive(Clone)]
pub struct Retry {
    max_attempts: u32,
    classifier: Classifier,
    backoff: RetryBackoff,
    on_retry: Option<OnRetry>,
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

impl Retry {
    /// Makes a retry of three attempts, for errors that are transient ([`is_transient_error`]), with the default backoff.
    #[must_use]
    pub fn new() -> Self {
        let classifier: Classifier = Arc::new(|error, _| is_transient_error(error));
        Self { max_attempts: 3, classifier, backoff: RetryBackoff::default(), on_retry: None }
    }

    /// Sets how many attempts there are in all; 1 never tries again, 0 does not compile.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets which failures are retried, by the error and the state that the failed attempt began with.
    #[must_use]
    pub fn classifier(
        mut self,
        retryable: impl Fn(&NodeError, &Snapshot) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.classifier = Arc::new(retryable);
        self
    }

    /// Sets how long to wait.
    #[must_use]
    pub fn backoff(mut self, backoff: RetryBackoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets a callback that is called before each wait, with the error and the number of the attempt that failed, from
    /// 0. Its own error ends the attempts.
    #[must_use]
    pub fn on_retry<F>(mut self, hear: F) -> Self
    where
        F: for<'a> Fn(&'a NodeError, u32) -> BoxFuture<'a, Result<(), NodeError>> + Send + Sync + 'static,
    {
        self.on_retry = Some(Arc::new(hear));
        self
    }
}

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
                if attempt.saturating_add(1) >= self.max_attempts || !(self.classifier)(&error, state) {
                    return Err(error);
                }
                if let Some(hear) = &self.on_retry {
                    hear(&error, attempt).await?;
                }
                let wait = self.backoff.wait_after_attempt(attempt, || next.draw_fraction());
                // The shortest wait of a timer is longer than none.
                if !wait.is_zero() {
                    next.sleep_for(wait).await;
                }
                attempt += 1;
            }
        })
    }

    fn bind_to_site(&self, site: &MiddlewareSite<'_>) -> Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        if self.max_attempts == 0 {
            let message = format!("a retry at '{}' has no attempt at all", site.surrounded_name());
            return Err(GraphProblem { kind: GraphProblemKind::InvalidDeclaration, message });
        }
        Ok(None)
    }

    fn numbers_attempts(&self) -> bool {
        true
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}
