//! The records of keys that a server knows, and how long they count where other servers may change them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use singletree_durable::{DocumentKey, TenantId, Timestamp};

use super::{KIND, Keyring, decode_document};
use crate::Result;
use crate::keys::record::StoredKeyRecord;

/// For how long a record is taken as it was read, where other servers may change it: so they are heeded within a second,
/// together with the look that open streams take ([`crate::upkeep`]).
pub(super) const FRESH_FOR: Duration = Duration::from_millis(450);
/// For how long a record is taken as it was read while the store cannot be asked, where other servers may change it.
pub(super) const STALE_FOR: Duration = Duration::from_secs(5);

/// A key as it is known from its document.
#[derive(Debug, Clone)]
pub(super) struct CachedKeyRecord {
    pub(super) tenant: TenantId,
    pub(super) record: Arc<StoredKeyRecord>,
    pub(super) version: u64,
    pub(super) read_at: Timestamp,
}

impl CachedKeyRecord {
    /// Tells whether it was read within a span before now; a clock that was set back says no.
    fn is_younger_than(&self, span: Duration, now: Timestamp) -> bool {
        now >= self.read_at && now.duration_since(self.read_at) < span
    }
}

impl Keyring {
    /// Reads a known key again, unless that was done just now. While the store cannot be asked, the known one counts for a
    /// while.
    pub(super) async fn refresh_key_record(
        &self,
        id: &str,
        known: CachedKeyRecord,
    ) -> Result<Option<CachedKeyRecord>> {
        let now = self.clock.now();
        if known.is_younger_than(FRESH_FOR, now) {
            return Ok(Some(known));
        }
        let key = DocumentKey::new(known.tenant.clone(), KIND, id);
        let found = match self.documents.read_document(&key).await {
            Ok(found) => found,
            Err(_) if known.is_younger_than(STALE_FOR, now) => return Ok(Some(known)),
            Err(error) => return Err(error.into()),
        };
        let Some(found) = found else {
            self.evict_key_record(id);
            return Ok(None);
        };
        let record = Arc::new(decode_document::<StoredKeyRecord>(&found)?);
        let read = CachedKeyRecord { record, version: found.version, read_at: now, ..known };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A change of this server may have landed behind the read.
        match known.get(id).filter(|newer| newer.version > read.version) {
            Some(newer) => Ok(Some(newer.clone())),
            None => {
                known.insert(id.to_owned(), read.clone());
                Ok(Some(read))
            }
        }
    }
}
