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
    /// `server_request_invalid`; the categories of [`Session::keep_blob`](singletree_harness::Session::keep_blob).
    pub(crate) async fn build_user_message(
        &self,
        session: &str,
        content: native::SendContent,
    ) -> Result<ChatMessage, RequestProblem> {
        let kept =
            pictures::store_pictures_indexed(&self.caller_chat(), session, convert_send_content(content))
                .await;
        kept.map_err(|(at, problem)| problem.with_field(format!("content[{at}].source.url")))
    }
}

/// Makes a user's message of content.
fn convert_send_content(content: native::SendContent) -> ChatMessage {
    let blocks = match content {
        native::SendContent::Text(text) => return ChatMessage::user(text),
        native::SendContent::Blocks(blocks) => blocks,
    };
    let blocks = blocks.into_iter().map(|block| match block {
        native::SendBlock::Text { text } => ContentBlock::from_text(text),
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
