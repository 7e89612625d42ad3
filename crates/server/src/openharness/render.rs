//! Responses to requests that are not valid messages: they are response messages, too.

use axum::Json;
use axum::response::{IntoResponse, Response};
use singletree_protocol::openharness::{ResponseMessage, ResponsePayload};

use super::failure;
use crate::problem::RequestProblem;
use crate::section::RequestContext;

/// Converts a problem to a response. It returns no ids, since the message was not read.
pub(super) fn render_problem(problem: &RequestProblem, asked: &RequestContext) -> Response {
    let error =
        failure::error_from_problem(problem).with_detail("http_request_id", asked.request_id.as_str());
    Json(ResponseMessage::new(ResponsePayload::error(error))).into_response()
}
