//! Problems in AG-UI's words: the event that tells of a failed run, as the whole answer.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use singletree_protocol::agui::Event;

use super::ours;
use crate::problem::Problem;
use crate::section::Asked;

/// Words a problem. Clients show the body as it is.
pub(super) fn render(problem: &Problem, asked: &Asked) -> Response {
    let metadata = ours(json!({
        "bucket": problem.bucket.as_str(),
        "hint": problem.hint,
        "field": problem.field,
        "request_id": asked.request_id,
    }));
    let (message, code) = (problem.message.clone(), problem.category.clone());
    Json(Event::RunError { message, code, metadata }).into_response()
}
