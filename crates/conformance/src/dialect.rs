//! Dialects: capabilities whose fixtures are no graphs have words of their own.

use crate::prompts;

/// What the cases of a capability are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Graphs, and what is done with them.
    Graph,
    /// Calls to a model, and the server that answers them.
    Llm,
    /// Backends, managers, and the prompts that they are asked for.
    Prompts,
}

impl Dialect {
    /// Returns the dialect of a capability.
    #[must_use]
    pub(crate) fn of(capability: &str) -> Self {
        match capability {
            "llm-provider" => Self::Llm,
            "prompt-management" => Self::Prompts,
            _ => Self::Graph,
        }
    }

    /// Tells whether the cases of a file may share this key.
    #[must_use]
    pub(crate) fn shares(self, key: &str) -> bool {
        if matches!(key, "invariants" | "conformance_version") {
            return true;
        }
        match self {
            Self::Graph => matches!(key, "subgraph" | "subgraph_with_idx" | "subgraphs"),
            Self::Llm => matches!(key, "mapping" | "mock_provider"),
            Self::Prompts => prompts::is_shared(key),
        }
    }
}
