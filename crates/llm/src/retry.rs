//! Which failed calls are made again, and how the next one differs.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use singletree_env::{BoxFuture, Retry, RetryBackoff, RetryableError};

use crate::config::RuntimeConfig;
use crate::error::{Error, InvalidOutput};

type Reask = Arc<dyn Fn(&InvalidOutput) -> String + Send + Sync>;

/// How one call to a model is tried again (spec: llm-provider §7.1). [`ProviderCall`](crate::ProviderCall) performs it.
///
/// Errors are retried, and responses that finished with `error` and have no calls: the classifier is asked about those
/// as `provider_unavailable`. Cancellation is the drop of the call's future, so it is never retried. A node's own retry
/// is around this one: each of its attempts begins with a fresh budget, and the two budgets multiply.
///
/// It is the record that nodes use ([`Retry`]) and two fields that only calls have. `From` makes a policy of such a
/// record: its classifier is called with the [`Error`] and the state `()`, because there is no graph at this level. If
/// its callback fails, the attempts end, and the call fails with the error that the callback was called with.
#[derive(Clone)]
pub struct ModelRetryPolicy {
    record: Retry,
    overrides: Arc<[RuntimeConfig]>,
    reask: Option<Reask>,
}

/// Why an attempt is made although one was made before it: how that one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryReason {
    /// It failed for a reason that may go away.
    Transient,
    /// Its output did not fit, and the model is told so.
    Reask,
}

impl RetryReason {
    /// Returns the reason as telemetry writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Reask => "reask",
        }
    }
}

impl Default for ModelRetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Retry> for ModelRetryPolicy {
    fn from(record: Retry) -> Self {
        Self { record, overrides: Arc::new([]), reask: None }
    }
}

impl RetryableError for Error {
    fn category(&self) -> Option<&str> {
        Some(Self::category(self))
    }

    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        Self::retry_after(self)
    }
}

impl ModelRetryPolicy {
    /// Makes a retry of three attempts in all, for errors that are [`Error::is_transient`], with the default backoff.
    #[must_use]
    pub fn new() -> Self {
        Self::from(Retry::new())
    }

    /// Sets how many attempts there are in all; 1 never tries again. 0 is refused when something is asked:
    /// `provider_invalid_request`.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.record = self.record.max_attempts(attempts);
        self
    }

    /// Sets which errors are retried. The specification's `state` does not exist at this level: there is no graph
    /// here.
    #[must_use]
    pub fn classifier(mut self, retryable: impl Fn(&Error) -> bool + Send + Sync + 'static) -> Self {
        self.record =
            self.record.classifier(move |error, _| error.downcast_ref::<Error>().is_some_and(&retryable));
        self
    }

    /// Sets how long to wait.
    #[must_use]
    pub fn backoff(mut self, backoff: RetryBackoff) -> Self {
        self.record = self.record.backoff(backoff);
        self
    }

    /// Sets the function that is called before each wait, with the error and the number of the attempt that failed,
    /// from 0. It may only observe; a break ends the attempts, and the call fails with that error.
    #[must_use]
    pub fn on_retry<F>(mut self, hear: F) -> Self
    where
        F: for<'a> Fn(&'a Error, u32) -> BoxFuture<'a, ControlFlow<()>> + Send + Sync + 'static,
    {
        self.record = self.record.on_retry(move |error, attempt| {
            let heard = error.downcast_ref::<Error>().map(|error| hear(error, attempt));
            async move {
                let is_over = match heard {
                    Some(heard) => heard.await.is_break(),
                    None => false,
                };
                if is_over { Err("the callback ended the attempts".into()) } else { Ok(()) }
            }
            .boxed()
        });
        self
    }

    /// Sets how retries sample: the first retry by the first entry, and so on; the last one carries forward. An entry
    /// is merged onto the request's configuration ([`RuntimeConfig::overridden_by`]); the first attempt has none.
    #[must_use]
    pub fn per_attempt_override(mut self, schedule: impl Into<Arc<[RuntimeConfig]>>) -> Self {
        self.overrides = schedule.into();
        self
    }

    /// Asks again after `structured_output_invalid`, within the same number of attempts: the next request also has
    /// the model's own output, verbatim, and the text that `correction` returns as the user's answer. These pairs
    /// stay for the rest of the call; the caller's messages are not changed.
    ///
    /// `correction` is called only when another attempt is left. Nothing is added to its text. An output without text
    /// and an empty correction cannot be messages: they end the attempts.
    #[must_use]
    pub fn reask(mut self, correction: impl Fn(&InvalidOutput) -> String + Send + Sync + 'static) -> Self {
        self.reask = Some(Arc::new(correction));
        self
    }

    pub(crate) fn attempt_limit(&self) -> u32 {
        self.record.attempt_limit()
    }

    /// Returns how an attempt differs from the caller's configuration.
    pub(crate) fn override_for_attempt(&self, attempt: u32) -> Option<&RuntimeConfig> {
        let retry = usize::try_from(attempt.checked_sub(1)?).unwrap_or(usize::MAX);
        self.overrides.get(retry).or(self.overrides.last())
    }

    /// Returns why an error deserves another attempt, if it does, and the messages to add to the conversation.
    pub(crate) fn decide_retry(&self, error: &Error) -> Option<(RetryReason, Option<(String, String)>)> {
        if let (Some(reask), Error::StructuredOutputInvalid(invalid)) = (&self.reask, error) {
            if invalid.output_content.is_empty() {
                return None;
            }
            let correction = reask(invalid);
            let pair = (invalid.output_content.clone(), correction);
            return (!pair.1.is_empty()).then_some((RetryReason::Reask, Some(pair)));
        }
        self.record.is_retryable(error, &()).then_some((RetryReason::Transient, None))
    }

    pub(crate) fn retry_backoff(&self) -> &RetryBackoff {
        self.record.retry_backoff()
    }

    pub(crate) async fn notify_on_retry(&self, error: &Error, attempt: u32) -> ControlFlow<()> {
        match self.record.notify_on_retry(error, attempt).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl fmt::Debug for ModelRetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRetryPolicy")
            .field("record", &self.record)
            .field("overrides", &self.overrides.len())
            .field("reasks", &self.reask.is_some())
            .finish_non_exhaustive()
    }
}
