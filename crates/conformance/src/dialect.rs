//! Dialects: capabilities whose fixtures are no graphs have words of their own.

use crate::prompts;

/// The language in which the cases of a capability are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixtureDialect {
    /// Graphs, and the programs that run them.
    Graph,
    /// Calls to a model, and the server that answers them.
    Llm,
    /// Backends of prompts, and calls to them and to managers.
    Prompts,
}

impl FixtureDialect {
    /// Returns the dialect of a capability.
    #[must_use]
    pub(crate) fn from_capability(capability: &str) -> Self {
        match capability {
            "llm-provider" => Self::Llm,
            "prompt-management" => Self::Prompts,
            _ => Self::Graph,
        }
    }

    /// Tells whether the cases of a file may share this key.
    #[must_use]
    pub(crate) fn is_shared_key(self, key: &str) -> bool {
        let own: &[&str] = match self {
            Self::Graph => &["subgraph", "subgraph_with_idx", "subgraphs", "invariants", "informative"],
            Self::Llm => &["mapping", "mock_provider", "invariants"],
            Self::Prompts if prompts::is_shared_key(key) => return true,
            Self::Prompts => &[],
        };
        key == "conformance_version" || own.contains(&key)
    }
}
