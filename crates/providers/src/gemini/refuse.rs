//! The errors of Gemini's failed answers (spec: llm-provider §8.3.3).

use std::time::Duration;

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail};

use crate::mapping::{FailedResponse, error_field, error_text};
use crate::rejection::names_a_block;

/// Reads a failed answer. How long to wait may stand in its body.
pub(super) fn classify_failure(refusal: &FailedResponse<'_>) -> Error {
    let retry_after = refusal.retry_after.or_else(|| refusal.body.and_then(read_retry_delay));
    error_category(refusal.status, refusal.body)(FailedResponse { retry_after, ..*refusal }.error_detail())
}

/// Reads an error in the place of an answer, or of one of its chunks. `None` where there is none.
pub(super) fn in_band_error(chunk: &Value) -> Option<Error> {
    let body = chunk.get(0).unwrap_or(chunk);
    body.get("error").filter(|it| !it.is_null())?;
    let code = error_field(chunk, "code").and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok());
    let status = code
        .filter(|code| (400..600).contains(code))
        .or_else(|| error_text(chunk, "status").and_then(status_from_name));
    let text =
        error_text(chunk, "message").map_or_else(|| "the server failed on the way".to_owned(), str::to_owned);
    let detail = ProviderErrorDetail::new(text);
    let detail = match read_retry_delay(chunk) {
        Some(wait) => detail.with_retry_after(wait),
        None => detail,
    };
    Some(error_category(status.unwrap_or(500), Some(chunk))(detail))
}

/// Statuses that the specification does not list go as on OpenAI's wire: 408, 409 and 425 may pass, every other 4xx
/// is a mistake of the request, as are redirects, which nobody follows.
fn error_category(status: u16, body: Option<&Value>) -> fn(ProviderErrorDetail) -> Error {
    let said = |field: &str| body.and_then(|body| error_text(body, field)).unwrap_or_default();
    match status {
        400 | 403 if names_a_block(said("message")) => Error::UnsupportedContentBlock,
        400 if body.is_some_and(names_bad_key) => Error::Authentication,
        401..=403 => Error::Authentication,
        404 if said("status") == "NOT_FOUND" => Error::InvalidModel,
        429 => Error::RateLimit,
        408 | 409 | 425 | 500.. => Error::Unavailable,
        300..=499 => Error::InvalidRequest,
        _ => Error::InvalidResponse,
    }
}

fn status_from_name(name: &str) -> Option<u16> {
    Some(match name {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "RESOURCE_EXHAUSTED" => 429,
        _ => return None,
    })
}

fn error_details(body: &Value) -> impl Iterator<Item = &Value> {
    error_field(body, "details").and_then(Value::as_array).into_iter().flatten()
}

/// A wrong key is told as a malformed request; its details say which.
fn names_bad_key(body: &Value) -> bool {
    error_details(body).any(|detail| detail.get("reason").is_some_and(|detail| detail == "API_KEY_INVALID"))
}

/// Reads `RetryInfo`, whose delay is written as in `34.5s`.
fn read_retry_delay(body: &Value) -> Option<Duration> {
    let delay = error_details(body).find_map(|detail| detail.get("retryDelay"))?.as_str()?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
