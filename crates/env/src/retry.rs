//! The retry record that nodes and calls to models share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::boxed::{BoxError, BoxFuture};

/// The categories of errors that may go away without a change (llm-provider §7).
pub const TRANSIENT_CATEGORIES: [&str; 3] =
    ["provider_unavailable", "provider_rate_limit", "provider_model_not_loaded"];

/// An error that a [`Retry`] can classify: of a node or of a call to a model.
pub trait RetryableError: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// Returns the category of the error, if it has one.
    fn category(&self) -> Option<&str>;

    /// Tells whether the error may go away without a change: the default classifier.
    fn is_transient(&self) -> bool;

    /// Returns the wait that the failed party asked for, if it did.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

impl dyn RetryableError {
    /// Returns the error as its own type, if it is of that type.
    #[must_use]
    pub fn downcast_ref<E: RetryableError>(&self) -> Option<&E> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The wait before another attempt, by the number of the attempt that failed, from 0.
#[derive(Clone)]
pub enum RetryBackoff {
    /// A random wait from nothing up to a limit that doubles with each attempt: 1 s up to 30 s by default. Callers that
    /// failed together come back apart. When the failed party asks for a longer wait it gets it, up to a limit of its
    /// own, 60 s by default: an earlier attempt would only be refused again.
    Jittered {
        /// The limit after the first attempt.
        base: Duration,
        /// The highest limit.
        cap: Duration,
        /// The longest wait that is granted on request ([`RetryableError::retry_after`]).
        asked_max: Duration,
    },
    /// Always the same wait.
    Constant(Duration),
    /// A function of the number of the attempt that failed.
    By(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl RetryBackoff {
    /// Makes a backoff with jitter that grants requested waits of up to a minute.
    #[must_use]
    pub const fn with_jitter(base: Duration, cap: Duration) -> Self {
        Self::Jittered { base, cap, asked_max: Duration::from_secs(60) }
    }

    /// Makes a backoff from a function of the number of the attempt that failed, from 0.
    pub fn from_function(wait: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self::By(Arc::new(wait))
    }

    /// Returns the wait after a failed attempt. `fraction` draws from 0 up to 1 where there is jitter.
    #[must_use]
    pub fn wait_after_attempt(
        &self,
        attempt: u32,
        error: &dyn RetryableError,
        fraction: impl FnOnce() -> f64,
    ) -> Duration {
        match self {
            Self::Jittered { base, cap, asked_max } => {
                let doubled = 2_u32.checked_pow(attempt).and_then(|factor| base.checked_mul(factor));
                // A source of randomness that is out of range must not panic here.
                let fraction = fraction().clamp(0.0, 1.0);
                let jittered = doubled.unwrap_or(*cap).min(*cap).mul_f64(fraction);
                jittered.max(error.retry_after().unwrap_or_default().min(*asked_max))
            }
            Self::Constant(wait) => *wait,
            Self::By(wait) => wait(attempt),
        }
    }
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self::with_jitter(Duration::from_secs(1), Duration::from_secs(30))
    }
}

impl fmt::Debug for RetryBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jittered { base, cap, asked_max } => {
                write!(f, "Jittered({base:?}..{cap:?}, asked {asked_max:?})")
            }
            Self::Constant(wait) => write!(f, "Constant({wait:?})"),
            Self::By(_) => f.write_str("By(..)"),
        }
    }
}

type Classifier = Arc<dyn Fn(&dyn RetryableError, &dyn Any) -> bool + Send + Sync>;
type OnRetry =
    Arc<dyn for<'a> Fn(&'a dyn RetryableError, u32) -> BoxFuture<'a, Result<(), BoxError>> + Send + Sync>;

/// How often, and after which waits, an attempt that failed is repeated (pipeline-utilities §6.1).
///
/// The same record serves as middleware around a node, an instance or a branch, and as the retry of one call to a model
/// (llm-provider §7.1). Both levels can be used at once: each attempt of a node begins with a new budget of calls.
#[derive(Clone)]
pub struct Retry {
    max_attempts: u32,
    classifier: Classifier,
    backoff: RetryBackoff,
    on_retry: Option<OnRetry>,
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

impl Retry {
    /// Makes a retry of three attempts in all, for transient errors ([`RetryableError::is_transient`]), with the default
    /// backoff.
    #[must_use]
    pub fn new() -> Self {
        let classifier: Classifier = Arc::new(|error, _| error.is_transient());
        Self { max_attempts: 3, classifier, backoff: RetryBackoff::default(), on_retry: None }
    }

    /// Sets the number of attempts in all. 1 never repeats; 0 is refused when the record is used.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets which failures are retried: a function of the error and of the state that the failed attempt began with.
    /// Around a node the state is the engine's snapshot; at a call to a model there is no graph, and the state is `()`.
    #[must_use]
    pub fn classifier(
        mut self,
        retryable: impl Fn(&dyn RetryableError, &dyn Any) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.classifier = Arc::new(retryable);
        self
    }

    /// Sets the waits.
    #[must_use]
    pub fn backoff(mut self, backoff: RetryBackoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets a callback that runs before each wait, with the error and the number of the attempt that failed, from 0. Its
    /// own error ends the attempts.
    #[must_use]
    pub fn on_retry<F>(mut self, callback: F) -> Self
    where
        F: for<'a> Fn(&'a dyn RetryableError, u32) -> BoxFuture<'a, Result<(), BoxError>>
            + Send
            + Sync
            + 'static,
    {
        self.on_retry = Some(Arc::new(callback));
        self
    }

    /// Returns the number of attempts in all.
    #[must_use]
    pub fn attempt_limit(&self) -> u32 {
        self.max_attempts
    }

    /// Tells whether an error is retried, given the state that the failed attempt began with.
    #[must_use]
    pub fn is_retryable(&self, error: &dyn RetryableError, state: &dyn Any) -> bool {
        (self.classifier)(error, state)
    }

    /// Returns the waits.
    #[must_use]
    pub fn retry_backoff(&self) -> &RetryBackoff {
        &self.backoff
    }

    /// Runs the callback of [`Retry::on_retry`], if there is one.
    ///
    /// # Errors
    /// The callback's error, which ends the attempts.
    pub async fn notify_on_retry(&self, error: &dyn RetryableError, attempt: u32) -> Result<(), BoxError> {
        match &self.on_retry {
            Some(callback) => callback(error, attempt).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
