//! Middleware from a function.

use std::marker::PhantomData;
use std::sync::Arc;

use singletree_durable::BoxFuture;

use super::super::chain::Next;
use super::super::fault::{NodeError, NodeResult};
use super::Middleware;
use crate::plan::snapshot::Snapshot;
use crate::plan::state::State;
use crate::plan::update::Update;

/// A middleware made of a function; see [`around`].
pub struct Around<S, F> {
    function: F,
    state: PhantomData<fn() -> S>,
}

/// Makes a middleware of a function over the state type of the graph that it stands in.
///
/// ```
/// use singletree_engine::{END, Graph, InvokeOptions, NodeError, Snapshot, Update, around};
/// # use singletree_engine::{FieldSpec, Schema, Shape, Slot};
/// # let schema = Schema::new("s", vec![FieldSpec::new("n", Shape::Int, Slot::from_json(0.into()))]);
/// let guard = around(|state: std::sync::Arc<Snapshot>, mut next| {
///     Box::pin(async move {
///         if state.get("n").is_none() {
///             return Ok(Update::new()); // the node does not run
///         }
///         next.run(&state).await
///     })
/// });
/// let graph = Graph::builder_with(schema)
///     .node("work", |_| async { Ok(Update::new().with_json("n", 1.into())) })
///     .node_middleware("work", guard)
///     .edge("work", END)
///     .entry("work")
///     .compile()?;
/// # drop(graph);
/// # Ok::<(), singletree_engine::Error>(())
/// ```
pub fn around<S, F>(function: F) -> Around<S, F>
where
    S: State,
    F: for<'a> Fn(Arc<S>, Next<'a>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync,
{
    Around { function, state: PhantomData }
}

impl<S, F> Middleware for Around<S, F>
where
    S: State,
    F: for<'a> Fn(Arc<S>, Next<'a>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync,
{
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        next: Next<'a>,
    ) -> BoxFuture<'a, std::result::Result<Update, NodeError>> {
        Box::pin(async move { Ok((self.function)(state.view::<S>()?, next).await?.into()) })
    }

    fn name(&self) -> &str {
        "around"
    }
}

impl<S, F> std::fmt::Debug for Around<S, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Around")
    }
}
