//! The errors of this crate.

use std::time::Duration;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every error of an MCP server.
///
/// Texts of a server or its transport have gone through the redactor of the server and are capped. Source errors are
/// not kept, because they may show addresses and headers (INV-16).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings of the server are malformed.
    #[error("the settings of the MCP server {server:?} are malformed: {problem}")]
    Configuration {
        /// Which server.
        server: String,
        /// The malformed setting.
        problem: String,
    },
    /// The server cannot be started, or does not greet as MCP asks.
    #[error("the MCP server {server:?} cannot be reached: {problem}")]
    Connect {
        /// Which server.
        server: String,
        /// The reason.
        problem: String,
        /// The last lines that it wrote on its standard error.
        said: String,
    },
    /// The server took too long.
    #[error("the MCP server {server:?} did not {what} within {} ms", limit.as_millis())]
    Timeout {
        /// Which server.
        server: String,
        /// The operation that did not end in time.
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
        /// The reason, as far as it is known.
        problem: String,
        /// The last lines that it wrote on its standard error.
        said: String,
    },
    /// The server refused, or sent an invalid response.
    #[error("the MCP server {server:?} refused: {problem}")]
    Refused {
        /// Which server.
        server: String,
        /// The text of its error.
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
    pub fn last_stderr_lines(&self) -> Option<&str> {
        match self {
            Self::Connect { said, .. } | Self::Timeout { said, .. } | Self::Lost { said, .. } => {
                Some(said.as_str()).filter(|value| !value.is_empty())
            }
            Self::Configuration { .. } | Self::Refused { .. } => None,
        }
    }
}
