//! Pictures of a user's message: inline pictures, as base64 or in a `data:` address, are stored with the session and
//! named by their digest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use singletree_harness::Chat;
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent};

use crate::problem::RequestProblem;

/// Returns the message with its pictures stored for the session and named by their digests. Pictures at `https:`
/// addresses, and stored ones, stay as they are.
///
/// # Errors
/// `server_request_invalid`; the categories of [`Session::keep_blob`](singletree_harness::Session::keep_blob).
pub(crate) async fn store_pictures(
    chat: &Chat,
    session: &str,
    message: ChatMessage,
) -> Result<ChatMessage, RequestProblem> {
    store_pictures_indexed(chat, session, message).await.map_err(|(_, problem)| problem)
}

/// As [`kept`]; a problem comes with the index of its block.
///
/// # Errors
/// As [`kept`].
pub(crate) async fn store_pictures_indexed(
    chat: &Chat,
    session: &str,
    message: ChatMessage,
) -> Result<ChatMessage, (usize, RequestProblem)> {
    let MessageContent::Blocks(blocks) = message.content else { return Ok(message) };
    let mut kept = Vec::with_capacity(blocks.len());
    for (at, block) in blocks.into_iter().enumerate() {
        let placed = |problem| (at, problem);
        kept.push(match block {
            ContentBlock::Image {
                source: ImageContentSource::Inline { base64_data },
                media_type,
                detail,
            } => {
                let source = store_picture(chat, session, &base64_data, media_type.as_deref()).await;
                let (source, media_type) = source.map_err(placed)?;
                ContentBlock::Image { source, media_type, detail }
            }
            ContentBlock::Image { source: ImageContentSource::Url { url }, media_type, detail }
                if is_data_url(&url) =>
            {
                let (declared, base64_data) = parse_data_url(&url).map_err(placed)?;
                let declared = media_type.or(declared);
                let source = store_picture(chat, session, base64_data, declared.as_deref()).await;
                let (source, media_type) = source.map_err(placed)?;
                ContentBlock::Image { source, media_type, detail }
            }
            ContentBlock::Image { source: ImageContentSource::Url { url }, media_type, detail } => {
                let source = ImageContentSource::Url { url: check_picture_url(url).map_err(placed)? };
                ContentBlock::Image { source, media_type, detail }
            }
            other @ (ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::RedactedThinking { .. }) => other,
        });
    }
    Ok(ChatMessage { content: MessageContent::from_blocks(kept), ..message })
}

/// Checks whether an address is a `data:` address.
pub(crate) fn is_data_url(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Parses a `data:` address (RFC 2397) into its media type, if it has one, and its base64 text.
fn parse_data_url(url: &str) -> Result<(Option<String>, &str), RequestProblem> {
    let wrong = || RequestProblem::invalid_request("a `data:` address is `data:MEDIA/TYPE;base64,…`");
    let (head, data) = url.get(5..).and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
    let kind = head.strip_suffix(";base64").ok_or_else(wrong)?;
    let media_type = kind.split(';').next().filter(|name| !name.is_empty()).map(str::to_owned);
    Ok((media_type, data))
}

async fn store_picture(
    chat: &Chat,
    session: &str,
    data: &str,
    declared: Option<&str>,
) -> Result<(ImageContentSource, Option<String>), RequestProblem> {
    let bytes = STANDARD
        .decode(data)
        .map_err(|_| RequestProblem::invalid_request("a picture in a message is base64"))?;
    let blob = chat
        .session(session)
        .keep_blob(bytes, declared)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    if !blob.media_type.starts_with("image/") {
        return Err(RequestProblem::invalid_request("what is in the message is no picture"));
    }
    Ok((ImageContentSource::from_blob_digest(&blob.digest), Some(blob.media_type)))
}

/// Checks the address of a picture. The chat checks that a picture named by digest exists.
fn check_picture_url(url: String) -> Result<String, RequestProblem> {
    if url.starts_with("blob:") {
        return Ok(url);
    }
    if url.strip_prefix("https://").is_some_and(is_host_and_path) {
        return Ok(url);
    }
    Err(RequestProblem::invalid_request(
        "a picture is in the message, at an `https:` address, or named `blob:DIGEST`",
    ))
}

/// Checks whether the rest of an `https:` address begins with a host, and a port if any, and has neither spaces nor
/// control characters. The server never follows the address.
fn is_host_and_path(rest: &str) -> bool {
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
    use super::is_host_and_path;

    #[test]
    fn an_address_has_a_host_and_neither_spaces_nor_control_characters() {
        for right in ["a", "a.example:443", "[::1]/a", "a_b-c.d?x=1", "1/ä", "a#b"] {
            assert!(is_host_and_path(right), "{right}");
        }
        for wrong in
            ["", ":1", "a:", "a:123456", "a:b", "u@a", "[]/", "[::1", "a b", "a/ b", "a/\u{7f}", "ä", "[x]"]
        {
            assert!(!is_host_and_path(wrong), "{wrong}");
        }
    }
}
