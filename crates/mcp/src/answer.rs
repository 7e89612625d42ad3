//! The response of a server, as text and pictures for a model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use singletree_tools::{Error, Output, Result};

/// Makes the output of a call. Text stays as it is; a picture becomes a picture of the output; other content is named
/// with its kind and size; a structured value is written as JSON if no text stands for it.
///
/// # Errors
///
/// `tool_failed` with the text, when the server says that the call failed. Pictures are only named there.
pub(crate) fn convert_call_result(result: &CallToolResult) -> Result<Output> {
    let failed = result.is_error == Some(true);
    let mut output = Output::text("");
    for block in &result.content {
        output = match block.as_image().filter(|_| !failed).map(|image| (image, decode_base64(&image.data))) {
            Some((image, Some(bytes))) => output.with_picture(&image.mime_type, bytes),
            Some((_, None)) | None => output.with_line(&render_content_block(block)),
        };
    }
    let has_text = result.content.iter().any(|it| it.as_text().is_some());
    if let Some(value) = result.structured_content.as_ref().filter(|_| !has_text) {
        output = output.with_line(&value.to_string());
    }
    match failed {
        true if output.text.is_empty() => Err(Error::failed("the tool failed and does not say why")),
        true => Err(Error::failed(output.text)),
        false => Ok(output),
    }
}

fn decode_base64(base64: &str) -> Option<Vec<u8>> {
    STANDARD.decode(base64).ok().filter(|bytes| !bytes.is_empty())
}

fn render_content_block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(it) => it.text.clone(),
        ContentBlock::Image(it) => describe_blob("image", &it.mime_type, &it.data),
        ContentBlock::Audio(it) => describe_blob("audio", &it.mime_type, &it.data),
        ContentBlock::Resource(it) => match &it.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob: data, .. } => describe_blob(
                &format!("resource {uri}"),
                mime_type.as_deref().unwrap_or("of no known type"),
                data,
            ),
            _ => "[a resource that cannot be shown]".to_owned(),
        },
        ContentBlock::ResourceLink(it) => format!("[link to {}: {}]", it.name, it.uri),
        _ => "[content that cannot be shown]".to_owned(),
    }
}

fn describe_blob(what: &str, kind: &str, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!("[{what}: {kind}, {bytes} bytes, not shown]")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use singletree_tools::OutputPicture;

    use super::*;

    fn read(result: Value) -> Result<Output, String> {
        let result: CallToolResult = serde_json::from_value(result).expect("a result");
        convert_call_result(&result).map_err(|error| error.to_string())
    }

    // spec: MCP, tool results: content of five kinds, structured content, isError.
    #[test]
    fn every_kind_of_content_becomes_text_or_a_picture() {
        let content = json!([
            {"type": "text", "text": "one\ntwo"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "image", "data": "no base64", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "A"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "aA==", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]);
        let before = "one\ntwo";
        let expected = "\n[image: image/png, 6 bytes, not shown]\n[audio: audio/wav, 6 bytes, not shown]\n\
                        [resource file:///a]\nA\n[resource file:///b: x/y, 1 bytes, not shown]\n\
                        [link to c: file:///c]";
        let output = read(json!({"content": content}));
        let picture =
            OutputPicture { media_type: "image/png".into(), bytes: b"hello".to_vec(), at: before.len() };
        let pictures = vec![picture];
        assert_eq!(output, Ok(Output { pictures, ..Output::text(format!("{before}{expected}")) }));
    }

    #[test]
    fn a_structured_value_is_told_where_no_text_stands_for_it() {
        let value = json!({"a": [1, 2]});
        let alone = json!({"content": [], "structuredContent": value});
        assert_eq!(read(alone), Ok(Output::text("{\"a\":[1,2]}")));
        let twice =
            json!({"content": [{"type": "text", "text": "{\"a\": [1,2]}"}], "structuredContent": value});
        assert_eq!(read(twice), Ok(Output::text("{\"a\": [1,2]}")));
    }

    #[test]
    fn a_failed_call_is_a_failed_output() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(read(failed), Err("no such file".to_owned()));
        assert_eq!(
            read(json!({"content": [], "isError": true})),
            Err("the tool failed and does not say why".to_owned())
        );
        let image = json!([{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]);
        let failed = read(json!({"content": image, "isError": true}));
        assert_eq!(failed, Err("[image: image/png, 5 bytes, not shown]".to_owned()));
    }
}
