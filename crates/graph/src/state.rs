//! Typed states: a Rust struct over the same engine that run-time schemas use.

use std::sync::Arc;

use singletree_durable::BoxError;

use crate::field::FieldFault;
use crate::schema::StateSchema;
use crate::snapshot::Snapshot;
use crate::update::StateUpdate;

/// The state type of a graph (graph-engine §2).
///
/// Derive it for a struct with named fields (the engine's documentation has an example), or use [`Snapshot`] itself for
/// a graph whose schema is only known at run time.
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
pub type OfState<T> = Arc<dyn Fn(&Snapshot) -> Result<T, BoxError> + Send + Sync>;

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
