//! The client's id for the exchange to which a request belongs: it is logged with the request.

use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;

/// The header with the id, for protocols without a field for it.
pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// The number of characters of an id that are logged.
const LOGGED: usize = 256;

/// The id from a message: its handler puts it into the extensions of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrelationId(String);

impl CorrelationId {
    /// Takes the logged part of an id.
    pub(crate) fn from_truncated_id(id: &str) -> Self {
        Self(id.chars().take(LOGGED).collect())
    }
}

/// Returns the id from the header of a request.
pub(crate) fn read_correlation_id(headers: &HeaderMap) -> Option<CorrelationId> {
    let id = headers.get(CORRELATION)?.to_str().ok()?;
    (!id.is_empty()).then(|| CorrelationId::from_truncated_id(id))
}

/// Returns the id to log: the one of the message has precedence.
pub(crate) fn select_logged_id(response: &Response, asked: Option<CorrelationId>) -> Option<String> {
    response.extensions().get::<CorrelationId>().cloned().or(asked).map(|id| id.0)
}
