//! The errors of prompts.

use std::fmt;
use std::path::PathBuf;

use singletree_env::BoxError;
use singletree_llm::Map;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that prompts can fail with (spec: prompt-management §11).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No prompt has this name and label. Final: a retired prompt is not looked for elsewhere.
    #[error("no prompt is called {name:?} under the label {label:?}")]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The label that was asked for.
        label: String,
    },
    /// The prompt was not rendered.
    #[error(transparent)]
    Render(Box<RenderError>),
    /// The backend cannot be reached; the same fetch may succeed later.
    #[error("{what}")]
    StoreUnavailable {
        /// A description of the unreachable store.
        what: String,
        /// The error underneath.
        #[source]
        source: Option<BoxError>,
    },
    /// A group has fewer than two members.
    #[error("the prompt group {group:?} has {members} of at least 2 members")]
    GroupInvalid {
        /// The name of the group.
        group: String,
        /// How many members it was given.
        members: usize,
    },
    /// The file of a prompt is malformed.
    #[error("{}:{line}: {what}", path.display())]
    FileInvalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault, and the correct form.
        what: String,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "prompt_not_found",
            Self::Render(_) => "prompt_render_error",
            Self::StoreUnavailable { .. } => "prompt_store_unavailable",
            Self::GroupInvalid { .. } => "prompt_group_invalid",
            Self::FileInvalid { .. } => "prompt_file_invalid",
        }
    }

    /// Says whether the same call may succeed later (spec: prompt-management §11).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::StoreUnavailable { .. } => true,
            Self::NotFound { .. }
            | Self::Render(_)
            | Self::GroupInvalid { .. }
            | Self::FileInvalid { .. } => false,
        }
    }

    /// Makes the error of a backend that cannot be reached.
    #[must_use]
    pub fn store_unavailable(what: impl Into<String>, source: Option<BoxError>) -> Self {
        Self::StoreUnavailable { what: what.into(), source }
    }

    pub(crate) fn not_found(name: &str, label: &str) -> Self {
        Self::NotFound { name: name.to_owned(), label: label.to_owned() }
    }
}

/// Why a prompt was not rendered, and which one (spec: prompt-management §11).
///
/// Values of variables are in [`variables`](Self::variables) only, those that were given as secrets are nowhere:
/// neither `Display` nor `Debug` shows a value.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("the prompt {name:?} (version {version:?}, label {label:?}) was not rendered: {description}")]
pub struct RenderError {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) label: String,
    pub(crate) variables: Map,
    pub(crate) description: String,
}

impl RenderError {
    /// Returns the name of the prompt.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the prompt.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the label under which the prompt was fetched.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the variables that were given; a secret's value is `"[redacted]"`.
    #[must_use]
    pub fn variables(&self) -> &Map {
        &self.variables
    }

    /// Describes the fault and names the segment, block, placeholder or variable.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl fmt::Debug for RenderError {
    // Errors are logged: names of variables, no values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderError")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("label", &self.label)
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("description", &self.description)
            .finish()
    }
}
