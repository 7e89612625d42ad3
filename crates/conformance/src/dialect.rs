//! Dialects: capabilities whose fixtures are no graphs have words of their own.

/// What the cases of a capability are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Graphs, and what is done with them.
    Graph,
    /// Calls to a model, and the server that answers them.
    Llm,
}

impl Dialect {
    /// Returns the dialect of a capability.
    #[must_use]
    pub(crate) fn of(capability: &str) -> Self {
        match capability {
            "llm-provider" => Self::Llm,
            _ => Self::Graph,
        }
    }

    /// Returns the keys of a file that its cases share.
    #[must_use]
    pub(crate) fn shared(self) -> &'static [&'static str] {
        match self {
            Self::Graph => {
                &["subgraph", "subgraph_with_idx", "subgraphs", "invariants", "conformance_version"]
            }
            Self::Llm => &["mapping", "mock_provider", "invariants", "conformance_version"],
        }
    }
}
