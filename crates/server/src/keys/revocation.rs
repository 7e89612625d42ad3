//! Recording that a key was revoked, outside of the database.

use std::fmt;

use singletree_durable::{BoxFuture, Result, TenantId, Timestamp};

/// Keeps a record of revoked keys that survives the loss of the database: a backup that is restored still holds them as valid
/// keys. `singletree restore` revokes again the keys that the list beside the database names.
pub trait RevocationLog: fmt::Debug + Send + Sync {
    /// Records that a key is revoked. The keyring calls this before it revokes the key, and revokes nothing where it fails.
    ///
    /// # Errors
    /// Those of the store: the caller of the revocation gets them.
    fn record<'a>(&'a self, tenant: &'a TenantId, key: &'a str, at: Timestamp) -> BoxFuture<'a, Result<()>>;
}
