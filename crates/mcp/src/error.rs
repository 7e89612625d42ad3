//! What can go wrong with an MCP server.

use std::time::Duration;

/// What the operations of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with an MCP server.
///
/// What a server or its transport said stands in it as text that went through the redactor of the server, capped: the
/// errors underneath may show addresses and headers, so they are not kept (INV-16).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is said of the server is malformed.
    #[error("the settings of the MCP server {server:?} are malformed: {problem}")]
    Configuration {
        /// Which server.
        server: String,
        /// What is malformed.
        problem: String,
    },
    /// The server cannot be started, or does not greet as MCP asks.
    #[error("the MCP server {server:?} cannot be reached: {problem}")]
    Connect {
        /// Which server.
        server: String,
        /// What went wrong.
        problem: String,
        /// The last lines that it wrote on its standard error.
        said: String,
    },
    /// The server took too long.
    #[error("the MCP server {server:?} did not {what} within {} ms", limit.as_millis())]
    Timeout {
        /// Which server.
        server: String,
        /// What it did not do.
        what: &'static str,
        /// The limit.
        limit: Duration,
        /// The last lines that it wrote on its standard error.
        said: String,
    },
    /// The server went away while it was asked something.
    #[error("the MCP server {server:?} went away: {problem}")]
    Lost {
        /// Which server.
        server: String,
        /// What is known of its end.
        problem: String,
        /// The last lines that it wrote on its standard error.
        said: String,
    },
    /// The server answered that it will not, or with what is no answer.
    #[error("the MCP server {server:?} refused: {problem}")]
    Refused {
        /// Which server.
        server: String,
        /// What it said.
        problem: String,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Configuration { .. } => "mcp_configuration_invalid",
            Self::Connect { .. } => "mcp_connect_failed",
            Self::Timeout { .. } => "mcp_timeout",
            Self::Lost { .. } => "mcp_connection_lost",
            Self::Refused { .. } => "mcp_refused",
        }
    }

    /// Returns the last lines that the server wrote on its standard error: for people, never for a model.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Connect { said, .. } | Self::Timeout { said, .. } | Self::Lost { said, .. } => {
                Some(said.as_str()).filter(|it| !it.is_empty())
            }
            Self::Configuration { .. } | Self::Refused { .. } => None,
        }
    }
}
