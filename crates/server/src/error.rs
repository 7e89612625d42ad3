//! Errors in running a server. Errors in a request are problems, which its caller gets.

/// The result of an operation of the server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors in running a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server would be reachable from other machines without keys.
    #[error("{address} is reachable by others, and nobody would be asked for a key")]
    Open {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// The server cannot listen at the address.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The file of the keys that sign tokens cannot be used.
    #[error("the key set {} cannot be used: {why}", path.display())]
    KeySet {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        why: String,
    },
    /// The configuration of a tenant's webhook is invalid.
    #[error("the notices of {tenant:?} cannot be told so: {why}")]
    Webhook {
        /// Whose notices.
        tenant: String,
        /// Why not.
        why: String,
    },
    /// A tenant cannot have this name.
    #[error("{tenant:?} is no name for a tenant: {why}")]
    Tenant {
        /// The name.
        tenant: String,
        /// Why not.
        why: String,
    },
    /// A property of a new key is invalid.
    #[error("{why}")]
    KeyInvalid {
        /// The reason.
        why: String,
    },
    /// The key does not exist, or belongs to another tenant.
    #[error("there is no key {id:?}")]
    KeyUnknown {
        /// Its id.
        id: String,
    },
    /// A tenant has the maximum number of keys.
    #[error("this tenant has {max} keys, and may not have more")]
    KeysFull {
        /// The maximum.
        max: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] singletree_durable::Error),
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Open { .. } => "server_open",
            Self::Listen { .. } => "server_listen_failed",
            Self::KeySet { .. } => "server_key_set_invalid",
            Self::Webhook { .. } => "server_webhook_invalid",
            Self::Tenant { .. } => "server_tenant_invalid",
            Self::KeyInvalid { .. } => "server_key_invalid",
            Self::KeyUnknown { .. } => "server_key_unknown",
            Self::KeysFull { .. } => "server_keys_full",
            Self::Store(source) => source.category(),
        }
    }
}
