//! The calls about notices and deadlines.

use singletree_durable::{TenantId, Timestamp};

use crate::Result;
use crate::api::chat::Chat;
use crate::runtime::noticing::NoticeReceiver;
use crate::runtime::pending_wait::{PendingWait, to_pending_wait};

impl Chat {
    /// Hears the notices of all tenants from now on, as they are written. Those of before are documents of the kind
    /// [`Notice::KIND`](crate::Notice::KIND).
    #[must_use]
    pub fn notices(&self) -> NoticeReceiver {
        NoticeReceiver(self.inner.noticing.heard.subscribe())
    }

    /// Returns the epoch of the log: two databases that go on from one copy have two.
    #[must_use]
    pub fn log_epoch(&self) -> &str {
        &self.inner.epoch
    }

    /// Lists the pending waits of all tenants that the chat serves whose deadline comes by `until` (with none: all that
    /// have a deadline), the earliest first, at most `limit`.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the call changes nothing.
    pub async fn deadlines(
        &self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> Result<Vec<(TenantId, PendingWait)>> {
        let waits =
            self.inner.await_store_read(self.inner.upkeep.read_waits_by_deadline(until, limit)).await?;
        let served = waits.into_iter().filter(|(key, _)| self.inner.serves_tenant(&key.tenant));
        let listed = served.map(|(key, wait)| {
            let pending = to_pending_wait(&key, &wait)?;
            Ok((key.tenant, pending))
        });
        listed.collect()
    }
}
