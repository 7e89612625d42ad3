//! What is told when a request does not come as far as being a message: every answer is one all the same.

use axum::Json;
use axum::response::{IntoResponse, Response};
use singletree_protocol::openharness::{ResponseMessage, ResponsePayload};

use super::failure;
use crate::problem::Problem;
use crate::section::Asked;

/// Words a problem. It has no id to bring back: the message was not read.
pub(super) fn render(problem: &Problem, asked: &Asked) -> Response {
    let error = failure::of_problem(problem).detail("http_request_id", asked.request_id.as_str());
    Json(ResponseMessage::new(ResponsePayload::error(error))).into_response()
}
