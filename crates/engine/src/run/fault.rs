//! What a node fails with.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

use singletree_durable::BoxError;

use crate::error::Error;
use crate::plan::state::State;

/// What a node returns: an update, or why there is none.
pub type NodeResult<S> = Result<<S as State>::Update, NodeError>;

/// Why a node failed, as the engine keeps it: the application's own error, or one made here, with an optional category.
#[derive(Debug)]
pub struct Fault {
    category: Option<String>,
    message: String,
    cause: Option<BoxError>,
    wraps: bool,
}

impl Fault {
    /// Returns the category that the node gave the failure, when it gave one.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// Returns the error that the node failed with, when it was one.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|it| it as _)
    }

    /// Tells whether the node passed on that its pause could not be recorded.
    pub(crate) fn is_failed_suspension(&self) -> bool {
        let engine = self.cause().and_then(|it| it.downcast_ref::<Error>());
        matches!(engine, Some(Error::SuspensionPersistence { .. }))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.cause, self.wraps) {
            // The message is the cause's own: the chain goes on below it.
            (Some(cause), true) => cause.source(),
            (Some(cause), false) => Some(cause.as_ref()),
            (None, _) => None,
        }
    }
}

/// The error type of node bodies: any error becomes one by `?`.
#[derive(Debug)]
pub struct NodeError(Fault);

impl NodeError {
    /// Makes an error of a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Fault { category: None, message: message.into(), cause: None, wraps: false })
    }

    /// Gives the error a category, in the specifications' words where they have one (`provider_unavailable`).
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.0.category = Some(category.into());
        self
    }

    /// Says what caused the error.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<BoxError>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Returns the category, when there is one.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        self.0.category()
    }

    pub(crate) fn into_fault(self) -> Fault {
        self.0
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error of the engine keeps its category (a failed save of the session, a pause that could not be recorded).
impl<E: StdError + Send + Sync + 'static> From<E> for NodeError {
    fn from(error: E) -> Self {
        let engine = (&error as &dyn Any).downcast_ref::<Error>();
        let category = engine.map(|it| it.derived_category().to_owned());
        Self(Fault { category, message: error.to_string(), cause: Some(Box::new(error)), wraps: true })
    }
}
