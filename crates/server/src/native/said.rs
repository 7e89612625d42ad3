//! What clients say, as the harness takes it: only what a user may say (D16).

use singletree_llm::{ChatMessage, Content, ContentBlock, ImageDetail, ImageSource};
use singletree_protocol::native;

use super::answering::Telling;
use crate::problem::Problem;

impl Telling {
    /// As [`message`], for other sections.
    pub(crate) async fn said(&self, _: &str, content: native::SendContent) -> Result<ChatMessage, Problem> {
        message(content)
    }
}

/// Makes a user's message of content.
pub(super) fn message(content: native::SendContent) -> Result<ChatMessage, Problem> {
    let blocks = match content {
        native::SendContent::Text(text) => return Ok(ChatMessage::user(text)),
        native::SendContent::Blocks(blocks) => blocks,
    };
    let said = blocks.into_iter().enumerate().map(|(at, block)| match block {
        native::SendBlock::Text { text } => Ok(ContentBlock::text_of(text)),
        native::SendBlock::Image { source: native::SendImageSource::Url { url }, media_type, detail } => {
            let url = picture(url).map_err(|it| it.field(format!("content[{at}].source.url")))?;
            let detail = detail.map(|it| match it {
                native::ImageDetail::Auto => ImageDetail::Auto,
                native::ImageDetail::Low => ImageDetail::Low,
                native::ImageDetail::High => ImageDetail::High,
            });
            Ok(ContentBlock::Image { source: ImageSource::Url { url }, media_type, detail })
        }
    });
    Ok(ChatMessage::user(Content::from_blocks(said.collect::<Result<_, Problem>>()?)))
}

/// Checks where a picture is: in the open, or among what was uploaded to the session, which the chat looks up.
fn picture(url: String) -> Result<String, Problem> {
    let is_open = || url::Url::parse(&url).is_ok_and(|it| it.scheme() == "https" && it.has_host());
    if url.starts_with("blob:") || is_open() {
        Ok(url)
    } else {
        Err(Problem::invalid("a picture is at an `https:` address, or named `blob:DIGEST`"))
    }
}
