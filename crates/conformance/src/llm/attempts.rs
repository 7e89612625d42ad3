//! The attempts of a call as the runner sees them, at the place where telemetry would hook in.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use singletree::llm::{
    AttemptObserver, BoxFuture, ChatMessage, Error, ProviderCallAttempt, Request, Response, RetryReason,
    Timer,
};

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct RecordedAttempt {
    /// Why it was made; nothing for the first.
    pub(super) reason: Option<RetryReason>,
    /// The request.
    pub(super) request: Request,
    /// How it ended: its finish reason, or its error's category and message.
    pub(super) ended: Option<Result<&'static str, FailedAttempt>>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    /// The category.
    pub(super) category: &'static str,
    /// The error's message.
    pub(super) told: String,
    /// The model's output, where it did not match the schema.
    pub(super) output: Option<String>,
    /// Whether it may go away.
    pub(super) is_transient: bool,
}

impl FailedAttempt {
    pub(super) fn from_error(error: &Error) -> Self {
        let output = match error {
            Error::StructuredOutputInvalid(invalid) => Some(invalid.output_content.clone()),
            _ => None,
        };
        let (category, told) = (error.category(), error.to_string());
        Self { category, told, output, is_transient: error.is_transient() }
    }
}

impl RecordedAttempt {
    /// Returns the messages of the attempt that follow the caller's own messages.
    pub(super) fn appended_messages(&self, own: usize) -> Vec<&ChatMessage> {
        self.request.messages.iter().skip(own).map(AsRef::as_ref).collect()
    }

    /// Returns the category that it failed with, if it did.
    pub(super) fn failure_category(&self) -> Option<&'static str> {
        match &self.ended {
            Some(Err(failed)) => Some(failed.category),
            Some(Ok(_)) | None => None,
        }
    }
}

/// Keeps the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct AttemptRecorder(Mutex<Vec<RecordedAttempt>>);

impl AttemptRecorder {
    pub(super) fn into_attempts(self) -> Vec<RecordedAttempt> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptObserver for AttemptRecorder {
    fn on_attempt_started(&self, attempt: &ProviderCallAttempt<'_>) {
        let tried = RecordedAttempt { reason: attempt.reason, request: attempt.request.clone(), ended: None };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tried);
    }

    fn on_attempt_ended(&self, _attempt: &ProviderCallAttempt<'_>, outcome: Result<&Response, &Error>) {
        let ended = outcome.map(|outcome| outcome.finish_reason.as_str()).map_err(FailedAttempt::from_error);
        if let Some(last) = self.0.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            last.ended = Some(ended);
        }
    }
}

/// Lets the runtime's time pass, which stands still while anything can run, and counts the pauses.
#[derive(Debug, Default)]
pub(super) struct PauseRecorder(Mutex<Vec<Duration>>);

impl PauseRecorder {
    pub(super) fn into_pauses(self) -> Vec<Duration> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for PauseRecorder {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(length);
        Box::pin(tokio::time::sleep(length))
    }
}
