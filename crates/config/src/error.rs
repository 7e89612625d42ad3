//! The errors of reading a file and building its agents.

use std::sync::Arc;

use crate::report::ConfigReport;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a file and its agents. Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{file} cannot be read: {why}")]
    Unreadable {
        /// Which file.
        file: String,
        /// Why not.
        why: String,
    },
    /// The file is wrong.
    #[error("{0}")]
    Invalid(Box<ConfigReport>),
    /// A model cannot be made.
    #[error("the model `{name}` cannot be made")]
    Model {
        /// Which one.
        name: String,
        /// Why not.
        source: Box<singletree_llm::Error>,
    },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be made")]
    Http {
        /// Why not.
        #[from]
        source: singletree_http::Error,
    },
    /// A tool cannot be made.
    #[error("the tools of the agent `{agent}` cannot be made")]
    Tools {
        /// Of which agent.
        agent: String,
        /// Why not.
        source: Box<singletree_tools::Error>,
    },
    /// An MCP server cannot be described.
    #[error("the MCP server `{name}` cannot be used")]
    Server {
        /// Which one.
        name: String,
        /// Why not.
        source: Box<singletree_mcp::Error>,
    },
    /// A tool or a server of tools of an agent cannot be reached.
    #[error("not all tools of the agent `{agent}` can be described")]
    ToolsUnavailable {
        /// Of which agent.
        agent: String,
        /// Why not.
        source: Arc<singletree_tools::Error>,
    },
    /// An agent has no model: only in a configuration that nobody checked.
    #[error("the agent `{agent}` has no model")]
    NoModel {
        /// Which one.
        agent: String,
    },
    /// An agent cannot be made.
    #[error("the agent `{name}` cannot be made")]
    Agent {
        /// Which one.
        name: String,
        /// Why not.
        source: Box<singletree_agent::Error>,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error: its own, or that of its source.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Invalid(_) => "config_invalid",
            Self::Model { source, .. } => source.category(),
            Self::Http { source } => source.category(),
            Self::Tools { source, .. } => source.category(),
            Self::ToolsUnavailable { source, .. } => source.category(),
            Self::Server { source, .. } => source.category(),
            Self::NoModel { .. } => "config_invalid",
            Self::Agent { source, .. } => source.category(),
        }
    }
}
