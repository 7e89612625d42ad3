//! The pictures of the session whose turn runs, for who asks a model.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use singletree_durable::SessionKey;
use singletree_llm::{BoxFuture, Error, PictureResolver, ProviderErrorDetail, ResolvedPicture};

use crate::agents::admission::Admission;
use crate::runtime::blobs::{BlobReference, Blobs};
use crate::runtime::chat_inner::ChatInner;

/// The pictures of the session whose turn runs. Nodes get them from their [`TurnContext`](crate::TurnContext) and pass
/// them on with their requests to models ([`Request::with_pictures`](singletree_llm::Request::with_pictures)). Where the
/// chat keeps no blobs there are none. Nodes also store here the pictures that tools returned ([`TurnPictures::keep_picture`]).
pub struct TurnPictures {
    inner: Arc<ChatInner>,
    key: SessionKey,
    blobs: Blobs,
    /// Who admitted the turn; none in one that another process had begun.
    admission: Option<Arc<dyn Admission>>,
}

impl TurnPictures {
    /// Returns those of a session, where blobs are kept at all.
    pub(crate) fn for_session(
        inner: &Arc<ChatInner>,
        key: &SessionKey,
        admission: Option<Arc<dyn Admission>>,
    ) -> Option<Self> {
        let blobs = inner.blobs.clone()?;
        Some(Self { inner: inner.clone(), key: key.clone(), blobs, admission })
    }

    /// Keeps a picture that a tool returned for the session of the turn, as [`Session::keep_blob`](crate::Session::keep_blob)
    /// keeps those of users: with the same bounds, quotas and lifetime. Pictures that the session has already are not
    /// stored again. The quotas are those of the caller that began or resumed the turn; for a turn that another process
    /// began, only the session's bound holds.
    ///
    /// # Errors
    /// `chat_blob_refused`, also of a file that is no picture, `chat_blob_too_large`, `chat_blobs_full`,
    /// `server_quota_exceeded`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A write that has begun is carried out; it precedes every later write of the session, such as its deletion.
    pub async fn keep_picture(&self, bytes: Vec<u8>, declared: Option<&str>) -> crate::Result<BlobReference> {
        let blob = self.blobs.prepare_blob(bytes, declared)?;
        if !blob.media_type.starts_with("image/") {
            let why = format!("it is {}, and a tool shows pictures only", blob.media_type);
            return Err(crate::Error::BlobRefused { why });
        }
        self.inner.store_blob(&self.blobs, (&self.key, blob), self.admission.as_deref()).await
    }

    async fn read_picture(&self, digest: &str) -> Result<Option<ResolvedPicture>, Error> {
        let read = self.inner.await_store_read(self.blobs.documents.read_blob(&self.key, digest)).await;
        // As a provider that is away: the same again may succeed.
        let unread = |it: crate::Error| {
            let category = it.category().to_owned();
            Error::Unavailable(
                ProviderErrorDetail::new(format!("a picture cannot be read: {category}")).with_source(it),
            )
        };
        Ok(read.map_err(unread)?.map(|read| ResolvedPicture {
            base64_data: STANDARD.encode(&read.bytes),
            media_type: read.media_type,
        }))
    }
}

impl PictureResolver for TurnPictures {
    fn load_picture<'a>(&'a self, digest: &'a str) -> BoxFuture<'a, Result<Option<ResolvedPicture>, Error>> {
        Box::pin(self.read_picture(digest))
    }

    fn request_bytes_max(&self) -> usize {
        self.blobs.limits.request_bytes
    }
}

impl std::fmt::Debug for TurnPictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TurnPictures({})", self.key.session)
    }
}
