//! The redaction of inline pictures in messages that observers see (observability §5.5.5).

use serde_json::{Value, json};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource};

/// Writes a message in the shape of llm-provider §3, with a placeholder in place of each inline picture.
pub(crate) fn redact_message(message: &ChatMessage) -> Value {
    let blocks = message.content.blocks();
    let inline_sources: Vec<_> = blocks.iter().map(inline_byte_count).collect();
    if inline_sources.iter().all(Option::is_none) {
        return to_json(message);
    }
    let mut outline = message.clone();
    outline.content = "".into();
    let mut written = to_json(&outline);
    let shown = blocks.iter().zip(inline_sources).map(|(block, bytes)| match bytes {
        Some(bytes) => redact_image(block, bytes),
        None => to_json(block),
    });
    written["content"] = shown.collect();
    written
}

/// Returns how long the encoded bytes of an inline picture are. A `data:` URL is one, too, whatever its form says.
fn inline_byte_count(block: &ContentBlock) -> Option<usize> {
    let ContentBlock::Image { source, .. } = block else { return None };
    match source {
        ImageContentSource::Inline { base64_data } => Some(base64_data.len()),
        ImageContentSource::Url { url } => {
            let data = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")).map(|_| url);
            data.map(|url| url.split_once(',').map_or(0, |(_, data)| data.len()))
        }
    }
}

fn redact_image(block: &ContentBlock, byte_count: usize) -> Value {
    let ContentBlock::Image { media_type, detail, .. } = block else {
        unreachable!("only pictures are redacted")
    };
    let source = json!({ "type": "inline_redacted", "byte_count": byte_count });
    let mut shown = json!({ "type": "image", "source": source });
    if let Some(media_type) = media_type {
        shown["media_type"] = media_type.clone().into();
    }
    if let Some(detail) = detail {
        shown["detail"] = to_json(detail);
    }
    shown
}

fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("messages have text keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use singletree_llm::ImageDetailLevel;

    fn image(
        source: ImageContentSource,
        media_type: Option<&str>,
        detail: Option<ImageDetailLevel>,
    ) -> ContentBlock {
        ContentBlock::Image { source, media_type: media_type.map(str::to_owned), detail }
    }

    // spec: observability §5.5.5
    #[test]
    fn inline_pictures_become_placeholders_and_everything_else_stays() {
        let message = ChatMessage::user(vec![
            ContentBlock::from_text("look"),
            image(
                ImageContentSource::Inline { base64_data: "QUJDRA==".into() },
                Some("image/png"),
                Some(ImageDetailLevel::Low),
            ),
            image(ImageContentSource::Url { url: "https://x.test/a.png".into() }, None, None),
            image(ImageContentSource::Url { url: "DATA:image/png;base64,QUJD".into() }, None, None),
        ]);
        let redacted = |bytes: usize| json!({ "type": "inline_redacted", "byte_count": bytes });
        assert_eq!(
            redact_message(&message),
            json!({ "role": "user", "content": [
                { "type": "text", "text": "look" },
                { "type": "image", "source": redacted(8), "media_type": "image/png", "detail": "low" },
                { "type": "image", "source": { "type": "url", "url": "https://x.test/a.png" } },
                { "type": "image", "source": redacted(4) },
            ] })
        );
        assert_eq!(redact_message(&ChatMessage::user("hi")), json!({ "role": "user", "content": "hi" }));
    }
}
