//! The mapping of Anthropic, row by row.

mod compose;
mod read;
mod refuse;
mod stream;

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, Request, Response, ResponseAssembler, ResponseLimits, Result, RuntimeConfig, Schema,
    ToolDefinition,
};

use super::AnthropicMapping;
use crate::mapping::{ComposeOptions, ComposedRequest, WireMapping};

const WHOLE: ComposeOptions = ComposeOptions { streaming: false, structured_output: true };
const STREAMED: ComposeOptions = ComposeOptions { streaming: true, structured_output: true };
const OLD: ComposeOptions = ComposeOptions { streaming: false, structured_output: false };

fn request(messages: Vec<ChatMessage>) -> Request {
    let config = RuntimeConfig { max_tokens: Some(64), ..RuntimeConfig::default() };
    Request::new(messages.into_iter().map(Arc::new).collect()).with_config(config)
}

fn asked() -> Request {
    request(vec![ChatMessage::user("hi")])
}

fn weather() -> ToolDefinition {
    let parameters = json!({"type": "object", "properties": {"location": {"type": "string"}}});
    ToolDefinition::new("get_weather", "Weather.", parameters).unwrap()
}

fn schema() -> Arc<Schema> {
    let schema =
        json!({"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]});
    Arc::new(Schema::compile(schema).unwrap())
}

fn compose(request: &Request, manner: ComposeOptions) -> Result<ComposedRequest> {
    request.check().unwrap();
    AnthropicMapping.compose_request("claude-test", request, manner)
}

fn read(body: Value) -> Result<Response> {
    AnthropicMapping.read_response(body, &compose(&asked(), WHOLE).unwrap())
}

/// Plays the data of events, then the end of the body.
fn play(composed: &ComposedRequest, events: &[Value]) -> Result<Response> {
    let mut decoder = AnthropicMapping.stream_decoder(composed);
    let mut deltas = Vec::new();
    for event in events {
        decoder.decode_event(None, &event.to_string(), &mut deltas)?;
    }
    decoder.finish_stream(&mut deltas)?;
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for delta in deltas {
        assembler.push_delta(delta)?;
    }
    assembler.finish_response()
}

#[test]
fn the_headers_carry_the_key_and_the_version() {
    let version = ("anthropic-version".to_owned(), "2023-06-01".to_owned());
    assert_eq!(AnthropicMapping.auth_headers(None), vec![version.clone()]);
    assert_eq!(
        AnthropicMapping.auth_headers(Some("k")),
        vec![version, ("x-api-key".to_owned(), "k".to_owned())]
    );
}

#[test]
fn a_probe_asks_for_the_model_and_an_alias_is_as_good() {
    assert_eq!(AnthropicMapping.probe_path("claude-x"), "/v1/models/claude-x");
    assert_eq!(AnthropicMapping.probe_path("a b/c?d"), "/v1/models/a%20b%2Fc%3Fd");
    let model = json!({"type": "model", "id": "claude-x-20300101", "display_name": "Claude X"});
    assert!(AnthropicMapping.read_probe("claude-x", &model).is_ok());
    for body in [json!({}), json!([]), json!({"id": 1}), json!(null)] {
        let error = AnthropicMapping.read_probe("claude-x", &body).unwrap_err();
        assert_eq!(error.category(), "provider_invalid_response", "{body}");
    }
}
