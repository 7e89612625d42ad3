//! Middleware from a function.

use std::marker::PhantomData;
use std::sync::Arc;

use singletree_durable::BoxFuture;
use singletree_graph::{Snapshot, State, StateUpdate};

use super::super::chain::Next;
use super::super::fault::{NodeError, NodeResult};
use super::Middleware;

/// A middleware made of a function; see [`around`].
pub struct FunctionMiddleware<S, F> {
    function: F,
    state: PhantomData<fn() -> S>,
}

/// Makes a middleware of a function over the state type of the graph that it stands in.
///
/// ```
/// use singletree_engine::{END, Graph, InvokeOptions, NodeError, Snapshot, StateUpdate, around};
/// # use singletree_engine::{FieldSpec, StateSchema, FieldShape, FieldContent};
/// # let schema = StateSchema::new("s", vec![FieldSpec::new("n", FieldShape::Int, FieldContent::from_json(0.into()))]);
/// let guard = around(|state: std::sync::Arc<Snapshot>, mut next| {
///     Box::pin(async move {
///         if state.get("n").is_none() {
///             return Ok(StateUpdate::new()); // the node does not run
///         }
///         next.run(&state).await
///     })
/// });
/// let graph = Graph::builder_with(schema)
///     .node("work", |_| async { Ok(StateUpdate::new().with_json("n", 1.into())) })
///     .node_middleware("work", guard)
///     .edge("work", END)
///     .entry("work")
///     .compile()?;
/// # drop(graph);
/// # Ok::<(), singletree_engine::Error>(())
/// ```
pub fn around<S, F>(function: F) -> FunctionMiddleware<S, F>
where
    S: State,
    F: for<'a> Fn(Arc<S>, Next<'a>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync,
{
    FunctionMiddleware { function, state: PhantomData }
}

impl<S, F> Middleware for FunctionMiddleware<S, F>
where
    S: State,
    F: for<'a> Fn(Arc<S>, Next<'a>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync,
{
    fn call<'a>(
        &'a self,
        state: &'a Snapshot,
        next: Next<'a>,
    ) -> BoxFuture<'a, std::result::Result<StateUpdate, NodeError>> {
        Box::pin(async move { Ok((self.function)(state.typed_view::<S>()?, next).await?.into()) })
    }

    fn name(&self) -> &str {
        "around"
    }
}

impl<S, F> std::fmt::Debug for FunctionMiddleware<S, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Around")
    }
}
