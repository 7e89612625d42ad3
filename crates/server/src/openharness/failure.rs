//! Errors of the protocol: one table from categories to codes (spec: OpenHarness §13).

use axum::http::StatusCode;
use serde_json::Value;
use singletree_durable::Error as StoreError;
use singletree_harness::{ErroredTurn, FailureBucket};
use singletree_protocol::openharness::{ErrorCode, ErrorObject, Malformed};

use crate::forward::{BodyRefusal, is_category_for_now};
use crate::problem::RequestProblem;

/// An answer with an error. The request was a valid message, so the HTTP status is 200, unless the credentials are
/// not sufficient.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EngineErrorResponse {
    pub(super) status: StatusCode,
    pub(super) error: ErrorObject,
}

impl EngineErrorResponse {
    /// Returns the failure for a mistake in a field of the request.
    pub(super) fn invalid_field(field: &str, why: &str) -> Self {
        let error = ErrorObject::new(ErrorCode::InvalidRequest, format!("{field}: {why}"));
        error.with_detail("error_category", "server_request_invalid").with_detail("field", field).into()
    }

    /// Returns a failure with a code.
    pub(super) fn from_code(code: ErrorCode, message: impl Into<String>) -> Self {
        ErrorObject::new(code, message).into()
    }

    /// Returns the failure for a turn that failed or was refused.
    pub(super) fn from_errored_turn(turn: &ErroredTurn) -> Self {
        let code = code_of_category(&turn.error_category, turn.error_bucket);
        let error = ErrorObject::new(code, turn.reply.text())
            .with_detail("error_category", turn.error_category.as_str())
            .with_detail("error_bucket", turn.error_bucket.as_str())
            .with_detail("retry_safe", turn.retry_safe);
        match &turn.turn {
            Some(id) => error.with_detail("turn_id", id.to_string()).into(),
            None => error.into(),
        }
    }
}

impl EngineErrorResponse {
    /// Describes it for the servers that send requests on to each other.
    pub(super) fn as_body_refusal(&self, is_repeatable: bool) -> BodyRefusal {
        let category = self.error.details.as_ref().and_then(|details| details.get("error_category"));
        let is_for_now = category.and_then(Value::as_str).is_some_and(is_category_for_now);
        BodyRefusal { is_for_now, is_repeatable }
    }
}

impl From<ErrorObject> for EngineErrorResponse {
    fn from(error: ErrorObject) -> Self {
        Self { status: StatusCode::OK, error }
    }
}

impl From<Malformed> for EngineErrorResponse {
    fn from(malformed: Malformed) -> Self {
        match malformed.field {
            Some(field) => Self::invalid_field(&field, &malformed.why),
            None => Self::from_code(ErrorCode::InvalidRequest, malformed.why),
        }
    }
}

impl From<RequestProblem> for EngineErrorResponse {
    /// A problem keeps its status, since it concerns the transport.
    fn from(problem: RequestProblem) -> Self {
        Self { status: problem.status, error: error_from_problem(&problem) }
    }
}

impl From<singletree_harness::Error> for EngineErrorResponse {
    fn from(error: singletree_harness::Error) -> Self {
        Self { status: StatusCode::OK, error: error_from_problem(&RequestProblem::from_chat_error(&error)) }
    }
}

impl From<StoreError> for EngineErrorResponse {
    fn from(error: StoreError) -> Self {
        singletree_harness::Error::from(error).into()
    }
}

/// Converts a problem to an error of the protocol.
pub(super) fn error_from_problem(problem: &RequestProblem) -> ErrorObject {
    let code = match problem.status {
        StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
        StatusCode::FORBIDDEN => ErrorCode::Forbidden,
        StatusCode::TOO_MANY_REQUESTS => ErrorCode::RateLimited,
        _ => code_of_category(&problem.category, problem.bucket),
    };
    let error = ErrorObject::new(code, problem.message.as_str())
        .with_detail("error_category", problem.category.as_str())
        .with_detail("error_bucket", problem.bucket.as_str());
    let error = match &problem.hint {
        Some(hint) => error.with_detail("hint", hint.as_ref()),
        None => error,
    };
    match &problem.field {
        Some(field) => error.with_detail("field", field.as_ref()),
        None => error,
    }
}

/// Returns the code of a category: its own code, if it has one, otherwise the code of its bucket.
fn code_of_category(category: &str, bucket: FailureBucket) -> ErrorCode {
    match category {
        "server_failed" => ErrorCode::InternalError,
        "chat_idempotency_conflict" => ErrorCode::IdempotencyConflict,
        "chat_budget_exhausted" | "invocation_limit_exceeded" => ErrorCode::BudgetExhausted,
        "chat_signal_expired" => ErrorCode::ContinuationExpired,
        "chat_signal_conflict" | "chat_signal_mismatch" | "harness_signal_correlation_failed" => {
            ErrorCode::ContinuationInvalid
        }
        "chat_mailbox_full"
        | "chat_queue_full"
        | "chat_sessions_full"
        | "chat_subscriptions_full"
        | "provider_rate_limit"
        | "provider_rate_limited"
        | "server_quota_exceeded" => ErrorCode::RateLimited,
        timeout if timeout.ends_with("_timeout") => ErrorCode::EngineTimeout,
        _ => match bucket {
            FailureBucket::SessionTerminating => ErrorCode::SessionTerminated,
            FailureBucket::RetryableTransient => ErrorCode::EngineUnavailable,
            FailureBucket::UserCorrectable => ErrorCode::InvalidRequest,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: OpenHarness §13
    #[test]
    fn the_code_says_what_is_special_and_else_what_can_be_done() {
        let check = |category: &str, bucket, expected| {
            assert_eq!(code_of_category(category, bucket), expected, "{category}")
        };
        check("provider_unavailable", FailureBucket::RetryableTransient, ErrorCode::EngineUnavailable);
        check("provider_rate_limit", FailureBucket::RetryableTransient, ErrorCode::RateLimited);
        check("server_quota_exceeded", FailureBucket::RetryableTransient, ErrorCode::RateLimited);
        check("provider_timeout", FailureBucket::RetryableTransient, ErrorCode::EngineTimeout);
        check("server_request_timeout", FailureBucket::RetryableTransient, ErrorCode::EngineTimeout);
        check("provider_invalid_request", FailureBucket::UserCorrectable, ErrorCode::InvalidRequest);
        check("chat_budget_exhausted", FailureBucket::UserCorrectable, ErrorCode::BudgetExhausted);
        check("session_load_failed", FailureBucket::SessionTerminating, ErrorCode::SessionTerminated);
        check("node_exception", FailureBucket::RetryableTransient, ErrorCode::EngineUnavailable);
    }
}
