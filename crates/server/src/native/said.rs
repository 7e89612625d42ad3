//! What clients say, as the harness takes it: only what a user may say (D16).

use singletree_durable::{SessionId, SessionKey};
use singletree_llm::{ChatMessage, Content, ContentBlock, ImageDetail, ImageSource};
use singletree_protocol::native;

use super::answering::Telling;
use crate::problem::Problem;

impl Telling {
    /// Makes a user's message of content that stands in this session.
    pub(crate) async fn said(
        &self,
        session: &str,
        content: native::SendContent,
    ) -> Result<ChatMessage, Problem> {
        let blocks = match content {
            native::SendContent::Text(text) => return Ok(ChatMessage::user(text)),
            native::SendContent::Blocks(blocks) => blocks,
        };
        let mut said = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.into_iter().enumerate() {
            said.push(match block {
                native::SendBlock::Text { text } => ContentBlock::text_of(text),
                native::SendBlock::Image {
                    source: native::SendImageSource::Url { url },
                    media_type,
                    detail,
                } => {
                    let url = self.picture(session, url).await;
                    let url = url.map_err(|it| it.field(format!("content[{at}].source.url")))?;
                    let detail = detail.map(|it| match it {
                        native::ImageDetail::Auto => ImageDetail::Auto,
                        native::ImageDetail::Low => ImageDetail::Low,
                        native::ImageDetail::High => ImageDetail::High,
                    });
                    ContentBlock::Image { source: ImageSource::Url { url }, media_type, detail }
                }
            });
        }
        Ok(ChatMessage::user(Content::from_blocks(said)))
    }

    /// Checks where a picture is: in the open, or among what was uploaded to this session.
    async fn picture(&self, session: &str, url: String) -> Result<String, Problem> {
        if let Some(digest) = url.strip_prefix("blob:") {
            let unknown = || {
                let why = "nothing of this digest was uploaded to this session";
                Problem::invalid(why).hint("upload it first: POST /v1/sessions/{session}/blobs")
            };
            let session = SessionId::parse(session).map_err(|_| unknown())?;
            let key = SessionKey::new(self.caller.tenant.clone(), session);
            let found = self.shared.documents.blob(&key, digest).await;
            return match found.map_err(|it| Problem::of(&it.into()))? {
                Some(_) => Ok(url),
                None => Err(unknown()),
            };
        }
        match url::Url::parse(&url) {
            Ok(it) if it.scheme() == "https" && it.has_host() => Ok(url),
            _ => Err(Problem::invalid("a picture is at an `https:` address, or named `blob:DIGEST`")),
        }
    }
}
