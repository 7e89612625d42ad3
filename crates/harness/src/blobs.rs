//! Pictures and files that messages name: kept once beside the conversations, put in where a model is asked.

mod abandoned;
mod kind;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sha2::{Digest, Sha256};
use singletree_durable::{BlobMetadata, DocumentStore, SessionKey, StoredBlob};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource};
use tokio::sync::{Mutex, Notify};

use crate::admission::Admission;
use crate::chat::Chat;
use crate::chat_inner::ChatInner;
use crate::{Error, Result};

pub use turn::TurnPictures;

/// The bounds of blobs (INV-12). The error category of each stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobLimits {
    /// Bytes of one blob; more are `chat_blob_too_large`.
    pub bytes: usize,
    /// Bytes of all blobs that one session uses; more are `chat_blobs_full`.
    pub session_bytes: u64,
    /// Bytes of pictures that one request to a model carries, as base64: beyond it those that stand earliest in the
    /// conversation are left out, and a short text says so in their place.
    pub request_bytes: usize,
    /// The media types that are kept; another is `chat_blob_refused`. Messages show pictures only, whatever else is
    /// kept.
    pub types: Vec<String>,
    /// How long blobs are kept for a session that has not begun.
    pub unclaimed: Duration,
}

impl Default for BlobLimits {
    fn default() -> Self {
        Self {
            bytes: 10 << 20,
            session_bytes: 100 << 20,
            request_bytes: 32 << 20,
            types: ["image/png", "image/jpeg", "image/gif", "image/webp"].map(str::to_owned).to_vec(),
            unclaimed: Duration::from_secs(24 * 3600),
        }
    }
}

/// The blob storage of a chat. With it, sessions can be given pictures ([`Chat::keep_blob`]) that messages refer to.
///
/// It must be the store of the chat: the blobs of a session are deleted with the session, in one transaction.
#[derive(Debug, Clone)]
pub struct Blobs {
    documents: Arc<dyn DocumentStore>,
    limits: Arc<BlobLimits>,
    /// Serialises the additions of blobs, so that the usage of a session is counted and increased atomically.
    adding: Arc<Mutex<()>>,
    /// Whether the background task that removes unclaimed blobs was started.
    watched: Arc<AtomicBool>,
    /// Rung at shutdown.
    pub(crate) bell: Arc<Notify>,
}

impl Blobs {
    /// Keeps blobs in the store that the chat is opened on.
    #[must_use]
    pub fn new<D: DocumentStore + 'static>(store: D) -> Self {
        Self::with_shared_store(Arc::new(store))
    }

    /// As [`Blobs::new`], of a store that is shared.
    #[must_use]
    pub fn with_shared_store(documents: Arc<dyn DocumentStore>) -> Self {
        let (limits, adding, watched, bell) = Default::default();
        Self { documents, limits, adding, watched, bell }
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limits(mut self, limits: BlobLimits) -> Self {
        self.limits = Arc::new(limits);
        self
    }
}

impl Blobs {
    /// Returns where they are kept.
    pub(crate) fn document_store(&self) -> &dyn DocumentStore {
        self.documents.as_ref()
    }

    /// Checks bytes that somebody wants to have kept, and names them by their digest.
    fn prepare_blob(&self, bytes: Vec<u8>, declared: Option<&str>) -> Result<StoredBlob> {
        let max = self.limits.bytes;
        if bytes.len() > max {
            return Err(Error::BlobTooLarge { max });
        }
        let media_type = kind::detect_media_type(&bytes, declared, &self.limits.types)?;
        Ok(StoredBlob { digest: encode_hex(&Sha256::digest(&bytes)), media_type, bytes })
    }
}

/// A blob that a session uses, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobReference {
    /// The SHA-256 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// The media type of the bytes, detected from the first of them.
    pub media_type: String,
    /// How many there are.
    pub bytes: u64,
}

impl BlobReference {
    /// Returns the name by which messages refer to it: `blob:` and the digest.
    #[must_use]
    pub fn reference_name(&self) -> String {
        format!("blob:{}", self.digest)
    }

    /// Makes the block of a message that shows it.
    #[must_use]
    pub fn image_block(&self) -> ContentBlock {
        let media_type = Some(self.media_type.clone());
        ContentBlock::Image {
            source: ImageContentSource::from_blob_digest(&self.digest),
            media_type,
            detail: None,
        }
    }
}

impl From<BlobMetadata> for BlobReference {
    fn from(info: BlobMetadata) -> Self {
        let BlobMetadata { digest, media_type, bytes } = info;
        Self { digest, media_type, bytes }
    }
}

impl Chat {
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
    pub async fn keep_blob(
        &self,
        session_id: &str,
        bytes: Vec<u8>,
        declared: Option<&str>,
    ) -> Result<BlobReference> {
        let key = self.session_key(session_id)?;
        let none = || Error::BlobRefused { why: "this chat keeps none".into() };
        let blobs = self.inner.blobs.clone().ok_or_else(none)?;
        let blob = blobs.prepare_blob(bytes, declared)?;
        let (inner, admission) = (self.inner.clone(), self.admission.clone());
        let storing = async move { inner.store_blob(&blobs, (&key, blob), admission.as_deref()).await };
        self.inner.run_call_in_task(storing).await
    }

    /// Returns a blob that a session uses, with its bytes.
    ///
    /// # Errors
    /// `chat_blob_unknown`, `harness_session_id_unresolved`, `chat_tenant_foreign`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the call changes nothing.
    pub async fn blob(&self, session_id: &str, digest: &str) -> Result<StoredBlob> {
        let key = self.session_key(session_id)?;
        let unknown = || Error::BlobUnknown { digest: digest.to_owned() };
        let blobs = self.inner.blobs.as_ref().ok_or_else(unknown)?;
        self.inner.await_store_read(blobs.documents.read_blob(&key, digest)).await?.ok_or_else(unknown)
    }

    /// Returns the metadata of a blob that a session uses.
    ///
    /// # Errors
    /// As [`Chat::blob`].
    ///
    /// # Cancellation
    /// As [`Chat::blob`].
    pub async fn blob_info(&self, session_id: &str, digest: &str) -> Result<BlobReference> {
        self.find_blob_info(&self.session_key(session_id)?, digest).await
    }

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

impl ChatInner {
    /// Keeps a blob for a session, unless the session has it already, within the bounds of the session and the quotas
    /// of `admission`.
    async fn store_blob(
        &self,
        blobs: &Blobs,
        (key, blob): (&SessionKey, StoredBlob),
        admission: Option<&dyn Admission>,
    ) -> Result<BlobReference> {
        let digest = blob.digest.clone();
        self.note_unclaimed_session(key, blobs).await?;
        let adding = blobs.adding.lock().await;
        let known = self.await_store_read(blobs.documents.read_blob_metadata(key, &digest)).await?;
        if let Some(known) = known {
            return Ok(known.into());
        }
        let (size, max) = (blob.bytes.len() as u64, blobs.limits.session_bytes);
        if self.await_store_read(blobs.documents.count_blob_bytes(key)).await?.saturating_add(size) > max {
            return Err(Error::BlobsFull { max });
        }
        let holder = match admission {
            Some(admission) => {
                let account = blobs.documents.read_blob_totals(&key.tenant, admission.account_holder());
                admission.admit_blob(size, self.await_store_read(account).await?)?;
                Some(admission.account_holder())
            }
            None => None,
        };
        // A write that has begun is never given up (D20).
        blobs.documents.keep_blob_for(key, blob, holder).await?;
        drop(adding);
        self.read_blob_info(blobs, key, &digest).await
    }

    async fn read_blob_info(&self, blobs: &Blobs, key: &SessionKey, digest: &str) -> Result<BlobReference> {
        let unknown = || Error::BlobUnknown { digest: digest.to_owned() };
        let info = self.await_store_read(blobs.documents.read_blob_metadata(key, digest)).await?;
        info.map(BlobReference::from).ok_or_else(unknown)
    }
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
