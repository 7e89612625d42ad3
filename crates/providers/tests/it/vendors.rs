//! Anthropic's and Gemini's wires through the provider: data that is sent, and data that is never sent.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{ChatMessage, Provider, Request, Schema, ToolCall, ToolDefinition};
use singletree_providers::{Capabilities, HttpProvider, Wire};

use crate::rig::{Answer, Canned, builder, provider, question, stream};

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Gemini];

/// An answer that says one text.
fn says(wire: Wire, text: &str) -> Answer {
    let body = match wire {
        Wire::Gemini => {
            json!({ "candidates": [{ "content": { "parts": [{ "text": text }] }, "finishReason": "STOP" }] })
        }
        Wire::Anthropic | Wire::OpenAi => {
            json!({ "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn" })
        }
    };
    Answer::json(200, &body)
}

fn without(wire: Wire, change: impl FnOnce(&mut Capabilities)) -> Capabilities {
    let mut capabilities = Capabilities::of(wire);
    change(&mut capabilities);
    capabilities
}

fn with(wire: Wire, transport: &Arc<Canned>, capabilities: Capabilities) -> HttpProvider {
    builder(wire, transport).capabilities(capabilities).build().unwrap()
}

fn schema() -> Arc<Schema> {
    let schema =
        json!({ "type": "object", "properties": { "value": { "type": "integer" } }, "required": ["value"] });
    Arc::new(Schema::compile(schema).unwrap())
}

#[tokio::test]
async fn each_way_of_asking_has_its_address() {
    for (wire, whole, streamed, probe) in [
        (
            Wire::Anthropic,
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/models/test-model",
        ),
        (
            Wire::Gemini,
            "https://generativelanguage.googleapis.com/v1beta/models/test-model:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/test-model:streamGenerateContent?alt=sse",
            "https://generativelanguage.googleapis.com/v1beta/models/test-model",
        ),
    ] {
        let model = Answer::json(200, &json!({ "id": "test-model", "name": "models/test-model" }));
        let transport = Canned::new([says(wire, "ok"), says(wire, "ok"), model]);
        let provider = provider(wire, &transport);
        assert_eq!(provider.complete(&question()).await.unwrap().message.text(), "ok");
        assert_eq!(stream(&provider, &question()).await.end.unwrap().message.text(), "ok");
        provider.ready().await.unwrap();
        let urls: Vec<String> = transport.requests().into_iter().map(|it| it.url).collect();
        assert_eq!(urls, [whole, streamed, probe]);
        let bodies: Vec<usize> = transport.requests().iter().map(|it| it.body.len()).collect();
        assert!(bodies[0] > 0 && bodies[1] > 0 && bodies[2] == 0, "{bodies:?}");
    }
}

#[tokio::test]
async fn anthropic_is_told_the_version_of_its_protocol() {
    let transport = Canned::new([says(Wire::Anthropic, "ok")]);
    provider(Wire::Anthropic, &transport).complete(&question()).await.unwrap();
    let headers = transport.requests().remove(0).headers;
    assert!(headers.contains(&("anthropic-version".to_owned(), "2023-06-01".to_owned())), "{headers:?}");
}

// spec: llm-provider §5 ready
#[tokio::test]
async fn a_probe_says_what_is_wrong() {
    for (wire, unknown) in [
        (
            Wire::Anthropic,
            json!({ "type": "error", "error": { "type": "not_found_error", "message": "model: m" } }),
        ),
        (
            Wire::Gemini,
            json!({ "error": { "code": 404, "message": "no such model", "status": "NOT_FOUND" } }),
        ),
    ] {
        for (status, body, category) in [
            (404, unknown, "provider_invalid_model"),
            (401, json!({}), "provider_authentication"),
            (503, json!({}), "provider_unavailable"),
            (200, json!({}), "provider_invalid_response"),
        ] {
            let transport = Canned::new([Answer::json(status, &body)]);
            let error = provider(wire, &transport).ready().await.unwrap_err();
            assert_eq!(error.category(), category, "{wire:?} {status}");
        }
    }
}

// spec: llm-provider §8, wire-byte stability; fixture 055
#[tokio::test]
async fn equal_requests_are_equal_bytes() {
    let request = |text: &str, arguments: &str, extras: &str| {
        let parameters: Value = serde_json::from_str(text).unwrap();
        let call = ToolCall::new("a", "f", serde_json::from_str(arguments).unwrap());
        let mut request =
            question().with_tools(vec![ToolDefinition::new("f", "Does it.", parameters.clone()).unwrap()]);
        request = request.with_response_schema(Arc::new(Schema::compile(parameters).unwrap()));
        request.messages.push(Arc::new(ChatMessage::assistant("").with_tool_calls([call])));
        request.messages.push(Arc::new(ChatMessage::tool("a", "r")));
        request.config.extras = serde_json::from_str(extras).unwrap();
        request
    };
    let one = request(
        r#"{ "type": "object", "properties": { "a": { "type": "string" }, "b": { "enum": ["y", "x"] } } }"#,
        r#"{ "a": "1", "b": "x" }"#,
        r#"{ "alpha": { "x": 1, "y": 2 }, "beta": 2 }"#,
    );
    let two = request(
        r#"{ "properties": { "b": { "enum": ["y", "x"] }, "a": { "type": "string" } }, "type": "object" }"#,
        r#"{ "b": "x", "a": "1" }"#,
        r#"{ "beta": 2, "alpha": { "y": 2, "x": 1 } }"#,
    );
    for wire in WIRES {
        let transport = Canned::new([Answer::json(500, &json!({})), Answer::json(500, &json!({}))]);
        let provider = provider(wire, &transport);
        for request in [&one, &two] {
            provider.complete(request).await.unwrap_err();
        }
        let bodies: Vec<_> = transport.requests().into_iter().map(|it| it.body).collect();
        assert_eq!(bodies[0], bodies[1]);
    }
}

// spec: llm-provider §5, fixture 060
#[tokio::test]
async fn a_provider_that_was_told_not_to_stream_refuses_and_does_not_fall_back() {
    for wire in WIRES {
        let transport = Canned::new([says(wire, "ok")]);
        let provider = with(wire, &transport, without(wire, |it| it.streaming = false));
        let error = provider.stream_deltas(&question()).await.err().unwrap();
        assert_eq!(error.category(), "provider_invalid_request");
        assert!(transport.requests().is_empty());
        assert_eq!(provider.complete(&question()).await.unwrap().message.text(), "ok");
    }
}

// spec: llm-provider §8.2.1; fixtures 037, 038, 078
#[tokio::test]
async fn what_anthropic_cannot_be_asked_is_never_sent() {
    let change = |change: &dyn Fn(&mut Request)| {
        let mut request = question();
        change(&mut request);
        request
    };
    for request in [
        change(&|it| it.config.max_tokens = None),
        change(&|it| it.config.seed = Some(42)),
        change(&|it| it.config.frequency_penalty = Some(0.5)),
        change(&|it| it.config.presence_penalty = Some(0.5)),
    ] {
        let transport = Canned::new([]);
        let provider = provider(Wire::Anthropic, &transport);
        let whole = provider.complete(&request).await.unwrap_err();
        let streamed = stream(&provider, &request).await.end.unwrap_err();
        assert_eq!([whole.category(), streamed.category()], ["provider_invalid_request"; 2]);
        assert!(transport.requests().is_empty());
    }
    let transport = Canned::new([]);
    let request = change(&|it| {
        it.config.extras.insert("stream".to_owned(), json!(true));
    });
    let error = provider(Wire::Anthropic, &transport).complete(&request).await.unwrap_err();
    assert_eq!(error.category(), "provider_invalid_request");
}

// spec: llm-provider §8.2.5, §8.2.5.1, §8.3.5, §8.3.5.1; fixtures 040, 041
#[tokio::test]
async fn a_structured_answer_comes_by_every_path() {
    let request = question().with_response_schema(schema());
    let called = json!({
        "content": [{ "type": "tool_use", "id": "t", "name": "structured_answer", "input": { "value": 42 } }],
        "stop_reason": "tool_use",
    });
    for (wire, native, answer, sent) in [
        (Wire::Anthropic, true, says(Wire::Anthropic, "{\"value\":42}"), "/output_config/format/schema"),
        (Wire::Anthropic, false, Answer::json(200, &called), "/tool_choice/name"),
        (Wire::Gemini, true, says(Wire::Gemini, "{\"value\":42}"), "/generationConfig/responseJsonSchema"),
        (Wire::Gemini, false, says(Wire::Gemini, "{\"value\":42}"), "/systemInstruction/parts/0/text"),
    ] {
        let transport = Canned::new([answer]);
        let provider = with(wire, &transport, without(wire, |it| it.structured_output = native));
        let response = provider.complete(&request).await.unwrap();
        assert_eq!(response.parsed, Some(json!({ "value": 42 })), "{wire:?} {native}");
        assert!(response.message.tool_calls.is_empty());
        assert!(transport.sent().pointer(sent).is_some(), "{wire:?} {native}: {}", transport.sent());
    }
}
