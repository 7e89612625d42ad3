//! Failure isolation: a declared update replaces a failure (pipeline-utilities §6.3).

use std::fmt;
use std::sync::Arc;

use singletree_durable::BoxFuture;
use singletree_graph::{Snapshot, StateUpdate};

use super::super::chain::Next;
use super::super::fault::NodeError;
use super::{Middleware, MiddlewareSite};
use crate::plan::problem::{GraphProblem, GraphProblemKind};

type DegradedUpdateFunction = Arc<dyn Fn(&Snapshot) -> Result<StateUpdate, NodeError> + Send + Sync>;
type FailurePredicate = Arc<dyn Fn(&NodeError) -> bool + Send + Sync>;
type OnCaught = Arc<dyn for<'a> Fn(&'a NodeError) -> BoxFuture<'a, Result<(), NodeError>> + Send + Sync>;

#[derive(Clone)]
enum DegradedUpdate {
    Fixed(StateUpdate),
    By(DegradedUpdateFunction),
}

/// Catches failures and puts a declared update in their place.
///
/// Observers see each catch ([`GraphEvent::FailureIsolated`](crate::GraphEvent::FailureIsolated)). Pauses, cancels and errors
/// that end the whole invocation are no failures and pass. The usual composition, outermost first: isolation,
/// [`Retry`](crate::Retry), node; the other way round isolation would catch the failures that are to be retried.
///
/// Around an instance of a fan-out the degraded update speaks the inner graph's fields and is the instance's whole
/// contribution; a fixed one must have the collected field.
#[derive(Clone)]
pub struct FailureIsolation {
    event_name: Arc<str>,
    degraded: DegradedUpdate,
    catch: Option<Vec<String>>,
    predicate: Option<FailurePredicate>,
    on_caught: Option<OnCaught>,
}

impl FailureIsolation {
    /// Isolates with a fixed update. The name says which place of the application degrades; it is in each event.
    pub fn new(event_name: &str, degraded: impl Into<StateUpdate>) -> Self {
        Self::with_degraded_update(event_name, DegradedUpdate::Fixed(degraded.into()))
    }

    /// Isolates with an update made from the state with which the failed chain began. Where making it fails, that is
    /// the node's failure.
    pub fn from_function(
        event_name: &str,
        degraded: impl Fn(&Snapshot) -> Result<StateUpdate, NodeError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_degraded_update(event_name, DegradedUpdate::By(Arc::new(degraded)))
    }

    fn with_degraded_update(event_name: &str, degraded: DegradedUpdate) -> Self {
        Self { event_name: event_name.into(), degraded, catch: None, predicate: None, on_caught: None }
    }

    /// Catches only these categories, as [`NodeError::classify`] finds them through the engine's wrappers.
    #[must_use]
    pub fn catch<'a>(mut self, categories: impl IntoIterator<Item = &'a str>) -> Self {
        self.catch = Some(categories.into_iter().map(str::to_owned).collect());
        self
    }

    /// Catches only errors for which this function returns true. It gets the error as it comes; around instances and
    /// branches that is the engine's wrapper. With [`FailureIsolation::catch`] both must agree.
    #[must_use]
    pub fn predicate(mut self, catches: impl Fn(&NodeError) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(catches));
        self
    }

    /// Sets a callback that is called after each catch. Its own error is the node's failure.
    #[must_use]
    pub fn on_caught<F>(mut self, hear: F) -> Self
    where
        F: for<'a> Fn(&'a NodeError) -> BoxFuture<'a, Result<(), NodeError>> + Send + Sync + 'static,
    {
        self.on_caught = Some(Arc::new(hear));
        self
    }

    fn catches_error(&self, error: &NodeError) -> bool {
        let category = || error.as_node_fault().category();
        let named = |wanted: &Vec<String>| {
            category().is_some_and(|category| wanted.iter().any(|name| name == category))
        };
        self.catch.as_ref().is_none_or(named)
            && self.predicate.as_ref().is_none_or(|predicate| predicate(error))
    }
}

impl Middleware for FailureIsolation {
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        mut next: Next<'a>,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let error = match next.run(state).await {
                Err(error) if self.catches_error(&error) => error,
                returned => return returned,
            };
            let degraded = match &self.degraded {
                DegradedUpdate::Fixed(update) => update.clone(),
                DegradedUpdate::By(derive) => derive(state)?,
            };
            next.report_isolated_failure(&self.event_name, state, &degraded, &error);
            if let Some(hear) = &self.on_caught {
                hear(&error).await?;
            }
            Ok(degraded)
        })
    }

    fn bind_to_site(&self, site: &MiddlewareSite<'_>) -> Result<Option<Arc<dyn Middleware>>, GraphProblem> {
        if self.event_name.is_empty() {
            let message = format!("a failure isolation at '{}' has no event name", site.surrounded_name());
            return Err(GraphProblem { kind: GraphProblemKind::InvalidDeclaration, message });
        }
        let (MiddlewareSite::Instance { node, collect_field: Some(field) }, DegradedUpdate::Fixed(update)) =
            (site, &self.degraded)
        else {
            return Ok(None);
        };
        if update.iter_entries().any(|(name, _)| name == *field) {
            return Ok(None);
        }
        let message = format!(
            "the degraded update for instances of fan-out '{node}' lacks the collected field '{field}'"
        );
        Err(GraphProblem { kind: GraphProblemKind::FanOutDegradedUpdateMissingCollectField, message })
    }
}

impl fmt::Debug for FailureIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureIsolation")
            .field("event_name", &self.event_name)
            .field("catch", &self.catch)
            .finish_non_exhaustive()
    }
}
