//! The errors of failed answers (spec: llm-provider §8.2.3).

use std::time::Duration;

use serde_json::{Value, json};

use super::{AnthropicMapping, WHOLE, WireMapping, asked, compose, play};
use crate::mapping::FailedResponse;

fn envelope(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"})
}

const TABLE: [(u16, &str, &str, &str); 16] = [
    (401, "authentication_error", "bad key", "provider_authentication"),
    (402, "billing_error", "pay", "provider_authentication"),
    (403, "permission_error", "no", "provider_authentication"),
    (404, "not_found_error", "model: claude-x", "provider_invalid_model"),
    (404, "", "no such page", "provider_invalid_request"),
    (408, "", "slow", "provider_unavailable"),
    (413, "request_too_large", "too big", "provider_invalid_request"),
    (422, "invalid_request_error", "odd", "provider_invalid_request"),
    (429, "rate_limit_error", "slow down", "provider_rate_limit"),
    (500, "api_error", "internal", "provider_unavailable"),
    (503, "", "away", "provider_unavailable"),
    (504, "timeout_error", "timed out", "provider_unavailable"),
    (529, "overloaded_error", "overloaded", "provider_unavailable"),
    (
        400,
        "invalid_request_error",
        "image source not supported by this model",
        "provider_unsupported_content_block",
    ),
    (400, "invalid_request_error", "image: unsupported media type", "provider_unsupported_content_block"),
    (400, "invalid_request_error", "bad field", "provider_invalid_request"),
];

#[test]
fn every_status_has_its_category_and_the_servers_own_words() {
    for (status, kind, message, category) in TABLE {
        let body = envelope(kind, message);
        let wait = Some(Duration::from_secs(7));
        let error = AnthropicMapping.classify_failure(&FailedResponse {
            status,
            body: Some(&body),
            retry_after: wait,
        });
        assert_eq!((error.category(), error.http_status()), (category, Some(status)), "{status} {kind}");
        assert_eq!((error.to_string().as_str(), error.retry_after()), (message, wait), "{status} {kind}");
    }
}

#[test]
fn a_refusal_without_a_body_goes_by_its_status() {
    for (status, category) in [
        (400, "provider_invalid_request"),
        (401, "provider_authentication"),
        (404, "provider_invalid_request"),
        (429, "provider_rate_limit"),
        (500, "provider_unavailable"),
    ] {
        let error =
            AnthropicMapping.classify_failure(&FailedResponse { status, body: None, retry_after: None });
        assert_eq!(error.category(), category, "{status}");
    }
}

#[test]
fn an_error_in_the_stream_means_what_it_means_outside() {
    let start = json!({"type": "message_start", "message": {"usage": {}}});
    for (_, kind, message, category) in TABLE.into_iter().filter(|(_, kind, ..)| !kind.is_empty()) {
        let composed = compose(&asked(), WHOLE).unwrap();
        let error = play(&composed, &[start.clone(), envelope(kind, message)]).unwrap_err();
        assert_eq!((error.category(), error.to_string().as_str()), (category, message), "{kind}");
        let error = AnthropicMapping.read_response(envelope(kind, message), &composed).unwrap_err();
        assert_eq!(error.category(), category, "{kind}");
    }
    let error = play(&compose(&asked(), WHOLE).unwrap(), &[envelope("new_error", "?")]).unwrap_err();
    assert_eq!(error.category(), "provider_unavailable");
}
