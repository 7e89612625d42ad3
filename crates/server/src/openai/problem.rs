//! Problems in the error format of OpenAI's API.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use singletree_harness::{BucketTable, FailureBucket, HarnessSurface};
use singletree_protocol::openai::{ErrorBody, ErrorDetail};

use crate::problem::RequestProblem;
use crate::section::RequestContext;
use crate::sse::ServerSentEvent;

/// The header that tells OpenAI's SDKs whether to retry; without it they decide by the status alone.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Converts a problem to a response.
pub(super) fn render_problem(problem: &RequestProblem, _asked: &RequestContext) -> Response {
    let retry = HeaderValue::from_static(if is_safe_to_retry(problem) { "true" } else { "false" });
    let mut response = Json(build_error_body(problem)).into_response();
    response.headers_mut().insert(SHOULD_RETRY, retry);
    response
}

/// Returns the last frame of a stream that ends with a problem.
pub(super) fn render_stream_failure(
    problem: &RequestProblem,
    _asked: &RequestContext,
) -> Vec<ServerSentEvent> {
    vec![ServerSentEvent::from_data(
        serde_json::to_string(&build_error_body(problem)).expect("an error of strings is JSON"),
    )]
}

/// Returns the body for a problem.
pub(super) fn build_error_body(problem: &RequestProblem) -> ErrorBody {
    let message = match &problem.hint {
        Some(hint) => format!("{} ({hint})", problem.message),
        None => problem.message.clone(),
    };
    let (param, code) = (problem.field.clone(), Some(problem.category.clone()));
    ErrorBody {
        error: ErrorDetail {
            message,
            kind: error_type_of_status(problem.status).to_owned(),
            param: param.map(String::from),
            code,
        },
    }
}

/// Returns OpenAI's error type for a status.
fn error_type_of_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        it if it.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

/// Checks whether the same request can be sent again without a second effect.
fn is_safe_to_retry(problem: &RequestProblem) -> bool {
    let ours = problem.category.starts_with("server_") && problem.bucket == FailureBucket::RetryableTransient;
    // A turn that is kept goes on when the server is back: sending the request again would begin another one.
    let kept = problem.named_turn().is_some() && problem.category == "chat_shutting_down";
    let known = BucketTable::default().look_up_category(&problem.category, HarnessSurface::Chat).retry_safe;
    (ours || known) && !kept && problem.bucket != FailureBucket::SessionTerminating
}
