//! A planted key is in no error and no `Debug`, whatever goes wrong (INV-16, D15).

use std::sync::Arc;

use serde_json::json;
use singletree_http::{Error as HttpError, HttpClient, HttpLimits, Secret};
use singletree_llm::{Error, Provider, Request};
use singletree_providers::{HttpProvider, Wire};

use crate::rig::{Answer, Canned, builder, question, question_with_tools, stream};

const KEY: &str = "sk-planted-0123456789";
const HEADER: &str = "planted-header-value";

fn assert_clean(text: &str) {
    assert!(!text.contains("planted"), "{text}");
}

/// Everything that anybody could print of an error.
fn told(error: &Error) -> String {
    let mut told = format!("{error} {error:?} {error:#?}");
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        told.push_str(&format!(" {source} {source:?}"));
        next = source.source();
    }
    told
}

const WIRES: [Wire; 3] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini];

/// Every way to fail, each with the key wherever a server could put it.
fn failures() -> Vec<Result<Answer, HttpError>> {
    let message = || format!("Incorrect API key provided: {KEY} ({HEADER}).");
    let error =
        || json!({ "error": { "message": message(), "code": KEY, "type": KEY, "param": KEY }, "key": KEY });
    let mut failures: Vec<Result<Answer, HttpError>> =
        [400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503, 301]
            .into_iter()
            .map(|status| Ok(Answer::json(status, &error()).with_header("x-key", KEY)))
            .collect();
    failures.push(Ok(Answer::typed(500, "text/plain", vec![message().into()])));
    failures.push(Ok(Answer::typed(200, "text/html", vec![message().into()])));
    failures.push(Ok(Answer::typed(200, "application/json", vec![message().into()])));
    failures.push(Ok(Answer::json(200, &error())));
    failures.push(Ok(Answer::json(200, &json!({ "error": message() }))));
    failures.push(Ok(Answer::json(
        200,
        &json!({ "data": [], "choices": [{ "message": { "content": 5, "x": KEY } }] }),
    )));
    let call = json!([{ "id": KEY, "function": { "name": KEY, "arguments": message() } }]);
    failures.push(Ok(Answer::json(
        200,
        &json!({ "choices": [{ "message": { "tool_calls": call }, "finish_reason": "stop" }] }),
    )));
    let block = json!({ "type": "tool_use", "id": KEY, "name": KEY, "input": message() });
    failures.push(Ok(Answer::json(200, &json!({ "content": [block], "stop_reason": "tool_use" }))));
    let part = json!({ "functionCall": { "id": KEY, "name": KEY, "args": message() } });
    let candidate = json!({ "content": { "parts": [part] }, "finishReason": "STOP" });
    failures.push(Ok(Answer::json(200, &json!({ "candidates": [candidate] }))));
    failures.push(Ok(Answer::events(format!("data: {}\n\n", error()))));
    let typed = json!({ "type": "error", "error": { "type": KEY, "message": message(), "status": KEY } });
    failures.push(Ok(Answer::events(format!("event: error\ndata: {typed}\n\n"))));
    failures.push(Ok(Answer::events(format!("data: {KEY}\n\n"))));
    failures.push(Ok(Answer::events(format!("data: {{\"choices\": \"{KEY}\"}}\n\n"))));
    failures.push(Ok(Answer::events([b"data: ", KEY.as_bytes(), b"\xff\n\n"].concat())));
    failures.push(Ok(Answer::events("data: {\"choices\":[]}\n\n").ending_in(broken())));
    failures.push(Err(broken()));
    failures.push(Err(HttpError::Request { problem: message() }));
    failures
}

fn broken() -> HttpError {
    HttpError::Broken { host: KEY.to_owned(), source: "reset".into() }
}

fn provider(wire: Wire, transport: &Arc<Canned>) -> HttpProvider {
    builder(wire, transport)
        .key(Secret::new(format!("{KEY}\n")))
        .header("X-Org", Secret::new(HEADER))
        .build()
        .unwrap()
}

#[tokio::test]
async fn no_error_of_any_path_holds_the_key() {
    for (at, wire) in (0..failures().len()).flat_map(|at| WIRES.map(|wire| (at, wire))) {
        let answer = || failures().remove(at);
        let transport = Canned::fallible([answer(), answer(), answer()]);
        let provider = provider(wire, &transport);
        let request = question_with_tools();
        let whole = provider.complete(&request).await.unwrap_err();
        let streamed = stream(&provider, &request).await.end.unwrap_err();
        let probe = provider.ready().await.unwrap_err();
        for error in [whole, streamed, probe] {
            assert_clean(&told(&error));
        }
    }
}

#[tokio::test]
async fn what_was_redacted_is_still_told() {
    let body = json!({ "error": { "message": format!("Incorrect API key provided: {KEY}.") } });
    let transport = Canned::new([Answer::json(401, &body)]);
    let error = provider(Wire::OpenAi, &transport).complete(&question()).await.unwrap_err();
    assert_eq!(error.to_string(), "Incorrect API key provided: [redacted].");
}

#[tokio::test]
async fn the_key_is_sent_and_shown_nowhere() {
    for (wire, header, value) in [
        (Wire::OpenAi, "authorization", format!("Bearer {KEY}")),
        (Wire::Anthropic, "x-api-key", KEY.to_owned()),
        (Wire::Gemini, "x-goog-api-key", KEY.to_owned()),
    ] {
        let transport = Canned::new([Answer::json(500, &json!({}))]);
        let builder = builder(wire, &transport)
            .key(Secret::new(format!(" {KEY}\n")))
            .header("X-Org", Secret::new(HEADER));
        assert_clean(&format!("{builder:?}"));
        let provider = builder.build().unwrap();
        assert_clean(&format!("{provider:?} {provider:#?}"));
        provider.complete(&question()).await.unwrap_err();
        let request = &transport.requests()[0];
        assert_clean(&format!("{request:?}"));
        assert_clean(&request.url);
        let sent =
            |name: &str| request.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
        assert_eq!(sent(header), Some(value));
        assert_eq!(sent("x-org"), Some(HEADER.to_owned()));
    }
}

#[tokio::test]
async fn no_error_of_a_real_client_holds_the_key() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Arc::new(HttpClient::new(HttpLimits::standard()).unwrap());
    let of = |base: &str, key: &str| {
        let builder = HttpProvider::builder(Wire::OpenAi, "m", client.clone());
        builder.base_url(base).key(Secret::new(key)).build()
    };
    let request: Request = question();
    for key in [KEY.to_owned(), format!("{KEY}\r\nx: y"), format!("{KEY}\u{7f}")] {
        let provider = of(&gone, &key).unwrap();
        assert_clean(&told(&provider.complete(&request).await.unwrap_err()));
        assert_clean(&told(&provider.ready().await.unwrap_err()));
    }
    for base in [format!("http://{KEY}:x@host"), format!("http://host?key={KEY}"), format!("nonsense {KEY}")]
    {
        assert_clean(&told(&of(&base, KEY).unwrap_err()));
    }
}
