//! Problems in the error format of the native API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use singletree_protocol::native::{ApiError, ErrorBody, StreamFailed, StreamFailedType};

use super::convert::convert_bucket;
use crate::problem::RequestProblem;
use crate::section::RequestContext;
use crate::sse::ServerSentEvent;

/// Converts a problem to a response.
pub(crate) fn render_problem(problem: &RequestProblem, asked: &RequestContext) -> Response {
    Json(ErrorBody { error: convert_problem(problem, asked) }).into_response()
}

/// Returns the last frame of a stream that ends with a problem.
pub(crate) fn render_stream_failure(
    problem: &RequestProblem,
    asked: &RequestContext,
) -> Vec<ServerSentEvent> {
    let failed = StreamFailed { kind: StreamFailedType::Failed, error: convert_problem(problem, asked) };
    vec![ServerSentEvent::from_data(serde_json::to_string(&failed).expect("an error of strings is JSON"))]
}

/// Converts a problem to its JSON form.
pub(super) fn convert_problem(problem: &RequestProblem, asked: &RequestContext) -> ApiError {
    let (turn, oldest_event) =
        (problem.named_turn().map(str::to_owned), problem.oldest_event().map(str::to_owned));
    let problem = problem.clone();
    ApiError {
        category: problem.category,
        bucket: convert_bucket(problem.bucket),
        message: problem.message,
        reply: problem.reply.map(String::from),
        hint: problem.hint.map(String::from),
        field: problem.field.map(String::from),
        request_id: asked.request_id.clone(),
        retry_after: problem.retry_after.map(u64::from),
        turn,
        oldest_event,
    }
}
