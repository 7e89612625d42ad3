//! The mapping of Gemini, row by row.

mod compose;
mod read;
mod refuse;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, Request, Response, ResponseAssembler, ResponseLimits, Result, RuntimeConfig, Schema,
    ToolDefinition,
};

use super::GeminiMapping;
use crate::mapping::{ComposeOptions, ComposedRequest, WireMapping};

const WHOLE: ComposeOptions = ComposeOptions { streaming: false, structured_output: true };
const STREAMED: ComposeOptions = ComposeOptions { streaming: true, structured_output: true };
const OLD: ComposeOptions = ComposeOptions { streaming: false, structured_output: false };

fn request(messages: Vec<ChatMessage>) -> Request {
    Request::new(messages.into_iter().map(Arc::new).collect())
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
    GeminiMapping.compose_request("gemini-test", request, manner)
}

fn read(body: Value) -> Result<Response> {
    GeminiMapping.read_response(body, &compose(&asked(), WHOLE).unwrap())
}

/// Plays chunks, then the end of the body.
fn play(composed: &ComposedRequest, chunks: &[Value]) -> Result<Response> {
    let mut decoder = GeminiMapping.stream_decoder(composed);
    let mut deltas = Vec::new();
    for chunk in chunks {
        decoder.decode_event(None, &chunk.to_string(), &mut deltas)?;
    }
    decoder.finish_stream(&mut deltas)?;
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for delta in deltas {
        assembler.push_delta(delta)?;
    }
    assembler.finish_response()
}

fn parts(parts: Value, finish: &str) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
    })
}

#[test]
fn the_key_is_a_header() {
    assert_eq!(GeminiMapping.auth_headers(None), vec![]);
    assert_eq!(GeminiMapping.auth_headers(Some("k")), vec![("x-goog-api-key".to_owned(), "k".to_owned())]);
}

#[test]
fn a_model_is_a_bare_name_or_that_of_its_resource() {
    for (model, path) in [
        ("gemini-x", "/v1beta/models/gemini-x"),
        ("models/gemini-x", "/v1beta/models/gemini-x"),
        ("tunedModels/mine", "/v1beta/tunedModels/mine"),
        ("other/x?y#z", "/v1beta/models/other%2Fx%3Fy%23z"),
    ] {
        assert_eq!(GeminiMapping.probe_path(model), path);
        let composed = GeminiMapping.compose_request(model, &asked(), WHOLE).unwrap();
        assert_eq!(composed.path, format!("{path}:generateContent"));
        let composed = GeminiMapping.compose_request(model, &asked(), STREAMED).unwrap();
        assert_eq!(composed.path, format!("{path}:streamGenerateContent?alt=sse"));
    }
}

#[test]
fn a_probe_tells_a_model_that_generates_from_one_that_does_not() {
    let model = |methods: Value| json!({"name": "models/m", "supportedGenerationMethods": methods});
    assert!(GeminiMapping.read_probe("m", &model(json!(["generateContent", "countTokens"]))).is_ok());
    assert!(GeminiMapping.read_probe("m", &json!({"name": "models/m"})).is_ok());
    for (body, category) in [
        (model(json!(["embedContent"])), "provider_invalid_model"),
        (json!({}), "provider_invalid_response"),
        (json!({"name": 1}), "provider_invalid_response"),
        (json!(null), "provider_invalid_response"),
    ] {
        assert_eq!(GeminiMapping.read_probe("m", &body).unwrap_err().category(), category, "{body}");
    }
}

#[test]
fn equal_requests_mint_equal_ids_and_others_do_not() {
    let call =
        || parts(json!([{"functionCall": {"name": "t"}}, {"functionCall": {"name": "t", "id": ""}}]), "STOP");
    let ids = |texts: &[&str], manner| {
        let said = |(at, text): (usize, &&str)| match at % 2 {
            0 => ChatMessage::user(*text),
            _ => ChatMessage::assistant(*text),
        };
        let request = request(texts.iter().enumerate().map(said).collect());
        let response = GeminiMapping.read_response(call(), &compose(&request, manner).unwrap()).unwrap();
        response.message.tool_calls.into_iter().map(|it| it.id).collect::<Vec<String>>()
    };
    let first = ids(&["hi"], WHOLE);
    assert_eq!(first, ids(&["hi"], STREAMED));
    let others = [ids(&["ho"], WHOLE), ids(&["hi", "ho", "hi"], WHOLE), ids(&["hi", "ho", "ho"], WHOLE)];
    let all: BTreeSet<&String> = first.iter().chain(others.iter().flatten()).collect();
    assert_eq!(all.len(), 8, "{all:?}");
    let allowed = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    assert!(all.iter().all(|it| it.chars().all(allowed)), "{all:?}");
}

#[test]
fn a_config_without_anything_set_sends_no_generation_config() {
    let request = asked().with_config(RuntimeConfig::default());
    let wire = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    assert_eq!(compose(&request, WHOLE).unwrap().body, wire);
}
