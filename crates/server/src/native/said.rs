//! What clients say, as the harness takes it: only what a user may say (D16).

use singletree_llm::{ChatMessage, Content, ContentBlock, ImageDetail, ImageSource};
use singletree_protocol::native;

use super::answering::Telling;
use crate::pictures;
use crate::problem::Problem;

impl Telling {
    /// Makes a user's message from content. Pictures in `data:` addresses are stored with the session.
    ///
    /// # Errors
    /// `server_request_invalid`; the categories of [`Chat::keep_blob`](singletree_harness::Chat::keep_blob).
    pub(crate) async fn said(
        &self,
        session: &str,
        content: native::SendContent,
    ) -> Result<ChatMessage, Problem> {
        let kept = pictures::kept_each(&self.chat(), session, message(content)?).await;
        kept.map_err(|(at, problem)| problem.field(format!("content[{at}].source.url")))
    }
}

/// Makes a user's message of content.
fn message(content: native::SendContent) -> Result<ChatMessage, Problem> {
    let blocks = match content {
        native::SendContent::Text(text) => return Ok(ChatMessage::user(text)),
        native::SendContent::Blocks(blocks) => blocks,
    };
    let said = blocks.into_iter().enumerate().map(|(at, block)| match block {
        native::SendBlock::Text { text } => Ok(ContentBlock::text_of(text)),
        native::SendBlock::Image { source: native::SendImageSource::Url { url }, media_type, detail } => {
            let picture = picture(url, media_type)
                .map_err(|problem| problem.field(format!("content[{at}].source.url")))?;
            let detail = detail.map(|it| match it {
                native::ImageDetail::Auto => ImageDetail::Auto,
                native::ImageDetail::Low => ImageDetail::Low,
                native::ImageDetail::High => ImageDetail::High,
            });
            let (source, media_type) = picture;
            Ok(ContentBlock::Image { source, media_type, detail })
        }
    });
    Ok(ChatMessage::user(Content::from_blocks(said.collect::<Result<_, Problem>>()?)))
}

/// Reads the address of a picture: `https:`, `blob:` for an upload to the session, or `data:` for the picture itself.
fn picture(url: String, media_type: Option<String>) -> Result<(ImageSource, Option<String>), Problem> {
    if let Some(data) = url.strip_prefix("data:") {
        let inline = data.split_once(";base64,").filter(|(kind, _)| kind.starts_with("image/"));
        let wrong = || Problem::invalid("a picture in the message is `data:image/TYPE;base64,BYTES`");
        let (kind, base64_data) = inline.ok_or_else(wrong)?;
        let source = ImageSource::Inline { base64_data: base64_data.to_owned() };
        return Ok((source, Some(kind.to_owned())));
    }
    let is_open = || url::Url::parse(&url).is_ok_and(|it| it.scheme() == "https" && it.has_host());
    if url.starts_with("blob:") || is_open() {
        Ok((ImageSource::Url { url }, media_type))
    } else {
        Err(Problem::invalid(
            "a picture is at an `https:` address, in the message as `data:`, or named `blob:DIGEST`",
        ))
    }
}
