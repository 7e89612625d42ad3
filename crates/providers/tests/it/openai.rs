//! OpenAI's wire through the provider: data that is sent, and data that is never sent.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, Provider, Request, Schema, ToolChoicePolicy,
    ToolDefinition,
};
use singletree_providers::{Capabilities, Wire};

use crate::rig::{Answer, Canned, builder, provider, question, stream};

fn ok() -> Answer {
    Answer::json(
        200,
        &json!({ "choices": [{ "message": { "role": "assistant", "content": "ok" }, "finish_reason": "stop" }] }),
    )
}

fn without(change: impl FnOnce(&mut Capabilities)) -> Capabilities {
    let mut capabilities = Capabilities::of(Wire::OpenAi);
    change(&mut capabilities);
    capabilities
}

/// Refuses a request both ways before anything is sent.
async fn refused(request: &Request, capabilities: Capabilities) -> singletree_llm::Error {
    let transport = Canned::new([]);
    let provider = builder(Wire::OpenAi, &transport).capabilities(capabilities).build().unwrap();
    let whole = provider.complete(request).await.unwrap_err();
    let streamed = stream(&provider, request).await;
    assert_eq!(streamed.end.unwrap_err().category(), whole.category());
    assert!(streamed.shown.is_empty() && transport.requests().is_empty());
    whole
}

#[tokio::test]
async fn a_request_goes_where_the_base_address_says() {
    let cases = [
        (None, "https://api.openai.com/v1/chat/completions"),
        (Some("http://127.0.0.1:8080"), "http://127.0.0.1:8080/v1/chat/completions"),
        (Some("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080/v1/chat/completions"),
    ];
    for (base, expected) in cases {
        let transport = Canned::new([ok()]);
        let mut builder = builder(Wire::OpenAi, &transport);
        if let Some(base) = base {
            builder = builder.base_url(base);
        }
        let response = builder.build().unwrap().complete(&question()).await.unwrap();
        assert_eq!(response.message.text(), "ok");
        assert_eq!(transport.requests()[0].url, expected);
    }
}

// spec: llm-provider §8, wire-byte stability; fixture 054
#[tokio::test]
async fn equal_requests_are_equal_bytes() {
    let request = |one: bool| {
        let parameters = if one {
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "enum": ["y", "x"] } }, "required": ["b", "a"] })
        } else {
            json!({ "required": ["b", "a"], "properties": { "b": { "enum": ["y", "x"] }, "a": { "type": "string" } }, "type": "object" })
        };
        let mut request =
            question().with_tools(vec![ToolDefinition::new("f", "Does it.", parameters.clone()).unwrap()]);
        request = request.with_response_schema(Arc::new(Schema::compile(parameters).unwrap()));
        let extras = [("alpha", json!({ "x": 1, "y": 2 })), ("beta", json!(2))];
        let extras: Vec<_> =
            if one { extras.into_iter().collect() } else { extras.into_iter().rev().collect() };
        request.config.extras = extras.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        request
    };
    let transport = Canned::new([ok(), ok()]);
    let provider = provider(Wire::OpenAi, &transport);
    for one in [true, false] {
        // The answer does not fit the schema; only the request is checked.
        provider.complete(&request(one)).await.unwrap_err();
    }
    let sent = transport.requests();
    assert_eq!(sent[0].body, sent[1].body);
    let text = std::str::from_utf8(&sent[0].body).unwrap();
    assert!(text.starts_with(r#"{"alpha":{"x":1,"y":2},"beta":2,"max_tokens":64,"messages":[{"content":"Well?","role":"user"}],"model":"test-model","#), "{text}");
}

// spec: llm-provider §5, §8.1.6; fixture 060
#[tokio::test]
async fn a_provider_that_does_not_stream_refuses_and_does_not_fall_back() {
    let transport = Canned::new([ok()]);
    let capabilities = without(|it| it.streaming = false);
    let provider = builder(Wire::OpenAi, &transport).capabilities(capabilities).build().unwrap();
    assert!(!provider.can_stream());
    let direct = provider.stream_deltas(&question()).await.err().unwrap();
    assert_eq!(direct.category(), "provider_invalid_request");
    assert!(direct.to_string().contains("does not support streaming"), "{direct}");
    assert_eq!(stream(&provider, &question()).await.end.unwrap_err().category(), "provider_invalid_request");
    assert!(transport.requests().is_empty());
    assert_eq!(provider.complete(&question()).await.unwrap().message.text(), "ok");
}

// spec: llm-provider §7; fixture 016
#[tokio::test]
async fn an_image_for_a_model_without_eyes_is_refused() {
    let image = ContentBlock::Image {
        source: ImageContentSource::Url { url: "https://example.com/x.png".to_owned() },
        media_type: None,
        detail: None,
    };
    let blocks = vec![ContentBlock::from_text("What is it?"), image];
    let request = Request::new(vec![Arc::new(ChatMessage::user(blocks))]);
    let error = refused(&request, without(|it| it.images = false)).await;
    assert_eq!(error.category(), "provider_unsupported_content_block");
    assert!(error.to_string().starts_with("messages[0].content[1]: "), "{error}");
}

// spec: llm-provider §3, §5, §6; fixtures 003, 031, 074, 077
#[tokio::test]
async fn a_request_that_is_wrong_is_never_sent() {
    let all = Capabilities::of(Wire::OpenAi);
    let extra = |name: &str, value: Value| {
        let mut request = question();
        request.config.extras.insert(name.to_owned(), value);
        request
    };
    let wrong = [
        Request::new(Vec::new()),
        Request::new(vec![Arc::new(ChatMessage::assistant("a"))]),
        question().with_tool_choice(ToolChoicePolicy::Required),
        extra("model", json!("other-model")),
        extra("messages", json!([])),
        extra("tools", json!([])),
        extra("max_tokens", json!(65)),
    ];
    for request in wrong {
        assert_eq!(refused(&request, all).await.category(), "provider_invalid_request");
    }
    for (streaming, value) in [(false, true), (true, false)] {
        let transport = Canned::new([]);
        let provider = provider(Wire::OpenAi, &transport);
        let request = extra("stream", json!(value));
        let end =
            if streaming { stream(&provider, &request).await.end } else { provider.complete(&request).await };
        assert_eq!(end.unwrap_err().category(), "provider_invalid_request");
    }
}

// spec: llm-provider §8.1.5.1; fixture 027
#[tokio::test]
async fn the_path_of_a_schema_can_be_chosen_and_looked_at() {
    let schema = json!({ "type": "object", "properties": { "value": { "type": "integer" } }, "required": ["value"], "additionalProperties": false });
    let request = question().with_response_schema(Arc::new(Schema::compile(schema).unwrap()));
    for native in [true, false] {
        let answer = Answer::json(
            200,
            &json!({ "choices": [{ "message": { "content": "{\"value\":42}" }, "finish_reason": "stop" }] }),
        );
        let transport = Canned::new([answer]);
        let provider = builder(Wire::OpenAi, &transport)
            .capabilities(without(|it| it.structured_output = native))
            .build()
            .unwrap();
        assert_eq!(provider.capabilities().structured_output, native);
        let response = provider.complete(&request).await.unwrap();
        assert_eq!(response.parsed, Some(json!({ "value": 42 })));
        let sent = transport.sent();
        assert_eq!(sent.get("response_format").is_some(), native);
        assert_eq!(sent["messages"][0]["role"] == "system", !native);
    }
}

// spec: llm-provider §5 ready; fixture 007
#[tokio::test]
async fn ready_asks_for_the_list_of_models_and_for_nothing_else() {
    let list =
        |status: &str| Answer::json(200, &json!({ "data": [{ "id": "test-model", "status": status }] }));
    let transport = Canned::new([list("loaded"), list("not_loaded"), Answer::json(401, &json!({}))]);
    let provider = provider(Wire::OpenAi, &transport);
    provider.ready().await.unwrap();
    assert_eq!(provider.ready().await.unwrap_err().category(), "provider_model_not_loaded");
    assert_eq!(provider.ready().await.unwrap_err().category(), "provider_authentication");
    let request = &transport.requests()[0];
    assert_eq!((request.url.as_str(), request.body.len()), ("https://api.openai.com/v1/models", 0));
}

#[test]
fn what_cannot_be_a_provider_is_refused() {
    let transport = Canned::new([]);
    let category = |it: singletree_llm::Result<_>| {
        it.map(|_: singletree_providers::HttpProvider| ()).unwrap_err().category()
    };
    assert_eq!(
        category(builder(Wire::OpenAi, &transport).base_url("nonsense").build()),
        "provider_invalid_request"
    );
    let nameless = singletree_providers::HttpProvider::builder(Wire::OpenAi, " ", transport);
    assert_eq!(category(nameless.build()), "provider_invalid_request");
}
