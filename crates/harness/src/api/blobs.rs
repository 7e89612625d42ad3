//! The calls about pictures and files.

use singletree_durable::{SessionKey, StoredBlob};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource};

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::runtime::blobs::{BlobLimits, BlobReference};
use crate::{Error, Result};

impl Session {
    /// Keeps a picture or a file for a session, which need not have begun, and returns the reference that messages use.
    /// The same bytes are stored once for each tenant, however many sessions use them and however often they are sent.
    ///
    /// The media type is detected from the first bytes; `declared` decides only where those are inconclusive, as in
    /// plain text. The blob is kept as long as a session uses it: this one, and forks of it. Blobs of a session that
    /// does not begin within [`BlobLimits::unclaimed`] are removed.
    ///
    /// # Errors
    /// `chat_blob_refused`, `chat_blob_too_large`, `chat_blobs_full`, `server_quota_exceeded`,
    /// `harness_session_id_unresolved`, `chat_tenant_foreign`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing once the call has begun to look at the store.
    pub async fn keep_blob(&self, bytes: Vec<u8>, declared: Option<&str>) -> Result<BlobReference> {
        let key = self.chat.session_key(&self.id)?;
        let none = || Error::BlobRefused { why: "this chat keeps none".into() };
        let blobs = self.chat.inner.blobs.clone().ok_or_else(none)?;
        let blob = blobs.prepare_blob(bytes, declared)?;
        let (inner, admission) = (self.chat.inner.clone(), self.chat.admission.clone());
        let storing = async move { inner.store_blob(&blobs, (&key, blob), admission.as_deref()).await };
        self.chat.inner.run_call_in_task(storing).await
    }

    /// Returns a blob that a session uses, with its bytes.
    ///
    /// # Errors
    /// `chat_blob_unknown`, `harness_session_id_unresolved`, `chat_tenant_foreign`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the call changes nothing.
    pub async fn blob(&self, digest: &str) -> Result<StoredBlob> {
        let key = self.chat.session_key(&self.id)?;
        let unknown = || Error::BlobUnknown { digest: digest.to_owned() };
        let blobs = self.chat.inner.blobs.as_ref().ok_or_else(unknown)?;
        self.chat.inner.await_store_read(blobs.documents.read_blob(&key, digest)).await?.ok_or_else(unknown)
    }

    /// Returns the metadata of a blob that a session uses.
    ///
    /// # Errors
    /// As [`Session::blob`].
    ///
    /// # Cancellation
    /// As [`Session::blob`].
    pub async fn blob_info(&self, digest: &str) -> Result<BlobReference> {
        self.chat.find_blob_info(&self.chat.session_key(&self.id)?, digest).await
    }
}

impl Chat {
    /// Returns the bounds of the blobs that it keeps; nothing where it keeps none.
    #[must_use]
    pub fn blob_limits(&self) -> Option<&BlobLimits> {
        self.inner.blobs.as_ref().map(|blobs| blobs.limits.as_ref())
    }

    async fn find_blob_info(&self, key: &SessionKey, digest: &str) -> Result<BlobReference> {
        let unknown = || Error::BlobUnknown { digest: digest.to_owned() };
        let blobs = self.inner.blobs.as_ref().ok_or_else(unknown)?;
        self.inner.read_blob_info(blobs, key, digest).await
    }

    /// Checks that the session has the blobs that a message of the user names.
    pub(crate) async fn check_blobs(&self, key: &SessionKey, message: &ChatMessage) -> Result<()> {
        for block in message.content.blocks() {
            let ContentBlock::Image { source: source @ ImageContentSource::Url { url }, .. } = block else {
                continue;
            };
            if !url.starts_with("blob:") {
                continue;
            }
            let unknown = || Error::BlobUnknown { digest: url["blob:".len()..].to_owned() };
            let found = self.find_blob_info(key, source.blob_digest().ok_or_else(unknown)?).await?;
            if !found.media_type.starts_with("image/") {
                let why = format!(
                    "a message shows pictures, and {} is {}",
                    found.reference_name(),
                    found.media_type
                );
                return Err(Error::BlobRefused { why });
            }
        }
        Ok(())
    }
}

impl Chat {
    /// Removes the blobs of sessions that have not begun within
    /// [`BlobLimits::unclaimed`](crate::BlobLimits::unclaimed), and returns the number of these sessions. A chat that
    /// sweeps does this every hour.
    ///
    /// # Errors
    /// `store_unavailable` and its kin; earlier removals stay.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the removal is completed.
    pub async fn remove_unclaimed(&self) -> Result<u64> {
        let inner = self.inner.clone();
        self.inner.run_call_in_task(async move { inner.remove_unclaimed().await }).await
    }
}
