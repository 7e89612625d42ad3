//! Pictures that messages name by `blob:`: on the wire as bytes, and refused where the model has no eyes.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{
    BoxFuture, ChatMessage, ContentBlock, ImageContentSource, Map, PictureResolver, Provider, Request,
    ResolvedPicture, Result, RuntimeConfig, ToolCall, tool_picture_line,
};
use singletree_providers::{Capabilities, Wire};

use crate::rig::{Answer, Canned, builder, provider, stream};

/// One picture, whatever is asked for.
#[derive(Debug)]
struct One;

impl PictureResolver for One {
    fn load_picture<'a>(&'a self, _digest: &'a str) -> BoxFuture<'a, Result<Option<ResolvedPicture>>> {
        let picture = ResolvedPicture { media_type: "image/webp".into(), base64_data: "AAAA".into() };
        Box::pin(std::future::ready(Ok(Some(picture))))
    }

    fn request_bytes_max(&self) -> usize {
        100
    }
}

fn question() -> Request {
    let digest = "0123456789abcdef".repeat(4);
    let image = ContentBlock::Image {
        source: ImageContentSource::from_blob_digest(&digest),
        media_type: None,
        detail: None,
    };
    // Anthropic's wire wants a number.
    let config = RuntimeConfig { max_tokens: Some(64), ..RuntimeConfig::default() };
    Request::new(vec![Arc::new(ChatMessage::user(vec![image]))]).with_config(config)
}

fn picture_of(wire: Wire, body: &Value) -> Value {
    match wire {
        Wire::OpenAi | Wire::Anthropic => body["messages"][0]["content"][0].clone(),
        Wire::Gemini => body["contents"][0]["parts"][0].clone(),
    }
}

// spec: llm-provider §3.1.2: as an inline picture is sent
#[tokio::test]
async fn a_picture_that_is_kept_elsewhere_is_sent_as_one_that_stands_in_the_message() {
    let data = "data:image/webp;base64,AAAA";
    for (wire, expected) in [
        (Wire::OpenAi, json!({ "type": "image_url", "image_url": { "url": data } })),
        (
            Wire::Anthropic,
            json!({
                "type": "image",
                "source": { "type": "base64", "media_type": "image/webp", "data": "AAAA" },
            }),
        ),
        (Wire::Gemini, json!({ "inlineData": { "mimeType": "image/webp", "data": "AAAA" } })),
    ] {
        let refusal = || Answer::json(400, &json!({ "error": { "message": "no" } }));
        let transport = Canned::new([refusal(), refusal()]);
        let provider = provider(wire, &transport);
        let request = question().with_pictures(Arc::new(One));
        // Only the request is checked.
        provider.complete(&request).await.unwrap_err();
        stream(&provider, &request).await.end.unwrap_err();
        let sent = transport.requests();
        assert_eq!(sent.len(), 2, "{wire:?}");
        for sent in sent {
            let body = serde_json::from_slice(&sent.body).unwrap();
            assert_eq!(picture_of(wire, &body), expected, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_where_nobody_has_the_picture_or_the_model_no_eyes() {
    let transport = Canned::new([]);
    let bare = provider(Wire::OpenAi, &transport);
    assert_eq!(bare.complete(&question()).await.unwrap_err().category(), "provider_invalid_request");
    let mut blind = Capabilities::of(Wire::OpenAi);
    blind.images = false;
    let blind = builder(Wire::OpenAi, &transport).capabilities(blind).build().unwrap();
    let refused = blind.complete(&question().with_pictures(Arc::new(One))).await.unwrap_err();
    assert_eq!(refused.category(), "provider_unsupported_content_block");
    assert!(transport.requests().is_empty());
}

/// A conversation at whose end a tool has returned a picture.
fn photographed() -> Request {
    let line = tool_picture_line("image/webp", 3, &"0123456789abcdef".repeat(4));
    let call = ToolCall::new("c", "photo", Map::new());
    let messages = [
        ChatMessage::user("Show me."),
        ChatMessage::assistant("").with_tool_calls([call]),
        ChatMessage::tool("c", line),
    ];
    let config = RuntimeConfig { max_tokens: Some(64), ..RuntimeConfig::default() };
    Request::new(messages.map(Arc::new).to_vec()).with_config(config).with_pictures(Arc::new(One))
}

/// Returns the written messages after the call.
async fn written(wire: Wire, images: bool) -> Value {
    let transport = Canned::new([Answer::json(400, &json!({ "error": { "message": "no" } }))]);
    let mut capabilities = Capabilities::of(wire);
    capabilities.images = images;
    let provider = builder(wire, &transport).capabilities(capabilities).build().unwrap();
    provider.complete(&photographed()).await.unwrap_err();
    let body: Value = serde_json::from_slice(&transport.requests()[0].body).unwrap();
    let messages = match wire {
        Wire::OpenAi | Wire::Anthropic => &body["messages"],
        Wire::Gemini => &body["contents"],
    };
    messages.as_array().unwrap()[2..].iter().cloned().collect()
}

// spec: llm-provider §8.1, §8.2.1.2, §8.3.1.2: the user speaks directly after the results
#[tokio::test]
async fn a_picture_of_a_tool_is_sent_behind_its_result() {
    let line = tool_picture_line("image/webp", 3, &"0123456789abcdef".repeat(4));
    let caption = "Image 1 of the result of the tool call c (photo):";
    let text = json!({ "type": "text", "text": caption });
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/webp;base64,AAAA" } });
    let result = json!({ "role": "tool", "tool_call_id": "c", "content": line });
    let expected = json!([result, { "role": "user", "content": [text, image] }]);
    assert_eq!(written(Wire::OpenAi, true).await, expected);
    assert_eq!(written(Wire::OpenAi, false).await, json!([result]), "a model without eyes reads the line");

    let result = json!({ "type": "tool_result", "tool_use_id": "c", "content": line });
    let source = json!({ "type": "base64", "media_type": "image/webp", "data": "AAAA" });
    let image = json!({ "type": "image", "source": source });
    let expected = json!([{ "role": "user", "content": [result, text, image] }]);
    assert_eq!(written(Wire::Anthropic, true).await, expected);

    let response = json!({ "name": "photo", "id": "c", "response": { "result": line } });
    let image = json!({ "inlineData": { "mimeType": "image/webp", "data": "AAAA" } });
    let expected = json!([
        { "role": "user", "parts": [{ "functionResponse": response }] },
        { "role": "user", "parts": [{ "text": caption }, image] },
    ]);
    assert_eq!(written(Wire::Gemini, true).await, expected);
}
