//! The errors of Anthropic's failed answers (spec: llm-provider §8.2.3).

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail};

use crate::mapping::{FailedResponse, error_text};
use crate::rejection::names_a_block;

/// Reads a failed answer.
pub(super) fn classify_failure(refusal: &FailedResponse<'_>) -> Error {
    error_category(refusal.status, refusal.body)(refusal.error_detail())
}

/// Reads an error in the place of an answer, or in the middle of one: its type stands for a status.
pub(super) fn in_band_error(event: &Value) -> Error {
    let status = match error_text(event, "type") {
        Some("invalid_request_error") => 400,
        Some("authentication_error") => 401,
        Some("billing_error") => 402,
        Some("permission_error") => 403,
        Some("not_found_error") => 404,
        Some("request_too_large") => 413,
        Some("rate_limit_error") => 429,
        Some(_) | None => 500,
    };
    let text =
        error_text(event, "message").map_or_else(|| "the server failed on the way".to_owned(), str::to_owned);
    error_category(status, Some(event))(ProviderErrorDetail::new(text))
}

/// Statuses that the specification does not list go as on OpenAI's wire: 408, 409 and 425 may pass, every other 4xx
/// is a mistake of the request, as are redirects, which nobody follows.
fn error_category(status: u16, body: Option<&Value>) -> fn(ProviderErrorDetail) -> Error {
    let said = |field: &str| body.and_then(|body| error_text(body, field)).unwrap_or_default();
    match status {
        401..=403 => Error::Authentication,
        404 if said("type") == "not_found_error" => Error::InvalidModel,
        400 if names_a_block(said("message")) => Error::UnsupportedContentBlock,
        429 => Error::RateLimit,
        408 | 409 | 425 | 500.. => Error::Unavailable,
        300..=499 => Error::InvalidRequest,
        _ => Error::InvalidResponse,
    }
}
