//! Typed states: a Rust struct over the same engine that run-time schemas use.

use std::sync::Arc;

use singletree_durable::BoxError;

use super::field::FieldFault;
use super::schema::StateSchema;
use super::snapshot::Snapshot;
use super::update::StateUpdate;

/// The state type of a graph (graph-engine §2).
///
/// Derive it for a struct with named fields:
///
/// ```
/// use singletree_engine::{Ctx, END, Graph, InvokeOptions, NodeResult, RunOutcome};
/// use singletree_macros::State;
///
/// #[derive(Debug, State)]
/// #[state(engine = singletree_engine)] // not needed with the facade crate
/// struct Support {
///     #[state(append)]
///     replies: Vec<String>,
///     approved: bool,
/// }
///
/// async fn send(cx: Ctx<Support>) -> NodeResult<Support> {
///     let reply = if cx.state().approved { "Sent." } else { "Not sent." };
///     Ok(Support::update().approved(false).replies([reply])) // an approval never outlives its turn
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let graph = Graph::<Support>::builder().node("send", send).edge("send", END).entry("send").compile()?;
/// let outcome = graph.invoke(Support::update().approved(true), InvokeOptions::new()).await?;
/// let RunOutcome::Completed(done) = outcome else { unreachable!("nothing suspends") };
/// assert_eq!((done.state.replies, done.state.approved), (vec!["Sent.".to_owned()], false));
/// # Ok::<(), singletree_engine::Error>(())
/// # }).unwrap();
/// ```
///
/// or use [`Snapshot`] itself for a graph whose schema is only known at run time.
pub trait State: Sized + Send + Sync + 'static {
    /// The return type of nodes. For derived states a builder with one method for each field.
    type Update: Into<StateUpdate> + Send + 'static;

    /// Reads a typed value off a snapshot.
    ///
    /// # Errors
    /// The first field that is not of its type.
    fn read(snapshot: &Snapshot) -> Result<Self, FieldFault>;
}

/// A function of the state, without its type.
pub(crate) type OfState<T> = Arc<dyn Fn(&Snapshot) -> Result<T, BoxError> + Send + Sync>;

/// A state type that brings its schema along; made by the derive.
pub trait DeclaredState: State {
    /// Returns the schema.
    fn schema() -> Arc<StateSchema>;
}

impl State for Snapshot {
    type Update = StateUpdate;

    fn read(snapshot: &Snapshot) -> Result<Self, FieldFault> {
        Ok(snapshot.clone())
    }
}
