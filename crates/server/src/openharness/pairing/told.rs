//! The responses of pairing: the fields of the guide in a response message.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use singletree_protocol::openharness::{ErrorCode, ErrorObject, Malformed, ResponseMessage, ResponsePayload};

use super::CODE_TTL;

/// The reasons why a pairing fails, in the guide's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PairingRefusal {
    /// The body is not a JSON object.
    Json,
    /// A field is missing or invalid.
    Field(Malformed),
    /// The code is unknown or has expired.
    Code,
    /// There were too many requests or wrong codes.
    Attempts,
}

/// Returns a successful response message with these fields.
pub(super) fn success_response(fields: &impl Serialize) -> Response {
    message_with_fields(ResponsePayload::success(Vec::new()), fields).into_response()
}

impl IntoResponse for PairingRefusal {
    fn into_response(self) -> Response {
        let (status, word, error) = match self {
            Self::Json => {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, "the body is not an object of JSON");
                (StatusCode::BAD_REQUEST, "invalid_json", error)
            }
            Self::Field(malformed) => {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, malformed.to_string());
                let error = match malformed.field {
                    Some(field) => error.with_detail("field", field),
                    None => error,
                };
                (StatusCode::BAD_REQUEST, "missing_fields", error)
            }
            Self::Code => {
                let why = "there is no such code, or its time is over";
                (
                    StatusCode::BAD_REQUEST,
                    "invalid_or_expired_code",
                    ErrorObject::new(ErrorCode::InvalidRequest, why),
                )
            }
            Self::Attempts => {
                let why = "too many codes were asked for or tried; wait a few minutes";
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited", ErrorObject::new(ErrorCode::RateLimited, why))
            }
        };
        let told = Map::from_iter([("error".to_owned(), Value::from(word))]);
        let mut response =
            (status, message_with_fields(ResponsePayload::error(error), &told)).into_response();
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, CODE_TTL.as_secs().into());
        }
        response
    }
}

fn message_with_fields(payload: ResponsePayload, fields: &impl Serialize) -> Json<Value> {
    let mut message = serde_json::to_value(ResponseMessage::new(payload)).unwrap_or_default();
    if let (Some(message), Ok(Value::Object(fields))) =
        (message.as_object_mut(), serde_json::to_value(fields))
    {
        message.extend(fields);
    }
    Json(message)
}
