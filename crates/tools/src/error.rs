//! The errors of tools.

use std::time::Duration;

use singletree_env::BoxError;
use singletree_llm::SchemaMismatch;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with a tool or a call of it.
///
/// `Display` is for the model: no paths of the machine, no secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two tools of one toolbox have the same name.
    #[error("there are two tools named {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The definition of a tool is malformed.
    #[error("the definition of the tool {name:?} is malformed")]
    Definition {
        /// The tool.
        name: String,
        /// The mistake in the definition.
        source: singletree_llm::Error,
    },
    /// The model called a tool that is not there.
    #[error("there is no tool {name:?}; the tools are: {known}")]
    Unknown {
        /// The name that was called.
        name: String,
        /// The names that would have worked.
        known: String,
    },
    /// The arguments that the model wrote are no JSON object.
    #[error("the arguments are not a JSON object")]
    Unreadable,
    /// The arguments do not fit the tool's schema.
    #[error("the arguments do not fit the schema: {mismatch}")]
    Mismatched {
        /// Where, and why.
        mismatch: SchemaMismatch,
    },
    /// The arguments fit the schema, but not the tool.
    #[error("the arguments cannot be used: {problem}")]
    Arguments {
        /// Why not.
        problem: String,
    },
    /// The tool did its best and failed.
    #[error("{problem}")]
    Failed {
        /// The problem, for the model to read.
        problem: String,
        /// The error underneath.
        source: Option<BoxError>,
    },
    /// Whoever does the work cannot be reached; nothing was begun.
    #[error("{problem}")]
    Unavailable {
        /// The service that cannot be reached, for the model to read.
        problem: String,
        /// The error underneath.
        source: Option<BoxError>,
    },
    /// Whoever did the work went away in the middle.
    #[error("{problem}")]
    Interrupted {
        /// The service that went away, for the model to read.
        problem: String,
        /// The error underneath.
        source: Option<BoxError>,
    },
    /// The tool took too long.
    #[error("the tool did not finish within {} ms", limit.as_millis())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The tool panicked.
    #[error("the tool crashed")]
    Panicked,
}

impl Error {
    /// Makes a failure that has no error underneath.
    #[must_use]
    pub fn failed(problem: impl Into<String>) -> Self {
        Self::Failed { problem: problem.into(), source: None }
    }

    /// Makes a failure with the error underneath.
    #[must_use]
    pub fn failed_with_source(problem: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Failed { problem: problem.into(), source: Some(source.into()) }
    }

    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "tool_duplicate",
            Self::Definition { .. } => "tool_definition_invalid",
            Self::Unknown { .. } => "tool_unknown",
            Self::Unreadable | Self::Mismatched { .. } | Self::Arguments { .. } => "tool_arguments_invalid",
            Self::Failed { .. } => "tool_failed",
            Self::Unavailable { .. } => "tool_unavailable",
            Self::Interrupted { .. } => "tool_interrupted",
            Self::Timeout { .. } => "tool_timeout",
            Self::Panicked => "tool_panicked",
        }
    }

    /// Checks whether the tool was stopped in the middle, so that its effect is unknown.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Interrupted { .. } | Self::Timeout { .. } | Self::Panicked => true,
            Self::Duplicate { .. }
            | Self::Definition { .. }
            | Self::Unknown { .. }
            | Self::Unreadable
            | Self::Mismatched { .. }
            | Self::Arguments { .. }
            | Self::Failed { .. }
            | Self::Unavailable { .. } => false,
        }
    }
}
