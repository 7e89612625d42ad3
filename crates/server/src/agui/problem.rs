//! Problems in the form of AG-UI: the event for a failed run, as the whole response.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use singletree_protocol::agui::Event;

use super::ours;
use crate::problem::RequestProblem;
use crate::section::RequestContext;
use crate::sse::ServerSentEvent;

/// Renders a problem. Clients show the body as it is.
pub(super) fn render(problem: &RequestProblem, asked: &RequestContext) -> Response {
    Json(event(problem, asked)).into_response()
}

/// Returns the last frame of a stream that ends before its run.
pub(super) fn stream_failure(problem: &RequestProblem, asked: &RequestContext) -> Vec<ServerSentEvent> {
    vec![ServerSentEvent::data(serde_json::to_string(&event(problem, asked)).expect("an event is JSON"))]
}

fn event(problem: &RequestProblem, asked: &RequestContext) -> Event {
    let metadata = ours(json!({
        "bucket": problem.bucket.as_str(),
        "hint": problem.hint,
        "field": problem.field,
        "request_id": asked.request_id,
    }));
    let (message, code) = (problem.shown().to_owned(), problem.category.clone());
    Event::RunError { message, code, metadata }
}
