//! The reason why a run failed.

use serde_json::json;
use singletree_harness::{ErroredTurn, FailureBucket};
use singletree_http::Redactor;
use singletree_protocol::agui::Event;

use super::wrap_own_metadata;
use crate::problem::RequestProblem;

/// The reason why a run failed.
#[derive(Debug)]
pub(super) struct AguiRunFailure {
    message: String,
    category: String,
    bucket: FailureBucket,
    retry_safe: bool,
}

impl AguiRunFailure {
    /// No wait fits the answer.
    pub(super) fn unknown_interrupt(why: &str) -> Self {
        Self::user_correctable("harness_signal_correlation_failed", why.to_owned())
    }

    /// The payload of the answer is not an object.
    pub(super) fn payload_not_object() -> Self {
        Self::user_correctable(
            "suspension_resume_payload_invalid",
            "the payload has to be an object".to_owned(),
        )
    }

    /// A message has failed too often to be sent again under its id.
    pub(super) fn too_many_attempts(attempts: u32) -> Self {
        let why = format!("this message has failed {attempts} times; send it under another id");
        Self::user_correctable("chat_idempotency_conflict", why)
    }

    fn user_correctable(category: &str, message: String) -> Self {
        let (category, bucket) = (category.to_owned(), FailureBucket::UserCorrectable);
        Self { message, category, bucket, retry_safe: false }
    }

    /// Returns the event that reports the failure, without secrets (INV-16).
    pub(super) fn into_run_error_event(self, redactor: &Redactor, turn: Option<String>) -> Event {
        let metadata = wrap_own_metadata(json!({
            "bucket": self.bucket.as_str(),
            "retry_safe": self.retry_safe,
            "turn": turn,
        }));
        let message = redactor.redact(&self.message).into_owned();
        Event::RunError { message, code: self.category, metadata }
    }
}

impl From<&ErroredTurn> for AguiRunFailure {
    fn from(turn: &ErroredTurn) -> Self {
        Self {
            message: turn.reply.text().into_owned(),
            category: turn.error_category.clone(),
            bucket: turn.error_bucket,
            retry_safe: turn.retry_safe,
        }
    }
}

impl From<singletree_harness::Error> for AguiRunFailure {
    fn from(error: singletree_harness::Error) -> Self {
        match error {
            singletree_harness::Error::Refused(turn) => turn.as_ref().into(),
            other => RequestProblem::from_chat_error(&other).into(),
        }
    }
}

impl From<RequestProblem> for AguiRunFailure {
    fn from(problem: RequestProblem) -> Self {
        let RequestProblem { message, category, bucket, .. } = problem;
        Self { message, category, bucket, retry_safe: false }
    }
}
