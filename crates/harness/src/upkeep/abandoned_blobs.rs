//! Finds and removes the blobs of sessions that never began.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, SessionKey,
    StoredDocument, TenantId, Timestamp,
};

use singletree_session::apply;

use crate::error::store_corrupt_error;
use crate::runtime::blobs::Blobs;
use crate::runtime::chat_inner::ChatInner;
use crate::{Error, Result};

/// The kind of the documents by which such sessions are found again. They belong to the operator's tenant.
const KIND: &str = "unclaimed";

/// The interval between two checks.
const ROUND: Duration = Duration::from_secs(3600);

/// How many are read at once.
const PAGE: u64 = 256;

/// The note about a session that had not begun when a blob was kept for it.
#[derive(Debug, Serialize, Deserialize)]
struct UnclaimedBlobNote {
    key: SessionKey,
    /// The time until which its blobs are kept.
    until: Timestamp,
}

/// Returns the tenant that owns documents of no tenant; a server refuses this name for tenants.
fn operator_tenant() -> Result<TenantId> {
    TenantId::parse("operator")
        .map_err(|error| store_corrupt_error("the operator's name".into(), Some(error.into())))
}

impl ChatInner {
    /// Writes a note, if the session has not begun, that a blob is kept for it. Called before the blob is stored.
    pub(crate) async fn note_unclaimed_session(&self, key: &SessionKey, blobs: &Blobs) -> Result<()> {
        if self.await_store_read(self.journal.read_session(key)).await?.is_some() {
            return Ok(());
        }
        let until = self.current_time().saturating_add(blobs.limits.unclaimed);
        let body = serde_json::to_value(UnclaimedBlobNote { key: key.clone(), until });
        let body =
            body.map_err(|error| store_corrupt_error("the name of a session".into(), Some(error.into())))?;
        // The length tells where one name ends and the other begins.
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let id = format!("{}:{tenant}:{session}", tenant.len());
        let note = DocumentChange::Write {
            key: DocumentKey::new(operator_tenant()?, KIND, id),
            expect: DocumentPrecondition::Any,
            session: None,
            body: JsonDocument::from(&body),
            // `remove_for` removes the note together with the blobs; an expiry time would remove the note alone.
            expires_at: None,
        };
        Ok(blobs.documents.change_documents(vec![note]).await?)
    }

    pub(crate) async fn remove_unclaimed(self: &Arc<Self>) -> Result<u64> {
        let Some(blobs) = &self.blobs else { return Ok(0) };
        let (operator, now) = (operator_tenant()?, self.current_time());
        let (mut past, mut removed) = (None, 0);
        loop {
            let page = blobs.documents.read_documents(&operator, KIND, past.as_deref(), PAGE);
            let page = self.await_store_read(page).await?;
            for note in &page {
                let unreadable = |it: serde_json::Error| {
                    store_corrupt_error(format!("the document {KIND} {}", note.key.id), Some(it.into()))
                };
                let unclaimed: UnclaimedBlobNote = note.body.decode().map_err(unreadable)?;
                if unclaimed.until <= now && self.serves_tenant(&unclaimed.key.tenant) {
                    removed += u64::from(self.remove_session_blobs(&unclaimed.key, note, blobs).await?);
                }
            }
            match page.into_iter().next_back() {
                Some(last) if !self.is_closing() => past = Some(last.key.id),
                _ => return Ok(removed),
            }
        }
    }

    /// Removes the blobs of a session, unless it has begun meanwhile, and then the note. Returns whether it had not
    /// begun.
    async fn remove_session_blobs(
        self: &Arc<Self>,
        key: &SessionKey,
        note: &StoredDocument,
        blobs: &Blobs,
    ) -> Result<bool> {
        let loaded = self.session_in_memory(key)?;
        self.ensure_session_ready(&loaded).await?;
        let ((), commit) = self.commit_decision(&loaded, |_, writing| {
            apply::delete::remove_unclaimed_blobs(writing);
            Ok::<_, Error>(())
        })?;
        let removed = match self.await_commit(&loaded, commit).await {
            Ok(()) => true,
            Err(StoreError::Refused { .. })
                if self.await_store_read(self.journal.read_session(key)).await?.is_some() =>
            {
                false
            }
            Err(error) => return Err(error.into()),
        };
        let expect = DocumentPrecondition::Version(note.version);
        let remove = DocumentChange::Remove { key: note.key.clone(), expect };
        match blobs.documents.change_documents(vec![remove]).await {
            // Refused: another blob was kept for the session just now, and its note is newer.
            Ok(()) | Err(StoreError::Refused { .. }) => Ok(removed),
            Err(error) => Err(Error::from(error)),
        }
    }

    /// Starts the background task that removes unclaimed blobs, at the first call.
    pub(crate) fn watch_unclaimed(self: &Arc<Self>) {
        let blobs = self.blobs.as_ref().filter(|blob| !blob.watched.swap(true, Ordering::AcqRel));
        // The task must not hold the blobs, which hold the store, while it sleeps.
        let Some(bell) = blobs.map(|it| it.bell.clone()) else { return };
        let (watched, timer) = (Arc::downgrade(self), self.env.timer.clone());
        self.tasks.spawn_task(async move {
            while let Some(inner) = watched.upgrade().filter(|inner| !inner.is_closing()) {
                // A failure is left to the next round: nothing depends on it.
                drop(inner.remove_unclaimed().await);
                drop(inner);
                drop(timer.run_with_timeout(ROUND, bell.notified()).await);
            }
        });
    }
}
