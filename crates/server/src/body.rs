//! Reads the bodies of requests as JSON, with errors that name the place of the mistake.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;

use crate::problem::RequestProblem;

/// The maximum nesting of JSON; deeper is `server_request_invalid` (INV-12). No message of any protocol here comes
/// near it.
const DEPTH_MAX: usize = 64;

/// Reads a body as JSON of a type.
///
/// # Errors
/// `server_request_invalid` with the place of the mistake.
pub(crate) fn parse_json_body<T: DeserializeOwned>(body: &Bytes) -> Result<T, RequestProblem> {
    // Serde would also read a struct from a list of its field values.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(RequestProblem::invalid_request(
            "the body is not what is expected: it has to be a JSON object",
        ));
    }
    check_json_depth(body)?;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let problem =
            RequestProblem::invalid_request(format!("the body is not what is expected: {}", error.inner()));
        if place == "." { problem } else { problem.with_field(place) }
    })?;
    reader.end().map_err(|_| RequestProblem::invalid_request("the body goes on behind its JSON"))?;
    Ok(value)
}

/// Refuses JSON that nests too deep, before it is parsed. Invalid JSON passes; the parser reports it.
///
/// # Errors
/// `server_request_invalid`.
pub(crate) fn check_json_depth(body: &[u8]) -> Result<(), RequestProblem> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(RequestProblem::invalid_request(format!("the body nests deeper than {DEPTH_MAX}")));
        }
    }
    Ok(())
}

/// The body of a request as JSON of a type, as an argument of a handler. An empty body is `{}`.
///
/// The content type has to be JSON: a page of another site can make a browser send a text or a form without a
/// preflight, but not JSON, and a server without keys must not accept such requests.
pub(crate) struct JsonPayload<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonPayload<T> {
    type Rejection = RequestProblem;

    async fn from_request(request: Request, state: &S) -> Result<Self, RequestProblem> {
        let is_json = has_json_content_type(request.headers());
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| RequestProblem::from_status(error.into_response().status()))?;
        if body.is_empty() {
            return parse_json_body(&Bytes::from_static(b"{}")).map(Self);
        }
        if !is_json {
            let problem = RequestProblem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            return Err(problem.with_hint("send JSON, with `Content-Type: application/json`"));
        }
        parse_json_body(&body).map(Self)
    }
}

/// Checks whether the content type of a body is JSON.
pub(crate) fn has_json_content_type(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_texts() {
        let check =
            |body: &str, fit: bool| assert_eq!(check_json_depth(body.as_bytes()).is_ok(), fit, "{body}");
        let nested = |deep: usize| format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
        check(&nested(DEPTH_MAX), true);
        check(&nested(DEPTH_MAX + 1), false);
        check(&"{\"a\":".repeat(DEPTH_MAX + 1), false);
        check(&"[],".repeat(DEPTH_MAX + 1), true);
        check(&format!("[\"{}\"]", "[".repeat(DEPTH_MAX + 1)), true);
        check(&format!("[\"\\\"{}\"]", "[".repeat(DEPTH_MAX + 1)), true);
        check(&format!("[\"\\\\\",{}", "[".repeat(DEPTH_MAX)), false);
    }
}
