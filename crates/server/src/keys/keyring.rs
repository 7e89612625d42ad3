//! The keys of a server: made, listed, changed, checked.

mod cached;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument, StoredDocument,
    SubjectId, TenantId, Timestamp,
};
use singletree_engine::{Clock, IdGenerator};
use singletree_http::Secret;
use singletree_protocol::native::{ApiKey, KeyList, KeyScope, KeyState};
use tokio::sync::watch;

use super::audit::{KeyAuditEntry, TenantAuditLog, truncate_to_page};
use super::key_text::{GeneratedKey, digest_key_text, generate_key, generate_secret, parse_key_id};
use super::record::StoredKeyRecord;
use super::revocation::RevocationLog;
use crate::caller::{Caller, operator_tenant};
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::{Error, Result};
use cached::CachedKeyRecord;
use singletree_env::RandomSource;

/// The kind of a key's record, which is its tenant's.
pub(super) const KIND: &str = "api_key";
/// The kind of the document that names the tenant of a key. It belongs to the operator's tenant id.
pub(super) const OWNER: &str = "api_key_owner";

/// How many keys a tenant may have; one more is `server_keys_full`.
const KEYS_MAX: u64 = 1000;
/// Bytes of the longest name; a longer one is `server_key_invalid`.
const NAME_BYTES: usize = 128;
/// How long the record of a key is kept that was taken back.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// How exactly it is known when a key was used last.
const USED_EVERY: Duration = Duration::from_mins(1);

/// The properties of a key that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Its name for people, 1 to 128 bytes.
    pub name: String,
    /// Its scopes: at least one.
    pub scopes: Vec<KeyScope>,
    /// The time from its creation until it expires; without one it never does.
    pub expires_in: Option<Duration>,
}

/// Returns the caller that a key stands for.
fn caller_of_key(
    tenant: TenantId,
    id: &str,
    record: &StoredKeyRecord,
    valid_until: Option<Timestamp>,
) -> Caller {
    let subject = SubjectId::parse(id).ok();
    Caller { tenant, name: id.to_owned(), scopes: record.granted_scopes(), valid_until, subject }
}

/// Whose a key is.
#[derive(Debug, Serialize, Deserialize)]
struct KeyOwner {
    tenant: TenantId,
}

/// The keys of a server. Every change is recorded in the audit of the key's tenant, in the transaction that makes it.
///
/// A keyring does not read again the records in its cache, unless other servers may change them
/// ([`ServerBuilder::shared_store`](crate::ServerBuilder::shared_store)).
pub struct Keyring {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn RandomSource>,
    audit: Arc<TenantAuditLog>,
    /// Those that were asked for. Only keys that exist are known, so that nobody fills it by guessing.
    known: Mutex<HashMap<String, CachedKeyRecord>>,
    /// Held while a key is changed.
    changing: tokio::sync::Mutex<()>,
    /// The record of revocations outside of the database.
    revocations: Option<Arc<dyn RevocationLog>>,
    /// Changes whenever a key may be good no more: who holds something open by a key looks again.
    changes: watch::Sender<u64>,
    /// Whether other servers may change keys.
    is_store_shared: bool,
}

impl Keyring {
    /// Opens the keys of a store that no server has open.
    #[must_use]
    pub fn open_offline(
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGenerator>,
        entropy: Arc<dyn RandomSource>,
        audit_kept: Duration,
    ) -> Self {
        let audit = Arc::new(TenantAuditLog::new(documents.clone(), clock.clone(), ids, audit_kept));
        Self::with_audit_log(documents, clock, entropy, audit)
    }

    pub(crate) fn with_audit_log(
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn RandomSource>,
        audit: Arc<TenantAuditLog>,
    ) -> Self {
        let (known, changing) = (Mutex::default(), tokio::sync::Mutex::default());
        let changes = watch::Sender::new(0);
        Self {
            documents,
            clock,
            entropy,
            audit,
            known,
            changing,
            revocations: None,
            changes,
            is_store_shared: false,
        }
    }

    /// Sets whether other servers may change keys, by default not. Then a key that another one has taken back is refused
    /// within a second; and when the store cannot be asked for five seconds, all keys are refused with its error.
    #[must_use]
    pub(crate) fn sharing_store(mut self, is_shared: bool) -> Self {
        self.is_store_shared = is_shared;
        self
    }

    /// Also records revocations outside of the database.
    #[must_use]
    pub fn recording_revocations(mut self, log: Option<Arc<dyn RevocationLog>>) -> Self {
        self.revocations = log;
        self
    }

    /// Makes a key, and returns it with its text, which is never to be had again.
    ///
    /// # Errors
    /// `server_key_invalid`, `server_keys_full`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future leaves a key that nobody has, or none.
    pub async fn create_key(&self, tenant: &TenantId, new: NewKey, by: &str) -> Result<(ApiKey, Secret)> {
        self.create_key_with(tenant, new, by, |_| Vec::new()).await
    }

    /// Creates a key as [`create`](Self::create) does, in one transaction with further changes that depend on its id.
    pub(crate) async fn create_key_with(
        &self,
        tenant: &TenantId,
        new: NewKey,
        by: &str,
        beside: impl FnOnce(&str) -> Vec<DocumentChange>,
    ) -> Result<(ApiKey, Secret)> {
        check_new_key(&new)?;
        let changing = self.changing.lock().await;
        let present = self.documents.read_documents(tenant, KIND, None, KEYS_MAX).await?;
        if present.len() as u64 >= KEYS_MAX {
            return Err(Error::KeysFull { max: KEYS_MAX });
        }
        let GeneratedKey { id, text, digest } = generate_key(self.entropy.as_ref());
        let now = self.clock.now();
        let mut record = StoredKeyRecord::new(new.name, new.scopes, &digest, now);
        record.expires_at = new.expires_in.map(|expires_in| now.saturating_add(expires_in));
        let scopes: Vec<&str> = record.granted_scopes().iter().map(|scope| scope.as_str()).collect();
        let deed = KeyAuditEntry::new(by, "key.created", &id)
            .with_detail("name", record.name.as_str())
            .with_detail("scopes", scopes);
        let mut changes = build_key_changes(tenant, &id, &record, DocumentPrecondition::Absent);
        changes.push(self.audit.build_entry_change(tenant, deed));
        changes.extend(beside(&id));
        self.documents.change_documents(changes).await?;
        drop(changing);
        Ok((record.to_api_key(tenant, &id, now), text))
    }

    /// Lists a tenant's keys by id, from past the given one on.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn list_keys(&self, tenant: &TenantId, past: Option<&str>, limit: u64) -> Result<KeyList> {
        let found = self.documents.read_documents(tenant, KIND, past, limit + 1).await?;
        let (found, next) = truncate_to_page(found, limit);
        let now = self.clock.now();
        let shown = |it: &StoredDocument| {
            Ok(decode_document::<StoredKeyRecord>(it)?.to_api_key(tenant, &it.key.id, now))
        };
        Ok(KeyList { items: found.iter().map(shown).collect::<Result<_>>()?, next })
    }

    /// Gives a key a new secret, and returns the key with its new text. The old secret stays valid for `grace`.
    /// Rotating does not make a revoked or an expired key valid again.
    ///
    /// # Errors
    /// `server_key_unknown`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future may leave the key with a new secret that no caller received; the old one stays valid for
    /// `grace`.
    pub async fn rotate_key(
        &self,
        tenant: &TenantId,
        id: &str,
        grace: Duration,
        by: &str,
    ) -> Result<(ApiKey, Secret)> {
        self.rotate_key_with(tenant, (id, grace), by, Vec::new()).await
    }

    /// Gives a key another secret as [`rotate`](Self::rotate) does, in one transaction with other changes.
    pub(crate) async fn rotate_key_with(
        &self,
        tenant: &TenantId,
        (id, grace): (&str, Duration),
        by: &str,
        mut beside: Vec<DocumentChange>,
    ) -> Result<(ApiKey, Secret)> {
        let GeneratedKey { text, digest, .. } = generate_secret(self.entropy.as_ref(), id);
        let until = self.clock.now().saturating_add(grace);
        let deed = KeyAuditEntry::new(by, "key.rotated", id).with_detail("grace_seconds", grace.as_secs());
        beside.push(self.audit.build_entry_change(tenant, deed));
        let changed =
            self.change_key_record(tenant, id, |it| it.rotate_secret(&digest, until), beside).await?;
        self.notify_change();
        Ok((changed, text))
    }

    /// Takes a key back, for good, from this moment on.
    ///
    /// # Errors
    /// `server_key_unknown`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future leaves the key as it was, or taken back.
    pub async fn revoke_key(&self, tenant: &TenantId, id: &str, by: &str) -> Result<ApiKey> {
        let now = self.clock.now();
        if let Some(log) = &self.revocations {
            // Unknown ids are not recorded: guessed ids would fill the log.
            let known = self.find_key_record(id).await?.filter(|known| known.tenant == *tenant);
            known.ok_or_else(|| Error::KeyUnknown { id: id.to_owned() })?;
            log.record_revocation(tenant, id, now).await?;
        }
        let deed = self.audit.build_entry_change(tenant, KeyAuditEntry::new(by, "key.revoked", id));
        let revoke = |it: &mut StoredKeyRecord| it.revoked_at = Some(it.revoked_at.unwrap_or(now));
        let revoked = self.change_key_record(tenant, id, revoke, vec![deed]).await;
        // Also where the store did not say: who holds something open asks it again.
        self.notify_change();
        revoked
    }

    /// Returns a counter that changes whenever a key or a sign-in may have become invalid.
    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Lets those look again who hold something open by a key or a sign-in.
    pub(crate) fn notify_change(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Returns who shows this text, if it is a key that is good.
    pub(super) async fn authenticate_key(self: &Arc<Self>, text: &str) -> Result<Caller, RequestProblem> {
        let id = parse_key_id(text).ok_or_else(RequestProblem::unauthorized)?;
        let CachedKeyRecord { tenant, record, .. } = self
            .find_key_record(id)
            .await
            .map_err(RequestProblem::from)?
            .ok_or_else(RequestProblem::unauthorized)?;
        let now = self.clock.now();
        if !record.matches_digest(&digest_key_text(text), now) {
            return Err(RequestProblem::unauthorized());
        }
        // A caller that presents the secret may learn the state of the key.
        match record.key_state_at(now) {
            KeyState::Active => {}
            KeyState::Expired => {
                return Err(RequestProblem::stale_credentials(RequestProblemKind::KeyExpired));
            }
            KeyState::Revoked => {
                return Err(RequestProblem::stale_credentials(RequestProblemKind::KeyRevoked));
            }
        }
        self.record_key_use(&tenant, id, &record, now);
        let valid_until = record.valid_until(&digest_key_text(text), now);
        Ok(caller_of_key(tenant, id, &record, valid_until))
    }

    /// Returns who holds a key, if the secret that was shown before is still good: the one with this digest.
    pub(super) async fn authenticate_digest(
        &self,
        id: &str,
        digest: &[u8; 32],
    ) -> Result<Caller, RequestProblem> {
        let known = self.find_key_record(id).await.map_err(RequestProblem::from)?;
        let CachedKeyRecord { tenant, record, .. } = known.ok_or_else(RequestProblem::unauthorized)?;
        let now = self.clock.now();
        if !record.matches_digest(digest, now) {
            return Err(RequestProblem::unauthorized());
        }
        match record.key_state_at(now) {
            KeyState::Active => {
                let valid_until = record.valid_until(digest, now);
                Ok(caller_of_key(tenant, id, &record, valid_until))
            }
            KeyState::Expired => Err(RequestProblem::stale_credentials(RequestProblemKind::KeyExpired)),
            KeyState::Revoked => Err(RequestProblem::stale_credentials(RequestProblemKind::KeyRevoked)),
        }
    }

    /// Takes down that a key was used, unless that is known well enough.
    #[expect(clippy::disallowed_methods, reason = "a note of the last use; no answer waits for it")]
    fn record_key_use(
        self: &Arc<Self>,
        tenant: &TenantId,
        id: &str,
        record: &StoredKeyRecord,
        now: Timestamp,
    ) {
        if record.last_used_at.is_some_and(|used_at| now.duration_since(used_at) < USED_EVERY) {
            return;
        }
        let (keyring, tenant, id) = (self.clone(), tenant.clone(), id.to_owned());
        let used = async move {
            let used = |it: &mut StoredKeyRecord| it.last_used_at = it.last_used_at.max(Some(now));
            // Where it cannot be kept, the next use will be.
            drop(keyring.change_key_record(&tenant, &id, used, Vec::new()).await);
        };
        drop(tokio::spawn(used));
    }

    /// Finds a key, and keeps it in mind.
    async fn find_key_record(&self, id: &str) -> Result<Option<CachedKeyRecord>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        if let Some(known) = known {
            return if self.is_store_shared {
                self.refresh_key_record(id, known).await
            } else {
                Ok(Some(known))
            };
        }
        let changing = self.changing.lock().await;
        let owner = self.documents.read_document(&DocumentKey::new(operator_tenant(), OWNER, id)).await?;
        let Some(owner) = owner else { return Ok(None) };
        let tenant = decode_document::<KeyOwner>(&owner)?.tenant;
        let found = self.read_key_record(&tenant, id).await?;
        drop(changing);
        Ok(found)
    }

    /// Reads a tenant's key. The caller holds `changing`, so that an older record never replaces a newer one in the
    /// cache.
    async fn read_key_record(&self, tenant: &TenantId, id: &str) -> Result<Option<CachedKeyRecord>> {
        let found = self.documents.read_document(&DocumentKey::new(tenant.clone(), KIND, id)).await?;
        let Some(found) = found else { return Ok(None) };
        let record = Arc::new(decode_document::<StoredKeyRecord>(&found)?);
        let (version, read_at) = (found.version, self.clock.now());
        let known = CachedKeyRecord { tenant: tenant.clone(), record, version, read_at };
        self.cache_key_record(id, known.clone());
        Ok(Some(known))
    }

    fn cache_key_record(&self, id: &str, known: CachedKeyRecord) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), known);
    }

    fn evict_key_record(&self, id: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Changes a tenant's key, in one transaction with the further changes `beside`.
    async fn change_key_record(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl FnOnce(&mut StoredKeyRecord),
        beside: Vec<DocumentChange>,
    ) -> Result<ApiKey> {
        let changing = self.changing.lock().await;
        let unknown = || Error::KeyUnknown { id: id.to_owned() };
        let CachedKeyRecord { record, version, .. } =
            self.read_key_record(tenant, id).await?.ok_or_else(unknown)?;
        let mut record = StoredKeyRecord::clone(&record);
        change(&mut record);
        let mut changes = build_key_changes(tenant, id, &record, DocumentPrecondition::Version(version));
        changes.extend(beside);
        if let Err(error) = self.documents.change_documents(changes).await {
            // The transaction may have been committed all the same: the next use reads the stored record again.
            self.evict_key_record(id);
            return Err(error.into());
        }
        let shown = record.to_api_key(tenant, id, self.clock.now());
        let (record, version) = (Arc::new(record), version + 1);
        let read_at = self.clock.now();
        self.cache_key_record(id, CachedKeyRecord { tenant: tenant.clone(), record, version, read_at });
        drop(changing);
        Ok(shown)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}

fn check_new_key(new: &NewKey) -> Result<()> {
    let wrong = |why: &str| Err(Error::KeyInvalid { why: why.to_owned() });
    if new.name.trim().is_empty() || new.name.len() > NAME_BYTES || new.name.chars().any(char::is_control) {
        return wrong("the name of a key has 1 to 128 bytes, without control characters");
    }
    if new.scopes.is_empty() {
        return wrong("a key without a scope may do nothing");
    }
    Ok(())
}

/// Writes a key's record, and whose it is. Both go some time after it was taken back.
fn build_key_changes(
    tenant: &TenantId,
    id: &str,
    record: &StoredKeyRecord,
    expect: DocumentPrecondition,
) -> Vec<DocumentChange> {
    let expires_at = record.revoked_at.map(|revoked_at| revoked_at.saturating_add(KEPT));
    let written = |tenant: TenantId, kind: &str, body: JsonDocument, expect: DocumentPrecondition| {
        let key = DocumentKey::new(tenant, kind, id);
        DocumentChange::Write { key, expect, session: None, body, expires_at }
    };
    let owner = encode_document(&KeyOwner { tenant: tenant.clone() });
    let both = match expect {
        DocumentPrecondition::Absent => DocumentPrecondition::Absent,
        DocumentPrecondition::Any | DocumentPrecondition::Version(_) => DocumentPrecondition::Any,
    };
    vec![
        written(operator_tenant(), OWNER, owner, both),
        written(tenant.clone(), KIND, encode_document(record), expect),
    ]
}

fn encode_document(body: &impl Serialize) -> JsonDocument {
    JsonDocument::from_serializable(body).expect("a record is texts and numbers")
}

fn decode_document<'a, T: Deserialize<'a>>(document: &'a StoredDocument) -> Result<T> {
    let decoded = document.body.decode().map_err(|source| singletree_durable::Error::Corrupt {
        what: format!("{} {}", document.key.kind, document.key.id),
        source: Some(source.into()),
    });
    Ok(decoded?)
}

#[cfg(test)]
mod tests;
