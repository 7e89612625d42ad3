//! Converts the messages of clients for the harness: only content that a user may send (D16).

use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, MessageContent};
use singletree_protocol::native;

use super::answering::HandlerContext;
use crate::pictures;
use crate::problem::RequestProblem;

impl HandlerContext {
    /// Makes a user's message from content. Pictures in `data:` addresses are stored with the session.
    ///
    /// # Errors
    /// `server_request_invalid`; the categories of [`Chat::keep_blob`](singletree_harness::Chat::keep_blob).
    pub(crate) async fn said(
        &self,
        session: &str,
        content: native::SendContent,
    ) -> Result<ChatMessage, RequestProblem> {
        let kept = pictures::kept_each(&self.chat(), session, message(content)).await;
        kept.map_err(|(at, problem)| problem.field(format!("content[{at}].source.url")))
    }
}

/// Makes a user's message of content.
fn message(content: native::SendContent) -> ChatMessage {
    let blocks = match content {
        native::SendContent::Text(text) => return ChatMessage::user(text),
        native::SendContent::Blocks(blocks) => blocks,
    };
    let blocks = blocks.into_iter().map(|block| match block {
        native::SendBlock::Text { text } => ContentBlock::text_of(text),
        native::SendBlock::Image { source: native::SendImageSource::Url { url }, media_type, detail } => {
            let detail = detail.map(|detail| match detail {
                native::ImageDetail::Auto => ImageDetailLevel::Auto,
                native::ImageDetail::Low => ImageDetailLevel::Low,
                native::ImageDetail::High => ImageDetailLevel::High,
            });
            ContentBlock::Image { source: ImageContentSource::Url { url }, media_type, detail }
        }
    });
    ChatMessage::user(MessageContent::from_blocks(blocks.collect()))
}
