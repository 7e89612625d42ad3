//! The pictures of the session whose turn runs, for who asks a model.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use singletree_durable::SessionKey;
use singletree_llm::{BoxFuture, Detail, Error, Picture, Pictures};

use crate::blobs::Blobs;
use crate::house::House;

/// The pictures of the session whose turn runs. Nodes get it by `cx.extension::<TurnPictures>()` and hand it on with what they
/// ask a model ([`Request::with_pictures`](singletree_llm::Request::with_pictures)); outside of chat, and where the chat
/// keeps no blobs, there is none.
pub struct TurnPictures {
    house: Arc<House>,
    key: SessionKey,
    blobs: Blobs,
}

impl TurnPictures {
    /// Returns those of a session, where blobs are kept at all.
    pub(crate) fn of(house: &Arc<House>, key: &SessionKey) -> Option<Self> {
        let blobs = house.blobs.clone()?;
        Some(Self { house: house.clone(), key: key.clone(), blobs })
    }

    async fn read(&self, digest: &str) -> Result<Option<Picture>, Error> {
        let read = self.house.read(self.blobs.documents.blob(&self.key, digest)).await;
        // As a provider that is away: the same again may succeed.
        let unread = |it: crate::Error| {
            let category = it.category().to_owned();
            Error::Unavailable(Detail::new(format!("a picture cannot be read: {category}")).with_source(it))
        };
        Ok(read
            .map_err(unread)?
            .map(|it| Picture { base64_data: STANDARD.encode(&it.bytes), media_type: it.media_type }))
    }
}

impl Pictures for TurnPictures {
    fn picture<'a>(&'a self, digest: &'a str) -> BoxFuture<'a, Result<Option<Picture>, Error>> {
        Box::pin(self.read(digest))
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
