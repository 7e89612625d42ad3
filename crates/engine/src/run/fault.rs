//! The errors of nodes.

use std::error::Error as StdError;
use std::fmt;

use singletree_durable::BoxError;
use singletree_graph::{Snapshot, State};

use super::classify::{self, Classification};
use crate::error::{Error, NodeLocation};

/// The result of a node: an update or an error.
pub type NodeResult<S> = Result<<S as State>::Update, NodeError>;

/// Why a node failed, as the engine keeps it: the application's own error, or one made here, with an optional category.
#[derive(Debug)]
pub struct NodeFault {
    category: Option<Box<str>>,
    message: String,
    cause: Option<BoxError>,
    wraps: CauseRelation,
    transient: bool,
}

/// The relation of a fault to its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CauseRelation {
    /// An error of its own.
    Not,
    /// The cause itself, as a node returned it: the message is the cause's own.
    Returned,
    /// An error of the engine's on its way through a chain: it leaves as it came.
    Carried,
}

impl NodeFault {
    /// Wraps an error that a node returned.
    fn from_returned_error(error: BoxError) -> Self {
        let (message, wraps) = (error.to_string(), CauseRelation::Returned);
        Self { category: None, message, cause: Some(error), wraps, transient: false }
    }

    /// Returns the category of the failure, when it has one; looked for below the engine's wrappers.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        match self.engine_error() {
            Some(engine) if self.only_repeats_cause() => classify::find_error_category(engine),
            _ => self.own_category(),
        }
    }

    /// Returns the error that the node failed with, when it was one.
    #[must_use]
    pub fn original_error(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }

    /// Tells whether the node said that trying again may help ([`NodeError::mark_transient`]).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// Returns the category that the failure was given itself.
    pub(crate) fn own_category(&self) -> Option<&str> {
        self.category.as_deref().filter(|category| !category.is_empty())
    }

    /// Returns the error of the engine's that caused this, if one did.
    pub(crate) fn engine_error(&self) -> Option<&Error> {
        self.original_error().and_then(|cause| cause.downcast_ref())
    }

    /// Tells whether this says nothing that its cause does not say.
    pub(crate) fn only_repeats_cause(&self) -> bool {
        self.wraps != CauseRelation::Not && self.category.is_none()
    }

    /// Tells whether the node passed on that its pause could not be recorded.
    pub(crate) fn is_failed_suspension(&self) -> bool {
        match self.engine_error() {
            Some(Error::SuspensionPersistence { .. }) => true,
            Some(other) => other.wrapped_fault().is_some_and(Self::is_failed_suspension),
            None => false,
        }
    }
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for NodeFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.cause, self.wraps) {
            // The message is the cause's own: the chain goes on below it.
            (Some(cause), CauseRelation::Returned | CauseRelation::Carried) => cause.source(),
            (Some(cause), CauseRelation::Not) => Some(cause.as_ref()),
            (None, _) => None,
        }
    }
}

/// The error type of node bodies and middleware: any error becomes one by `?`.
#[derive(Debug)]
pub struct NodeError(NodeFault);

impl NodeError {
    /// Makes an error of a message.
    pub fn new(message: impl Into<String>) -> Self {
        let (message, wraps) = (message.into(), CauseRelation::Not);
        Self(NodeFault { category: None, message, cause: None, wraps, transient: false })
    }

    /// Gives the error a category, in the specifications' words where they have one (`provider_unavailable`).
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.0.category = Some(category.into().into_boxed_str());
        if self.0.wraps == CauseRelation::Carried {
            self.0.wraps = CauseRelation::Not;
        }
        self
    }

    /// Sets the cause of the error.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<BoxError>) -> Self {
        self.0.cause = Some(cause.into());
        self.0.wraps = CauseRelation::Not;
        self
    }

    /// Says which other node error caused this one; its category and causes stay readable below it.
    #[must_use]
    pub fn caused_by(self, cause: Self) -> Self {
        self.with_cause(cause.0)
    }

    /// Says that trying again may help, whatever the category: the default classifier of
    /// [`Retry`](crate::Retry) then tries again (pipeline-utilities §6.1).
    #[must_use]
    pub fn mark_transient(mut self) -> Self {
        self.0.transient = true;
        self
    }

    /// Returns the category that the error itself has: that of the wrapper, for a failure of an inner run.
    ///
    /// For the category of the underlying failure use [`NodeError::classify`].
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        match self.0.engine_error() {
            Some(engine) if self.0.wraps == CauseRelation::Carried => Some(engine.surface_category()),
            Some(engine) if self.0.only_repeats_cause() => Some(engine.derived_category()),
            _ => self.0.own_category(),
        }
    }

    /// Classifies the error through the wrappers that the engine added (pipeline-utilities §6.4).
    #[must_use]
    pub fn classify(&self) -> Classification {
        classify::classify_error(&self.0)
    }

    /// Makes an error of an error of any type. A fault of a node stays the same fault.
    pub(crate) fn from_boxed(error: BoxError) -> Self {
        match error.downcast::<NodeFault>() {
            Ok(fault) => Self(*fault),
            Err(error) => Self(NodeFault::from_returned_error(error)),
        }
    }

    /// Returns the failure as an error with its causes.
    #[must_use]
    pub fn as_node_fault(&self) -> &NodeFault {
        &self.0
    }

    /// Takes an error of the engine's into a chain, out of which it comes as it is.
    pub(crate) fn from_engine_error(error: Error) -> Self {
        let message = error.to_string();
        let cause: Option<BoxError> = Some(Box::new(error));
        Self(NodeFault { category: None, message, cause, wraps: CauseRelation::Carried, transient: false })
    }

    /// Returns the category that the error shows, whatever is in it.
    pub(crate) fn surface_category(&self) -> &str {
        self.category().unwrap_or("node_exception")
    }

    pub(crate) fn into_fault(self) -> NodeFault {
        self.0
    }

    /// Tells whether this is an error of the engine's on its way through a chain.
    pub(crate) fn is_carried(&self) -> bool {
        self.0.wraps == CauseRelation::Carried
    }

    /// Leaves the chain of a node: a carried error is unwrapped, any other error becomes the node's failure.
    pub(crate) fn into_graph_error(self, place: &NodeLocation, state: &Snapshot) -> Error {
        let mut fault = self.0;
        if fault.wraps == CauseRelation::Carried
            && let Some(cause) = fault.cause.take()
        {
            match cause.downcast::<Error>() {
                Ok(carried) => return *carried,
                Err(other) => fault.cause = Some(other),
            }
        }
        Error::Node { place: place.clone(), source: fault, state: state.clone() }
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
        Self(NodeFault::from_returned_error(Box::new(error)))
    }
}

/// For callbacks that are not the engine's alone, such as that of [`Retry`](crate::Retry): the fault passes unchanged.
impl From<NodeError> for BoxError {
    fn from(error: NodeError) -> Self {
        Box::new(error.0)
    }
}
