//! The complete response message, with the request's own ids (spec: OpenHarness §5.2).

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use singletree_protocol::openharness::{ResponseMessage, ResponsePayload};

use super::negotiation::NegotiatedTerms;
use super::opening::ReturnableRequestIds;
use crate::correlation::{CORRELATION, CorrelationId};

/// The maximum length of a correlation id that is mirrored in a header, in bytes.
const LONGEST: usize = 256;

/// Puts an answer into its envelope.
pub(super) fn encode_envelope(
    opening: &ReturnableRequestIds,
    terms: &NegotiatedTerms,
    payload: ResponsePayload,
) -> Vec<u8> {
    let message = ResponseMessage {
        request_id: opening.request_id.clone(),
        correlation_id: opening.correlation_id.clone(),
        supported_capabilities: terms.supported.clone(),
        capability_denials: terms.denials.clone(),
        ..ResponseMessage::new(payload)
    };
    serde_json::to_vec(&message).expect("a message is texts, numbers and maps of them")
}

/// Makes the HTTP response. It mirrors the correlation id in a header: the message's own id, or else the header of
/// the request.
pub(super) fn build_response(
    status: StatusCode,
    body: Vec<u8>,
    opening: &ReturnableRequestIds,
    asked: &HeaderMap,
) -> Response {
    let mut response = (status, Bytes::from(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let said = opening.correlation_id.as_deref().filter(|correlation_id| correlation_id.len() <= LONGEST);
    let mirrored = match &opening.correlation_id {
        Some(_) => said.and_then(|said| HeaderValue::from_str(said).ok()),
        None => asked.get(&CORRELATION).filter(|it| it.len() <= LONGEST).cloned(),
    };
    if let Some(id) = mirrored {
        headers.insert(CORRELATION, id);
    }
    if let Some(id) = &opening.correlation_id {
        response.extensions_mut().insert(CorrelationId::from_truncated_id(id));
    }
    response
}
