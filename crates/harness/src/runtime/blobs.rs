//! Pictures and files that messages name: kept once beside the conversations, put in where a model is asked.

mod kind;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sha2::{Digest, Sha256};
use singletree_durable::{BlobMetadata, DocumentStore, SessionKey, StoredBlob};
use singletree_llm::{ContentBlock, ImageContentSource};
use tokio::sync::{Mutex, Notify};

use crate::agents::admission::Admission;
use crate::runtime::chat_inner::ChatInner;
use crate::{Error, Result};

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

/// The blob storage of a chat. With it, sessions can be given pictures ([`keep_blob`](crate::Session::keep_blob)) that
/// messages refer to.
///
/// It must be the store of the chat: the blobs of a session are deleted with the session, in one transaction.
#[derive(Debug, Clone)]
pub struct Blobs {
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) limits: Arc<BlobLimits>,
    /// Serialises the additions of blobs, so that the usage of a session is counted and increased atomically.
    adding: Arc<Mutex<()>>,
    /// Whether the background task that removes unclaimed blobs was started.
    pub(crate) watched: Arc<AtomicBool>,
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
    pub(crate) fn prepare_blob(&self, bytes: Vec<u8>, declared: Option<&str>) -> Result<StoredBlob> {
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

impl ChatInner {
    /// Keeps a blob for a session, unless the session has it already, within the bounds of the session and the quotas
    /// of `admission`.
    pub(crate) async fn store_blob(
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

    pub(crate) async fn read_blob_info(
        &self,
        blobs: &Blobs,
        key: &SessionKey,
        digest: &str,
    ) -> Result<BlobReference> {
        let unknown = || Error::BlobUnknown { digest: digest.to_owned() };
        let info = self.await_store_read(blobs.documents.read_blob_metadata(key, digest)).await?;
        info.map(BlobReference::from).ok_or_else(unknown)
    }
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
