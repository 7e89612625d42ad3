//! The errors of failed answers (spec: llm-provider §8.3.3).

use std::time::Duration;

use serde_json::{Value, json};

use super::{GeminiMapping, STREAMED, WireMapping, asked, compose, parts, play, read};
use crate::mapping::FailedResponse;

fn envelope(code: u16, message: &str, status: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": status}})
}

const TABLE: [(u16, &str, &str, &str); 15] = [
    (400, "INVALID_ARGUMENT", "bad request", "provider_invalid_request"),
    (400, "FAILED_PRECONDITION", "not from there", "provider_invalid_request"),
    (400, "INVALID_ARGUMENT", "Unsupported MIME type: text/x", "provider_unsupported_content_block"),
    (403, "PERMISSION_DENIED", "file uri scheme is not supported", "provider_unsupported_content_block"),
    (401, "UNAUTHENTICATED", "who?", "provider_authentication"),
    (403, "PERMISSION_DENIED", "denied", "provider_authentication"),
    (404, "NOT_FOUND", "model not found", "provider_invalid_model"),
    (404, "", "no such page", "provider_invalid_request"),
    (408, "", "slow", "provider_unavailable"),
    (429, "RESOURCE_EXHAUSTED", "rate limited", "provider_rate_limit"),
    (500, "INTERNAL", "internal", "provider_unavailable"),
    (502, "", "gate", "provider_unavailable"),
    (503, "UNAVAILABLE", "unavailable", "provider_unavailable"),
    (504, "DEADLINE_EXCEEDED", "late", "provider_unavailable"),
    (302, "", "elsewhere", "provider_invalid_request"),
];

#[test]
fn every_status_has_its_category_and_the_servers_own_words() {
    for (status, name, message, category) in TABLE {
        for body in [envelope(status, message, name), json!([envelope(status, message, name)])] {
            let error = GeminiMapping.classify_failure(&FailedResponse {
                status,
                body: Some(&body),
                retry_after: None,
            });
            assert_eq!((error.category(), error.http_status()), (category, Some(status)), "{status} {name}");
            assert_eq!(error.to_string(), message);
        }
    }
}

#[test]
fn a_wrong_key_is_an_authentication_though_its_status_is_that_of_a_malformed_request() {
    let mut body = envelope(400, "API key not valid.", "INVALID_ARGUMENT");
    body["error"]["details"] = json!([{"@type": "ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let error =
        GeminiMapping.classify_failure(&FailedResponse { status: 400, body: Some(&body), retry_after: None });
    assert_eq!(error.category(), "provider_authentication");
}

#[test]
fn how_long_to_wait_may_stand_in_the_body_and_the_header_goes_before() {
    let wait = |delay: &str, header: Option<u64>| {
        let mut body = envelope(429, "slow down", "RESOURCE_EXHAUSTED");
        body["error"]["details"] = json!([{"@type": "Help"}, {"@type": "RetryInfo", "retryDelay": delay}]);
        let retry_after = header.map(Duration::from_secs);
        GeminiMapping
            .classify_failure(&FailedResponse { status: 429, body: Some(&body), retry_after })
            .retry_after()
    };
    assert_eq!(wait("34.5s", None), Some(Duration::from_millis(34_500)));
    assert_eq!(wait("34s", Some(2)), Some(Duration::from_secs(2)));
    for malformed in ["", "s", "34", "-1s", "NaNs", "1e400s"] {
        assert_eq!(wait(malformed, None), None, "{malformed}");
    }
}

#[test]
fn an_error_in_the_stream_means_what_it_means_outside() {
    let first = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]});
    for (status, name, message, category) in TABLE.into_iter().filter(|(status, ..)| *status >= 400) {
        let error = envelope(status, message, name);
        let told = play(&compose(&asked(), STREAMED).unwrap(), &[first.clone(), error.clone()]).unwrap_err();
        assert_eq!((told.category(), told.to_string().as_str()), (category, message), "{status} {name}");
        assert_eq!(read(error).unwrap_err().category(), category, "{status} {name}");
    }
    let unnumbered = json!({"error": {"message": "slow down", "status": "RESOURCE_EXHAUSTED"}});
    assert_eq!(read(unnumbered).unwrap_err().category(), "provider_rate_limit");
    for error in [json!({"error": {}}), json!({"error": "?"}), json!([{"error": {"code": 9}}])] {
        assert_eq!(read(error.clone()).unwrap_err().category(), "provider_unavailable", "{error}");
    }
    let mut fine = parts(json!([{"text": "a"}]), "STOP");
    fine["error"] = Value::Null;
    assert!(read(fine).is_ok());
}
