//! Documents: a server's own data beside the conversations, in the same store.

use std::fmt;

use crate::{BoxFuture, JsonDocument, Result, SessionId, SessionKey, TenantId, Timestamp};

/// The kind of the documents that are written with nearly every turn and removed soon afterwards: notes of turns whose traces
/// are to be exported. Their ids are in the order of their expiry. A store may keep them out of indexes, and read those of a
/// tenant instead where a session is deleted and where documents expire.
pub const UNSENT_TURN: &str = "unsent";

/// The name of a document: tenant, kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    /// The tenant that owns it (INV-14).
    pub tenant: TenantId,
    /// Its kind, such as `api_key`.
    pub kind: String,
    /// Its id, unique in tenant and kind.
    pub id: String,
}

impl DocumentKey {
    /// Puts the parts together.
    #[must_use]
    pub fn new(tenant: TenantId, kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { tenant, kind: kind.into(), id: id.into() }
    }
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its name.
    pub key: DocumentKey,
    /// The session that it belongs to: it is removed with that session (D25).
    pub session: Option<SessionId>,
    /// Its body.
    pub body: JsonDocument,
    /// How often it was written: 1 for a new one.
    pub version: u64,
    /// It expires at this time.
    pub expires_at: Option<Timestamp>,
}

/// A precondition on a document for a change; checked in the transaction that makes the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentPrecondition {
    /// No condition.
    Any,
    /// The document does not exist.
    Absent,
    /// The document exists and was written this often.
    Version(u64),
}

/// One change of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// Writes it, whatever stood there.
    Write {
        /// Its name.
        key: DocumentKey,
        /// The precondition.
        expect: DocumentPrecondition,
        /// The session that it belongs to.
        session: Option<SessionId>,
        /// Its body.
        body: JsonDocument,
        /// It expires at this time.
        expires_at: Option<Timestamp>,
    },
    /// Removes it, if it is there.
    Remove {
        /// Its name.
        key: DocumentKey,
        /// The precondition.
        expect: DocumentPrecondition,
    },
}

/// Bytes that messages name by their digest.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// The SHA-256 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// Their media type, such as `image/png`.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for StoredBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredBlob({}, {}, {} bytes)", self.digest, self.media_type, self.bytes.len())
    }
}

impl StoredBlob {
    /// Returns its digest, media type and size.
    #[must_use]
    pub fn metadata(&self) -> BlobMetadata {
        let (digest, media_type) = (self.digest.clone(), self.media_type.clone());
        BlobMetadata { digest, media_type, bytes: self.bytes.len() as u64 }
    }
}

/// The description of a blob, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobMetadata {
    /// The SHA-256 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// Their media type, such as `image/png`.
    pub media_type: String,
    /// The number of bytes.
    pub bytes: u64,
}

/// The bytes of a tenant's blobs, counted as they are kept and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantBlobTotals {
    /// Bytes of all blobs of the tenant.
    pub tenant_bytes: u64,
    /// Bytes of those that the holder was the first to keep.
    pub holder_bytes: u64,
}

/// The store for a server's data that is not part of a conversation: keys, tokens, stored responses, bytes that
/// messages name.
///
/// # Contract
/// - **Atomic.** `change` makes all changes or none. All expectations are checked first, against the documents stored
///   before the call; one that does not hold is [`Error::Refused`](crate::Error::Refused).
/// - **Durable**, **never dropped**, **read your writes**, **tenants apart**: as [`Journal`](crate::Journal). Changes that
///   are on their way at once land in any order.
/// - **Gone with its session.** A batch that deletes a session, whether the session exists or not, removes the
///   documents that belong to it and its uses of blobs, in the same transaction; a blob is removed with its last use. A
///   session that [inherits](crate::RowMutation::Inherit) from another session uses, from the same transaction on, the blobs of
///   that session that it names: those whose digest occurs in the body of an item or the value of a field.
/// - **Stored once.** The bytes of a digest are kept once for each tenant, however many sessions use them.
/// - An expired document is kept until something removes it; readers compare the expiry with their own clock.
///
/// Errors by category: `store_refused`, `store_unavailable`, `store_corrupt`, `store_closed`. The contract suite checks
/// every clause. This trait is not under semantic versioning.
pub trait DocumentStore: fmt::Debug + Send + Sync {
    /// Reads a document.
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>>;

    /// Reads the documents of a kind, ordered by id, from past the given id on, at most `limit`.
    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>>;

    /// Changes documents, all or none.
    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>>;

    /// Removes the documents of all tenants whose time was over before, at most `limit`; returns how many.
    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>>;

    /// Commits a small change in the same way as every other write, to check whether the store can be written now. The
    /// stored data mean the same afterwards. The default implementation removes nothing, through [`Self::expire_documents`].
    ///
    /// Errors by category: those of the trait, and `store_full`, `store_fenced`, `store_displaced` where a store can
    /// tell.
    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        let expiry = self.expire_documents(Timestamp::from_millis(i64::MIN), 0);
        Box::pin(async move { expiry.await.map(drop) })
    }

    /// Keeps a blob for a session, which need not exist yet. Doing so again changes nothing; of one that is kept
    /// already, for whatever session of the tenant, the media type stays. Nobody checks the digest here: who reads,
    /// trusts who wrote.
    ///
    /// The bytes count for `holder`, such as a key of the tenant, from when they are first kept until they are removed;
    /// without a holder they count for the tenant alone.
    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>>;

    /// Keeps a blob as [`keep_blob_for`](Self::keep_blob_for) does, for no holder.
    fn keep_blob(&self, key: &SessionKey, blob: StoredBlob) -> BoxFuture<'static, Result<()>> {
        self.keep_blob_for(key, blob, None)
    }

    /// Returns the bytes of a tenant's blobs, and of those of one holder. The cost should not grow with their number.
    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>>;

    /// Reads a blob that a session uses.
    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>>;

    /// Describes a blob that a session uses. The default implementation reads the whole blob.
    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        Box::pin(async move { Ok(self.read_blob(key, digest).await?.as_ref().map(StoredBlob::metadata)) })
    }

    /// Returns how many bytes of blobs a session uses.
    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>>;
}
