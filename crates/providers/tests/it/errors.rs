//! The error of a failed exchange, status by status (spec: llm-provider §7, §8.1.3).

use std::time::Duration;

use serde_json::{Value, json};
use singletree_http::Error as HttpError;
use singletree_llm::{Error, Provider};
use singletree_providers::Wire;

use crate::rig::{Answer, Canned, builder, provider, question, stream};

/// Fails both ways of asking, and the probe; returns the error of the first.
async fn fail(answer: impl Fn() -> Result<Answer, HttpError>) -> Error {
    let transport = Canned::fallible([answer(), answer(), answer()]);
    let provider = provider(Wire::OpenAi, &transport);
    let whole = provider.complete(&question()).await.unwrap_err();
    let streamed = stream(&provider, &question()).await.end.unwrap_err();
    let probe = provider.ready().await.unwrap_err();
    for other in [streamed, probe] {
        assert_eq!((other.category(), other.to_string()), (whole.category(), whole.to_string()));
    }
    whole
}

async fn check(status: u16, body: Value, category: &str) {
    let error = fail(|| Ok(Answer::json(status, &body))).await;
    assert_eq!(error.category(), category, "{status} {body}");
    assert_eq!(error.http_status(), Some(status));
    let told = body["error"]["message"]
        .as_str()
        .map_or_else(|| format!("the server answered {status}"), str::to_owned);
    assert_eq!(error.to_string(), told);
}

fn says(message: &str) -> Value {
    json!({ "error": { "message": message } })
}

fn code(code: &str) -> Value {
    json!({ "error": { "message": "It failed.", "code": code, "type": "invalid_request_error" } })
}

#[tokio::test]
async fn the_table_of_the_specification_holds() {
    check(401, code("invalid_api_key"), "provider_authentication").await;
    check(403, json!({}), "provider_authentication").await;
    check(404, code("model_not_found"), "provider_invalid_model").await;
    check(
        503,
        json!({ "error": { "type": "model_not_loaded", "message": "Not now." } }),
        "provider_model_not_loaded",
    )
    .await;
    check(429, says("Slow down."), "provider_rate_limit").await;
    for status in [500, 501, 502, 503, 504, 520, 529, 599] {
        check(status, says("Oh."), "provider_unavailable").await;
    }
    check(400, code("image_content_not_supported"), "provider_unsupported_content_block").await;
    check(400, says("This model does not support image inputs."), "provider_unsupported_content_block").await;
    check(400, says("missing required field"), "provider_invalid_request").await;
}

// Statuses that the specification does not list.
#[tokio::test]
async fn every_other_status_has_a_category_too() {
    check(402, says("No credit left."), "provider_authentication").await;
    for status in [408, 409, 425] {
        check(status, says("Again."), "provider_unavailable").await;
    }
    for status in [404, 405, 413, 415, 422, 451, 300, 301, 307, 308] {
        check(status, json!({}), "provider_invalid_request").await;
    }
    check(304, json!({}), "provider_invalid_request").await;
    check(100, json!({}), "provider_invalid_response").await;
}

#[tokio::test]
async fn servers_that_say_it_in_words_are_understood() {
    check(404, says("The model `x` does not exist."), "provider_invalid_model").await;
    check(404, says("model \"x\" not found, try pulling it first"), "provider_invalid_model").await;
    check(400, says("x is not a valid model ID"), "provider_invalid_model").await;
    check(503, says("Loading model"), "provider_model_not_loaded").await;
    check(404, says("no such page"), "provider_invalid_request").await;
    check(400, says("image is too large"), "provider_invalid_request").await;
    let plain = json!({ "object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404 });
    let error = fail(|| Ok(Answer::json(404, &plain))).await;
    assert_eq!(
        (error.category(), error.to_string().as_str()),
        ("provider_invalid_model", "The model `x` does not exist.")
    );
}

#[tokio::test]
async fn how_long_to_wait_is_told_with_every_failure() {
    let cases = [(429, "30", Some(30)), (503, "2", Some(2)), (429, "soon", None)];
    for (status, told, expected) in cases {
        let error =
            fail(|| Ok(Answer::json(status, &says("Slow down.")).with_header("retry-after", told))).await;
        assert_eq!(error.retry_after(), expected.map(Duration::from_secs), "{status} {told}");
    }
}

#[tokio::test]
async fn a_refusal_that_is_no_json_is_told_by_its_status() {
    let bodies = ["<html>secret inside</html>", "", "{\"error\":", "\u{fffd}"];
    for body in bodies {
        let error = fail(|| Ok(Answer::typed(502, "text/html", vec![body.into()]))).await;
        assert_eq!(
            (error.category(), error.to_string().as_str()),
            ("provider_unavailable", "the server answered 502")
        );
    }
    let huge = || Answer::typed(400, "application/json", vec![vec![b' '; 100_000].into(), "{}".into()]);
    assert_eq!(fail(|| Ok(huge())).await.to_string(), "the server answered 400");
}

#[tokio::test]
async fn a_long_message_is_cut() {
    let error = fail(|| Ok(Answer::json(500, &says(&"ä".repeat(5000))))).await;
    assert_eq!(error.to_string(), format!("{}…", "ä".repeat(500)));
}

#[tokio::test]
async fn an_error_of_the_transport_has_a_category() {
    let host = || "h".to_owned();
    type Fails = fn() -> HttpError;
    let cases: [(Fails, &str); 7] = [
        (
            || HttpError::Unreachable { host: "h".to_owned(), source: "refused".into() },
            "provider_unavailable",
        ),
        (|| HttpError::Timeout { host: "h".to_owned(), what: "the head".to_owned() }, "provider_unavailable"),
        (|| HttpError::Broken { host: "h".to_owned(), source: "reset".into() }, "provider_unavailable"),
        (|| HttpError::TooLarge { host: "h".to_owned(), limit: 1 }, "provider_invalid_response"),
        (|| HttpError::Stream { problem: "not UTF-8".to_owned() }, "provider_invalid_response"),
        (|| HttpError::Request { problem: "no".to_owned() }, "provider_invalid_request"),
        (
            || HttpError::Egress { host: "h".to_owned(), reason: "private".to_owned() },
            "provider_invalid_request",
        ),
    ];
    for (error, category) in cases {
        let failed = fail(|| Err(error())).await;
        assert_eq!((failed.category(), failed.to_string()), (category, error().to_string()));
        // The same in the middle of a body.
        let cut = || Answer::typed(200, "application/json", vec!["{".into()]).ending_in(error());
        assert_eq!(fail(|| Ok(cut())).await.category(), category);
    }
    let failed = fail(|| Err(HttpError::Unreachable { host: host(), source: "refused".into() })).await;
    assert_eq!(std::error::Error::source(&failed).unwrap().source().map(ToString::to_string), None);
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_is_invalid() {
    let chunk = r#"data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}"#;
    let with = |rest: &[u8]| Answer::events([chunk.as_bytes(), b"\n\n", rest, b"\n\n"].concat());
    let cases = [with(b"data: \xff"), with(b"data: {"), with(b"data: 5"), with(b"data: {\"choices\":5}")];
    for answer in cases {
        let streamed = stream(&provider(Wire::OpenAi, &Canned::new([answer])), &question()).await;
        assert_eq!(streamed.end.unwrap_err().category(), "provider_invalid_response");
        assert_eq!(streamed.shown, [singletree_llm::ResponseDelta::from_text("Half")]);
    }
    let page = Answer::typed(200, "text/html; charset=utf-8", vec!["<html>".into()]);
    let streamed = stream(&provider(Wire::OpenAi, &Canned::new([page])), &question()).await;
    assert_eq!(streamed.end.unwrap_err().category(), "provider_invalid_response");
}

#[tokio::test]
async fn bodies_and_lines_are_bounded_whatever_the_transport_allows() {
    let limits = singletree_http::HttpLimits { body_bytes: 100, line_bytes: 100, ..Default::default() };
    let huge = || Answer::json(200, &json!({ "choices": "x".repeat(200) }));
    let line = || Answer::events(format!("data: {}\n\n", "x".repeat(200)));
    let transport = Canned::new([huge(), huge(), line(), huge()]);
    let provider = builder(Wire::OpenAi, &transport).limits(limits).build().unwrap();
    let whole = provider.complete(&question()).await.unwrap_err();
    assert_eq!(whole.category(), "provider_invalid_response");
    for _ in 0..2 {
        assert_eq!(
            stream(&provider, &question()).await.end.unwrap_err().category(),
            "provider_invalid_response"
        );
    }
    assert_eq!(provider.ready().await.unwrap_err().category(), "provider_invalid_response");
}
