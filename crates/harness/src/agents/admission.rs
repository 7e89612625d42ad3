//! Admission: whether a caller may begin another turn or session now. It is decided before anything is stored.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use singletree_durable::TenantBlobTotals;

/// A quota that is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the quota `{quota}` of this {scope} is used up: {limit} {unit}")]
pub struct QuotaExceeded {
    /// The name of the quota, such as `turns`.
    pub quota: &'static str,
    /// Who shares it: `key` or `tenant`.
    pub scope: &'static str,
    /// How much of it there is.
    pub limit: u64,
    /// The unit of the limit, such as `running turns`.
    pub unit: &'static str,
    /// The time after which the same call may succeed.
    pub retry_after: Duration,
}

/// A place among the running turns of a caller. The chat drops it when the turn has ended.
pub type TurnPermit = Box<dyn Any + Send + Sync>;

/// Decides whether a caller may begin another turn or session now ([`Chat::admitting`](crate::Chat::admitting)).
///
/// Its functions are called before anything is stored, and under locks: they have to return at once.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Admits a turn that answers a new message.
    ///
    /// # Errors
    /// The quota that is used up; the message is refused as `server_quota_exceeded`.
    fn admit_turn(&self) -> Result<TurnPermit, QuotaExceeded>;

    /// Admits a new session, forks included.
    ///
    /// # Errors
    /// The quota that is used up; the call is refused as `server_quota_exceeded`.
    fn admit_session(&self) -> Result<(), QuotaExceeded>;

    /// Tells whether there is a quota of tokens. The tenant's usage is read only if there is one.
    fn counts_tokens(&self) -> bool {
        false
    }

    /// Admits another turn of a tenant, given the tokens that it has used since its first turn.
    ///
    /// # Errors
    /// The quota that is used up; the call is refused as `server_quota_exceeded`.
    fn admit_tokens(&self, _used: u64) -> Result<(), QuotaExceeded> {
        Ok(())
    }

    /// Returns the name that the bytes of the caller's blobs are counted under, unique in its tenant.
    fn account_holder(&self) -> &str;

    /// Admits a blob of so many bytes, beside those that the account has. It is called with one blob at a time.
    ///
    /// # Errors
    /// The quota that is used up; the call is refused as `server_quota_exceeded`.
    fn admit_blob(&self, bytes: u64, kept: TenantBlobTotals) -> Result<(), QuotaExceeded>;
}
