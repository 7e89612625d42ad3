//! Typed states: a Rust struct over the same engine that run-time schemas use.

use std::sync::Arc;

use super::field::FieldFault;
use super::schema::Schema;
use super::snapshot::Snapshot;
use super::update::Update;

/// The state type of a graph (graph-engine §2).
///
/// Derive it for a struct with named fields:
///
/// ```ignore
/// #[derive(State)]
/// struct Support {
///     #[state(append)]
///     messages: Messages,
///     approved: bool,
/// }
/// ```
///
/// or use [`Snapshot`] itself for a graph whose schema is only known at run time.
pub trait State: Sized + Send + Sync + 'static {
    /// What a node returns. For derived states a builder with one method for each field.
    type Update: Into<Update> + Send + 'static;

    /// Reads a typed value off a snapshot.
    ///
    /// # Errors
    /// The first field that is not of its type.
    fn read(snapshot: &Snapshot) -> Result<Self, FieldFault>;
}

/// A state type that brings its schema along; made by the derive.
pub trait Declared: State {
    /// Returns the schema.
    fn schema() -> Arc<Schema>;
}

impl State for Snapshot {
    type Update = Update;

    fn read(snapshot: &Snapshot) -> Result<Self, FieldFault> {
        Ok(snapshot.clone())
    }
}
