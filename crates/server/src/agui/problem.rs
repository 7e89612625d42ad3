//! Problems in the form of AG-UI: the event for a failed run, as the whole response.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use singletree_protocol::agui::Event;

use super::ours;
use crate::problem::Problem;
use crate::section::Asked;
use crate::sse::Frame;

/// Renders a problem. Clients show the body as it is.
pub(super) fn render(problem: &Problem, asked: &Asked) -> Response {
    Json(event(problem, asked)).into_response()
}

/// Returns the last frame of a stream that ends before its run.
pub(super) fn stream_failure(problem: &Problem, asked: &Asked) -> Vec<Frame> {
    vec![Frame::data(serde_json::to_string(&event(problem, asked)).expect("an event is JSON"))]
}

fn event(problem: &Problem, asked: &Asked) -> Event {
    let metadata = ours(json!({
        "bucket": problem.bucket.as_str(),
        "hint": problem.hint,
        "field": problem.field,
        "request_id": asked.request_id,
    }));
    let (message, code) = (problem.shown().to_owned(), problem.category.clone());
    Event::RunError { message, code, metadata }
}
