//! Records revoked keys outside of the database.

use std::fmt;

use singletree_durable::{BoxFuture, Result, TenantId, Timestamp};

/// A record of revoked keys that survives the loss of the database. In a restored backup these keys are still valid;
/// `singletree restore` uses the record to revoke them again.
pub trait RevocationLog: fmt::Debug + Send + Sync {
    /// Records that a key is revoked. The keyring calls this before it revokes the key; on failure the key stays valid.
    ///
    /// # Errors
    /// Those of the store: the caller of the revocation gets them.
    fn record_revocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        key: &'a str,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>>;
}
