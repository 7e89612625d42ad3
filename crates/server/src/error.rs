//! What can go wrong in running a server. What goes wrong with a request is a problem, and its caller's to hear.

/// The result of an operation of the server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in running a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server would be open to others without asking who they are.
    #[error("{address} is reachable by others, and nobody would be asked for a key")]
    Open {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Open { .. } => "server_open",
            Self::Listen { .. } => "server_listen_failed",
        }
    }
}
