//! Pictures that messages name by `blob:`: on the wire as bytes, and refused where the model has no eyes.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{
    BoxFuture, ChatMessage, ContentBlock, ImageSource, Picture, Pictures, Provider, Request, Result,
    RuntimeConfig,
};
use singletree_providers::{Capabilities, Wire};

use crate::rig::{Answer, Canned, builder, provider, stream};

/// One picture, whatever is asked for.
#[derive(Debug)]
struct One;

impl Pictures for One {
    fn picture<'a>(&'a self, _digest: &'a str) -> BoxFuture<'a, Result<Option<Picture>>> {
        let picture = Picture { media_type: "image/webp".into(), base64_data: "AAAA".into() };
        Box::pin(std::future::ready(Ok(Some(picture))))
    }

    fn request_bytes_max(&self) -> usize {
        100
    }
}

fn question() -> Request {
    let digest = "0123456789abcdef".repeat(4);
    let image = ContentBlock::Image { source: ImageSource::blob(&digest), media_type: None, detail: None };
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
        // What was sent is what is looked at.
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
