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
        let kept = pictures::kept_each(&self.chat(), session, message(content)?).await;
        kept.map_err(|(at, problem)| problem.field(format!("content[{at}].source.url")))
    }
}

/// Makes a user's message of content.
fn message(content: native::SendContent) -> Result<ChatMessage, RequestProblem> {
    let blocks = match content {
        native::SendContent::Text(text) => return Ok(ChatMessage::user(text)),
        native::SendContent::Blocks(blocks) => blocks,
    };
    let said = blocks.into_iter().enumerate().map(|(at, block)| match block {
        native::SendBlock::Text { text } => Ok(ContentBlock::text_of(text)),
        native::SendBlock::Image { source: native::SendImageSource::Url { url }, media_type, detail } => {
            let picture = picture(url, media_type)
                .map_err(|problem| problem.field(format!("content[{at}].source.url")))?;
            let detail = detail.map(|detail| match detail {
                native::ImageDetail::Auto => ImageDetailLevel::Auto,
                native::ImageDetail::Low => ImageDetailLevel::Low,
                native::ImageDetail::High => ImageDetailLevel::High,
            });
            let (source, media_type) = picture;
            Ok(ContentBlock::Image { source, media_type, detail })
        }
    });
    Ok(ChatMessage::user(MessageContent::from_blocks(said.collect::<Result<_, RequestProblem>>()?)))
}

/// Reads the address of a picture: `https:`, `blob:` for an upload to the session, or `data:` for the picture itself.
fn picture(
    url: String,
    media_type: Option<String>,
) -> Result<(ImageContentSource, Option<String>), RequestProblem> {
    if let Some(data) = url.strip_prefix("data:") {
        let inline = data.split_once(";base64,").filter(|(kind, _)| kind.starts_with("image/"));
        let wrong = || RequestProblem::invalid("a picture in the message is `data:image/TYPE;base64,BYTES`");
        let (kind, base64_data) = inline.ok_or_else(wrong)?;
        let source = ImageContentSource::Inline { base64_data: base64_data.to_owned() };
        return Ok((source, Some(kind.to_owned())));
    }
    if url.starts_with("blob:") || url.strip_prefix("https://").is_some_and(has_host) {
        Ok((ImageContentSource::Url { url }, media_type))
    } else {
        Err(RequestProblem::invalid(
            "a picture is at an `https:` address, in the message as `data:`, or named `blob:DIGEST`",
        ))
    }
}

/// Checks whether the rest of an `https:` address begins with a host, and a port if any, and has neither spaces nor
/// control characters. The server never follows the address.
fn has_host(rest: &str) -> bool {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_bracketed = authority.starts_with('[');
    let is_of_host = |letter: char| match is_bracketed {
        true => letter.is_ascii_hexdigit() || matches!(letter, ':' | '.'),
        false => letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-'),
    };
    let is_port =
        |digits: &str| (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    !host.is_empty()
        && host.chars().all(is_of_host)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        && !path.chars().any(|letter| letter == ' ' || letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::has_host;

    #[test]
    fn an_address_has_a_host_and_neither_spaces_nor_control_characters() {
        for right in ["a", "a.example:443", "[::1]/a", "a_b-c.d?x=1", "1/ä", "a#b"] {
            assert!(has_host(right), "{right}");
        }
        for wrong in
            ["", ":1", "a:", "a:123456", "a:b", "u@a", "[]/", "[::1", "a b", "a/ b", "a/\u{7f}", "ä", "[x]"]
        {
            assert!(!has_host(wrong), "{wrong}");
        }
    }
}
