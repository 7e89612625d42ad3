//! Who holds which session: in memory, since one process owns the file.
//!
//! The fence of a session is the fence of the file, which every opening raises. Only several owners in one process raise
//! it further, when they compete for a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_durable::{
    AcquiredSession, Batch, BoxFuture, Error, FencingToken, LeaseTable, Result, SessionKey,
};

use crate::writer::{WriteOperation, WriteReply};
use crate::{SqliteStore, read};

/// The leases, which all handles to one open file share. The lock is held for a moment, never across an await.
pub(crate) type SharedLeases = Arc<Mutex<LeaseTable>>;

/// A lease whose session was not read yet: it is released when this is dropped.
struct GrantedLease {
    leases: SharedLeases,
    owner: FencingToken,
    key: SessionKey,
    is_kept: bool,
}

impl Drop for GrantedLease {
    fn drop(&mut self) {
        if !self.is_kept {
            lock_unpoisoned(&self.leases).release_lease(self.owner, &self.key);
        }
    }
}

fn lock_unpoisoned(leases: &Mutex<LeaseTable>) -> MutexGuard<'_, LeaseTable> {
    leases.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqliteStore {
    /// Returns a handle to the same open file that is another owner of sessions: a session belongs to the owner that
    /// acquired it last. Clones are the same owner.
    ///
    /// # Errors
    /// `store_closed`, and those of a write.
    ///
    /// # Cancellation
    /// Nothing is left behind but a higher fence in the file.
    pub async fn open_beside(&self) -> Result<Self> {
        let owner = self.draw_fence().await?;
        Ok(self.with_owner(owner))
    }

    /// Raises the fence of the file and returns it.
    async fn draw_fence(&self) -> Result<FencingToken> {
        let fence = {
            let mut leases = lock_unpoisoned(self.leases());
            let fence = FencingToken(leases.newest_fence().0 + 1);
            leases.record_number(fence);
            fence
        };
        self.submit_write(WriteOperation::RaiseFence(fence)).await.map(|_| fence)
    }

    pub(crate) async fn acquire_session(&self, key: &SessionKey) -> Result<AcquiredSession> {
        if self.is_read_only() {
            return Err(Error::Closed);
        }
        let known = lock_unpoisoned(self.leases()).find_fence(self.owner(), key);
        let fence = match known {
            Some(fence) => fence,
            None => self.draw_fence().await?,
        };
        let is_shared = {
            let mut leases = lock_unpoisoned(self.leases());
            leases.grant_lease(self.owner(), key, fence);
            leases.has_several_owners()
        };
        let mut granted = GrantedLease {
            leases: self.leases().clone(),
            owner: self.owner(),
            key: key.clone(),
            is_kept: false,
        };
        if is_shared {
            // Batches of the former owner that were taken before the grant are on their way: they land first.
            self.submit_write(WriteOperation::Barrier).await?;
        }
        let name = key.clone();
        let snapshot = self
            .query_in_snapshot(move |snapshot| read::dossier::read_session_snapshot(snapshot, &name))
            .await?;
        granted.is_kept = true;
        Ok(AcquiredSession { fence, snapshot })
    }

    pub(crate) fn release_sessions(&self, keys: &[SessionKey]) {
        let mut leases = lock_unpoisoned(self.leases());
        keys.iter().for_each(|key| leases.release_lease(self.owner(), key));
    }

    /// Hands over a batch, if its fence holds its session. The lock orders it before or after a change of owner.
    pub(crate) fn submit_batch(&self, batch: Batch) -> BoxFuture<'static, Result<WriteReply>> {
        let leases = lock_unpoisoned(self.leases());
        if !self.is_read_only() && !leases.is_held_under(&batch.key, batch.fence) {
            let lost = Error::LeaseLost { key: batch.key, fence: batch.fence };
            return Box::pin(std::future::ready(Err(lost)));
        }
        self.submit_write(WriteOperation::Apply(batch))
    }
}
