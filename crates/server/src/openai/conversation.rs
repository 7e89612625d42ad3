//! Converts messages of the protocol to messages for models.

use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, MessageContent, Role, ToolCall,
    parse_arguments,
};
use singletree_protocol::openai::{self, ImageUrl, Part, RequestMessage};

use crate::problem::RequestProblem;

/// Reads a conversation. System messages at its beginning are joined: models take one.
///
/// # Errors
/// `server_request_invalid`, with the position of the message.
pub(super) fn read_conversation(messages: Vec<RequestMessage>) -> Result<Vec<ChatMessage>, RequestProblem> {
    let mut read: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for (at, message) in messages.into_iter().enumerate() {
        let message = read_message(message).map_err(|error| {
            let place = error.field.clone().map(|field| format!(".{field}")).unwrap_or_default();
            error.with_field(format!("messages[{at}]{place}"))
        })?;
        match read.as_mut_slice() {
            [first] if first.role == Role::System && message.role == Role::System => {
                *first = ChatMessage::system(format!("{}\n\n{}", first.text(), message.text()));
            }
            _ => read.push(message),
        }
    }
    Ok(read)
}

fn read_message(message: RequestMessage) -> Result<ChatMessage, RequestProblem> {
    Ok(match message {
        RequestMessage::System { content } | RequestMessage::Developer { content } => {
            ChatMessage::system(read_text_content(content)?)
        }
        RequestMessage::User { content } => ChatMessage::user(read_user_content(content)?),
        RequestMessage::Assistant { content, refusal, tool_calls } => {
            let content = content.map(read_text_content).transpose()?.or(refusal).unwrap_or_default();
            let calls = tool_calls.unwrap_or_default().into_iter().map(convert_tool_call);
            ChatMessage::assistant(content).with_tool_calls(calls)
        }
        RequestMessage::Tool { tool_call_id, content } => {
            ChatMessage::tool(tool_call_id, read_text_content(content)?)
        }
    })
}

fn convert_tool_call(call: openai::ToolCall) -> ToolCall {
    let openai::ToolCall { id, kind: _, function } = call;
    let arguments = parse_arguments(&function.arguments);
    ToolCall { id, name: function.name, arguments, signature: None }
}

/// Reads content that must be text only.
fn read_text_content(content: openai::Content) -> Result<String, RequestProblem> {
    let parts = match content {
        openai::Content::Text(text) => return Ok(text),
        openai::Content::Parts(parts) => parts,
    };
    let texts = parts.into_iter().enumerate().map(|(at, part)| match part {
        Part::Text { text } | Part::Refusal { refusal: text } => Ok(text),
        Part::ImageUrl { .. } | Part::Other => {
            Err(RequestProblem::invalid_request("only a user's message is more than text")
                .with_field(format!("content[{at}]")))
        }
    });
    texts.collect()
}

/// Reads the content of a user's message.
fn read_user_content(content: openai::Content) -> Result<MessageContent, RequestProblem> {
    let parts = match content {
        openai::Content::Text(text) => return Ok(MessageContent::Text(text)),
        openai::Content::Parts(parts) => parts,
    };
    let blocks = parts.into_iter().enumerate().map(|(at, part)| match part {
        Part::Text { text } => Ok(ContentBlock::from_text(text)),
        Part::ImageUrl { image_url } => {
            read_picture(image_url).map_err(|error| error.with_field(format!("content[{at}].image_url.url")))
        }
        Part::Refusal { .. } | Part::Other => {
            Err(RequestProblem::invalid_request("text and pictures are all that is taken")
                .with_field(format!("content[{at}]")))
        }
    });
    Ok(MessageContent::from_blocks(blocks.collect::<Result<_, _>>()?))
}

fn read_picture(picture: ImageUrl) -> Result<ContentBlock, RequestProblem> {
    let ImageUrl { url, detail } = picture;
    let detail = match detail.as_deref() {
        Some("low") => Some(ImageDetailLevel::Low),
        Some("high") => Some(ImageDetailLevel::High),
        Some("auto") => Some(ImageDetailLevel::Auto),
        Some(_) | None => None,
    };
    let Some(data) = url.strip_prefix("data:") else {
        return match url::Url::parse(&url) {
            Ok(it) if it.scheme() == "https" && it.has_host() => {
                let source = ImageContentSource::Url { url };
                Ok(ContentBlock::Image { source, media_type: None, detail })
            }
            _ => Err(RequestProblem::invalid_request(
                "a picture is at an `https:` address, or in the message as `data:`",
            )),
        };
    };
    let inline = data.split_once(";base64,").filter(|(media_type, _)| media_type.starts_with("image/"));
    let (media_type, base64_data) = inline.ok_or_else(|| {
        RequestProblem::invalid_request("a picture in the message is `data:image/TYPE;base64,BYTES`")
    })?;
    let (media_type, base64_data) = (Some(media_type.to_owned()), base64_data.to_owned());
    Ok(ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, media_type, detail })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn read(messages: Value) -> Result<Vec<Value>, (String, Option<String>)> {
        let messages = serde_json::from_value(messages).unwrap();
        let read = super::read_conversation(messages)
            .map_err(|error| (error.message, error.field.map(String::from)))?;
        Ok(read.into_iter().map(|it| serde_json::to_value(it).unwrap()).collect())
    }

    #[test]
    fn all_roles_are_read_and_what_sets_the_stage_is_one_message() {
        let given = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "developer", "content": [{ "type": "text", "text": "Be kind." }] },
            { "role": "user", "name": "ann", "content": "a" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } },
                { "id": "d", "type": "function", "function": { "name": "f", "arguments": "{" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "1" },
            { "role": "assistant", "refusal": "no" },
        ]);
        let expect = json!([
            { "role": "system", "content": "Be brief.\n\nBe kind." },
            { "role": "user", "content": "a" },
            { "role": "assistant", "tool_calls": [
                { "id": "c", "name": "f", "arguments": { "x": 1 } },
                { "id": "d", "name": "f", "arguments": null }] },
            { "role": "tool", "tool_call_id": "c", "content": "1" },
            { "role": "assistant", "content": "no" },
        ]);
        assert_eq!(json!(read(given).unwrap()), expect);
    }

    #[test]
    fn pictures_are_by_address_or_in_the_message() {
        let user = |url: &str| {
            read(json!([{ "role": "user", "content": [
                { "type": "text", "text": "see" },
                { "type": "image_url", "image_url": { "url": url, "detail": "low" } }] }]))
        };
        let image = |read: Vec<Value>| read[0]["content"][1].clone();
        let by_address = json!({ "type": "image", "detail": "low",
            "source": { "type": "url", "url": "https://example.com/a.png" } });
        assert_eq!(image(user("https://example.com/a.png").unwrap()), by_address);
        let inline = json!({ "type": "image", "detail": "low", "media_type": "image/png",
            "source": { "type": "inline", "base64_data": "AA==" } });
        assert_eq!(image(user("data:image/png;base64,AA==").unwrap()), inline);
        for wrong in ["http://example.com/a.png", "data:text/plain;base64,AA==", "data:image/png,x", "x"] {
            let place = Some("messages[0].content[1].image_url.url".to_owned());
            assert_eq!(user(wrong).unwrap_err().1, place, "{wrong}");
        }
    }

    #[test]
    fn what_models_cannot_be_told_is_refused_with_its_place() {
        let sound = json!([{ "role": "user", "content": [{ "type": "input_audio", "input_audio": {} }] }]);
        assert_eq!(read(sound).unwrap_err().1.as_deref(), Some("messages[0].content[0]"));
        let picture = json!({ "type": "image_url", "image_url": { "url": "https://example.com/a" } });
        let tool = json!([{ "role": "tool", "tool_call_id": "c", "content": [picture] }]);
        assert_eq!(read(tool).unwrap_err().1.as_deref(), Some("messages[0].content[0]"));
    }
}
