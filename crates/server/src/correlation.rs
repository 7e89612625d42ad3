//! The client's name of the exchange of which a request is a part: it is logged with the request.

use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;

/// The header that carries it where the protocol has no field for it.
pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// Characters of an id that are logged.
const LOGGED: usize = 256;

/// The id that a message carried: its handler leaves it with the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrelationId(String);

impl CorrelationId {
    /// Takes as much of an id as is logged.
    pub(crate) fn cut(id: &str) -> Self {
        Self(id.chars().take(LOGGED).collect())
    }
}

/// Returns the id of the header of a request.
pub(crate) fn of_request(headers: &HeaderMap) -> Option<CorrelationId> {
    let id = headers.get(CORRELATION)?.to_str().ok()?;
    (!id.is_empty()).then(|| CorrelationId::cut(id))
}

/// Returns the id that is logged: that of the message wins.
pub(crate) fn logged(response: &Response, asked: Option<CorrelationId>) -> Option<String> {
    response.extensions().get::<CorrelationId>().cloned().or(asked).map(|id| id.0)
}
