//! How long nodes take (pipeline-utilities §6.2).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use singletree_durable::BoxFuture;
use singletree_env::{MonotonicClock, SystemMonotonicClock};
use singletree_graph::{Snapshot, StateUpdate};

use super::super::chain::Next;
use super::super::fault::NodeError;
use super::{Middleware, MiddlewareSite};
use crate::plan::problem::{GraphProblem, GraphProblemKind};

/// How a timed dispatch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedOutcome {
    /// The chain returned.
    Success,
    /// The chain failed.
    Exception,
}

impl TimedOutcome {
    /// Returns the specification's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Exception => "exception",
        }
    }
}

/// One timed dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct TimingRecord {
    /// The node (for a branch, the branch) that was timed.
    pub node_name: String,
    /// Milliseconds from entering the middleware to the return or failure of the inner part of the chain.
    pub duration_ms: f64,
    /// How it ended.
    pub outcome: TimedOutcome,
    /// The category of the failure, when it has one itself; causes are not looked at.
    pub exception_category: Option<String>,
}

type OnComplete = Arc<dyn Fn(TimingRecord) -> BoxFuture<'static, Result<(), NodeError>> + Send + Sync>;

/// Times the inner part of its chain, with a monotonic clock of its own, and hands each record to a function.
///
/// The function is awaited before the result goes on outwards: a slow one slows the node, and its error is the node's.
/// Outside of [`Retry`](crate::Retry) the time includes all attempts and pauses, inside of it there is one record for
/// each attempt. A node that suspends or is cancelled has no record.
#[derive(Clone)]
pub struct Timing {
    node: Option<Arc<str>>,
    clock: Arc<dyn MonotonicClock>,
    on_complete: OnComplete,
}

impl Timing {
    /// Makes a timing for one site, under this name in its records.
    pub fn for_node<F, Fut>(node: &str, on_complete: F) -> Self
    where
        F: Fn(TimingRecord) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), NodeError>> + Send + 'static,
    {
        Self { node: Some(node.into()), ..Self::for_each_site(on_complete) }
    }

    /// Makes a timing that takes the name of each site at which it stands, when the graph is compiled: the form for a
    /// whole graph.
    pub fn for_each_site<F, Fut>(on_complete: F) -> Self
    where
        F: Fn(TimingRecord) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), NodeError>> + Send + 'static,
    {
        let clock = Arc::new(SystemMonotonicClock::default());
        Self { node: None, clock, on_complete: Arc::new(move |it| Box::pin(on_complete(it))) }
    }

    /// Sets the clock. It is read exactly twice for each dispatch.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn MonotonicClock>) -> Self {
        self.clock = clock;
        self
    }
}

impl Middleware for Timing {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let started = self.clock.elapsed_since_origin();
            let returned = next.run(state).await;
            let duration_ms = self.clock.elapsed_since_origin().saturating_sub(started).as_secs_f64() * 1e3;
            let (outcome, exception_category) = match &returned {
                Ok(_) => (TimedOutcome::Success, None),
                Err(error) => (TimedOutcome::Exception, error.category().map(str::to_owned)),
            };
            let node_name = self.node.as_deref().unwrap_or(next.node_name()).to_owned();
            let record = TimingRecord { node_name, duration_ms, outcome, exception_category };
            (self.on_complete)(record).await?;
            returned
        })
    }

    fn bind_to_site(&self, site: &MiddlewareSite<'_>) -> Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        match (site, &self.node) {
            (MiddlewareSite::Graph { node }, Some(name)) if *node != name.as_ref() => {
                let message = format!(
                    "a timing named '{name}' stands around every node, also around '{node}'; `Timing::each` takes each node's name"
                );
                Err(GraphProblem { kind: GraphProblemKind::InvalidDeclaration, message })
            }
            (_, Some(_)) => Ok(None),
            (site, None) => {
                let bound = Self { node: Some(site.surrounded_name().into()), ..self.clone() };
                Ok(Some(Arc::new(bound)))
            }
        }
    }
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing").field("node", &self.node).finish_non_exhaustive()
    }
}
