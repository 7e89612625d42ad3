//! The HTTP layer around all responses that tells browsers which pages may ask: CORS.

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, Method};
use tower_http::cors::CorsLayer;

use crate::disconnect::ON_DISCONNECT;
use crate::request_id;
use crate::ui_stream::AI_SDK_VERSION;

/// How long a browser may cache the response to a preflight request.
const ASKED_EVERY: Duration = Duration::from_hours(1);

/// Headers that pages may send, beside the usual ones and the id of the request.
const SENT: &[&str] = &[
    "idempotency-key",
    "last-event-id",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "prefer",
    "traceparent",
    "x-correlation-id",
    "x-name",
    "x-session-id",
    "x-subject",
];

/// Headers that OpenAI's SDK sends of itself.
const STAINLESS: &[&str] = &[
    "x-stainless-arch",
    "x-stainless-async",
    "x-stainless-custom-poll-interval",
    "x-stainless-helper-method",
    "x-stainless-lang",
    "x-stainless-os",
    "x-stainless-package-version",
    "x-stainless-poll-helper",
    "x-stainless-read-timeout",
    "x-stainless-retry-count",
    "x-stainless-runtime",
    "x-stainless-runtime-version",
    "x-stainless-timeout",
];

/// Headers of answers that pages may read, beside the usual ones and the id of the request.
const EXPOSED: &[&str] = &["idempotent-replayed", "preference-applied", "x-correlation-id", "x-should-retry"];

/// Lets pages of these origins ask; none where there is none.
pub(super) fn cors_layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    if origins.is_empty() {
        return None;
    }
    let header = HeaderName::from_static;
    let ours = [request_id::HEADER, ON_DISCONNECT, AI_SDK_VERSION];
    let sent = SENT.iter().chain(STAINLESS).copied().chain(ours).map(header);
    let cors = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE].into_iter().chain(sent).collect::<Vec<_>>())
        .expose_headers(
            [LOCATION, RETRY_AFTER]
                .into_iter()
                .chain(EXPOSED.iter().copied().chain([request_id::HEADER]).map(header))
                .collect::<Vec<_>>(),
        )
        .max_age(ASKED_EVERY);
    Some(cors)
}
