//! Problems in the form of AG-UI: the event for a failed run, as the whole response.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use singletree_protocol::agui::Event;

use super::wrap_own_metadata;
use crate::problem::RequestProblem;
use crate::section::RequestContext;
use crate::sse::ServerSentEvent;

/// Renders a problem. Clients show the body as it is.
pub(super) fn render_problem(problem: &RequestProblem, asked: &RequestContext) -> Response {
    Json(run_error_event(problem, asked)).into_response()
}

/// Returns the last frame of a stream that ends before its run.
pub(super) fn render_stream_failure(
    problem: &RequestProblem,
    asked: &RequestContext,
) -> Vec<ServerSentEvent> {
    vec![ServerSentEvent::from_data(
        serde_json::to_string(&run_error_event(problem, asked)).expect("an event is JSON"),
    )]
}

fn run_error_event(problem: &RequestProblem, asked: &RequestContext) -> Event {
    let metadata = wrap_own_metadata(json!({
        "bucket": problem.bucket.as_str(),
        "hint": problem.hint,
        "field": problem.field,
        "request_id": asked.request_id,
    }));
    let (message, code) = (problem.end_user_text().to_owned(), problem.category.clone());
    Event::RunError { message, code, metadata }
}
