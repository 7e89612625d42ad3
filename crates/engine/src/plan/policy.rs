//! Error policies: the treatment of a container's failed members (pipeline-utilities §§9.5, 11.5).

use serde::{Deserialize, Serialize};

/// The treatment of a failed instance of a fan-out, or of a failed branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorPolicy {
    /// The first failure cancels the others and is the node's.
    #[default]
    FailFast,
    /// All run to their end; failures are collected, and the node goes on. Suspending is not possible within.
    Collect,
}

impl ErrorPolicy {
    /// Returns the specification's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Collect => "collect",
        }
    }
}
