//! Problems in the native API's own words.

use axum::Json;
use axum::response::{IntoResponse, Response};
use singletree_harness::Bucket;
use singletree_protocol::native::{ApiError, ErrorBody, ErrorBucket};

use crate::problem::Problem;
use crate::section::Asked;

/// Words a problem.
pub(super) fn render(problem: &Problem, asked: &Asked) -> Response {
    let problem = problem.clone();
    let error = ApiError {
        category: problem.category,
        bucket: bucket(problem.bucket),
        message: problem.message,
        hint: problem.hint,
        field: problem.field,
        request_id: asked.request_id.clone(),
        retry_after: problem.retry_after,
    };
    Json(ErrorBody { error }).into_response()
}

fn bucket(bucket: Bucket) -> ErrorBucket {
    match bucket {
        Bucket::SessionTerminating => ErrorBucket::SessionTerminating,
        Bucket::RetryableTransient => ErrorBucket::RetryableTransient,
        Bucket::UserCorrectable => ErrorBucket::UserCorrectable,
    }
}
