//! Documents: what a server keeps of its own beside the conversations, in the same store.

use std::fmt;

use crate::{BoxFuture, Json, Result, SessionId, SessionKey, TenantId, Timestamp};

/// Names a document: whose it is, what kind, which one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    /// Whose it is (INV-14).
    pub tenant: TenantId,
    /// What it is, such as `api_key`.
    pub kind: String,
    /// Which one, unique in tenant and kind.
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
pub struct Document {
    /// Its name.
    pub key: DocumentKey,
    /// The session that it belongs to: it goes with that session (D25).
    pub session: Option<SessionId>,
    /// What it says.
    pub body: Json,
    /// How often it was written: 1 for a new one.
    pub version: u64,
    /// From when on it is as if it were not there.
    pub expires_at: Option<Timestamp>,
}

/// What must hold of a document for a change to be made; checked in the transaction that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// There is none.
    Absent,
    /// It was written this often.
    Version(u64),
}

/// One change of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Writes it, whatever stood there.
    Write {
        /// Its name.
        key: DocumentKey,
        /// What must hold.
        expect: Expect,
        /// The session that it belongs to.
        session: Option<SessionId>,
        /// What it says.
        body: Json,
        /// From when on it is as if it were not there.
        expires_at: Option<Timestamp>,
    },
    /// Removes it, if it is there.
    Remove {
        /// Its name.
        key: DocumentKey,
        /// What must hold.
        expect: Expect,
    },
}

/// Bytes that messages name by their digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// The SHA-256 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// What they are, such as `image/png`.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {}, {} bytes)", self.digest, self.media_type, self.bytes.len())
    }
}

impl Blob {
    /// Returns what is known of it beside its bytes.
    #[must_use]
    pub fn info(&self) -> BlobInfo {
        let (digest, media_type) = (self.digest.clone(), self.media_type.clone());
        BlobInfo { digest, media_type, bytes: self.bytes.len() as u64 }
    }
}

/// What is known of a blob beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// The SHA-256 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// What they are, such as `image/png`.
    pub media_type: String,
    /// How many there are.
    pub bytes: u64,
}

/// The bytes of a tenant's blobs, counted as they are kept and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobAccount {
    /// Bytes of all blobs of the tenant.
    pub tenant_bytes: u64,
    /// Bytes of those that the holder was the first to keep.
    pub holder_bytes: u64,
}

/// Where a server keeps what is no conversation: keys, tokens, answers that were given, bytes that messages name.
///
/// # Contract
/// - **Atomic.** `change` makes all changes or none. Expectations are checked first, all of them, on what is stored before it;
///   one that does not hold is [`Error::Refused`](crate::Error::Refused).
/// - **Durable**, **never dropped**, **read your writes**, **tenants apart**: as [`Journal`](crate::Journal).
/// - **Gone with its session.** A batch that deletes a session, be it there or not, removes the documents that belong to it
///   and its uses of blobs, in the same transaction; a blob goes with its last use. A session that
///   [inherits](crate::Put::Inherit) from another uses, from the same transaction on, those blobs of that one that it names:
///   whose digest stands in the body of an item or the value of a field.
/// - **Stored once.** The bytes of a digest are kept once for each tenant, however many sessions use them.
/// - A document whose time is over is kept until something removes it; who reads decides with its own clock.
///
/// Errors by category: `store_refused`, `store_unavailable`, `store_corrupt`, `store_closed`. The contract suite checks every
/// clause. This trait is not under semantic versioning.
pub trait Documents: fmt::Debug + Send + Sync {
    /// Reads a document.
    fn document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<Document>>>;

    /// Reads the documents of a kind, ordered by id, from past the given id on, at most `limit`.
    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<Document>>>;

    /// Changes documents, all or none.
    fn change(&self, changes: Vec<Change>) -> BoxFuture<'static, Result<()>>;

    /// Removes the documents of all tenants whose time was over before, at most `limit`; returns how many.
    fn expire(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>>;

    /// Commits a small change by the same way as every other write, to tell whether the store can be written now. What is stored
    /// means the same afterwards. Stores that do not say otherwise remove nothing, through [`Self::expire`].
    ///
    /// Errors by category: those of the trait, and `store_full`, `store_fenced`, `store_displaced` where a store can tell.
    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        let expiry = self.expire(Timestamp::from_millis(i64::MIN), 0);
        Box::pin(async move { expiry.await.map(drop) })
    }

    /// Keeps a blob for a session, which need not exist yet. Doing so again changes nothing; of one that is kept already, for
    /// whatever session of the tenant, the media type stays. Nobody checks the digest here: who reads, trusts who wrote.
    ///
    /// The bytes count for `holder`, such as a key of the tenant, from when they are first kept until they are removed; without
    /// a holder they count for the tenant alone.
    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: Blob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>>;

    /// Keeps a blob as [`keep_blob_for`](Self::keep_blob_for) does, for no holder.
    fn keep_blob(&self, key: &SessionKey, blob: Blob) -> BoxFuture<'static, Result<()>> {
        self.keep_blob_for(key, blob, None)
    }

    /// Returns the bytes of a tenant's blobs, and of those of one holder. The cost should not grow with their number.
    fn blob_account<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<BlobAccount>>;

    /// Reads a blob that a session uses.
    fn blob<'a>(&'a self, key: &'a SessionKey, digest: &'a str) -> BoxFuture<'a, Result<Option<Blob>>>;

    /// Says what a blob is that a session uses. Stores that do not say otherwise read it for that.
    fn blob_info<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobInfo>>> {
        Box::pin(async move { Ok(self.blob(key, digest).await?.as_ref().map(Blob::info)) })
    }

    /// Returns how many bytes of blobs a session uses.
    fn blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>>;
}
