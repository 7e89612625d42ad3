//! How long to wait before another attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// How long to wait before another attempt, by the number of the one that failed, from 0.
///
/// The engine's backoff of nodes has the same three ways; only this one also grants the wait that a provider asks for.
#[derive(Clone)]
pub enum ModelRetryBackoff {
    /// Anything from nothing up to a limit that doubles with each attempt, 1 s up to 30 s by default: callers that
    /// failed together come back apart. A provider that asks for more gets it, up to its own limit, 60 s by default:
    /// a retry before its time would only be refused again.
    Jittered {
        /// The limit after the first attempt.
        base: Duration,
        /// The limit's own limit.
        cap: Duration,
        /// The longest wait that is granted when a provider asks for one ([`Error::retry_after`]).
        asked_max: Duration,
    },
    /// Always the same.
    Constant(Duration),
    /// As a function says.
    By(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl ModelRetryBackoff {
    /// Makes a backoff with jitter that grants a provider up to a minute.
    #[must_use]
    pub fn with_jitter(base: Duration, cap: Duration) -> Self {
        Self::Jittered { base, cap, asked_max: Duration::from_secs(60) }
    }

    /// Makes a backoff of a function of the number of the attempt that failed, from 0.
    pub fn from_function(wait: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self::By(Arc::new(wait))
    }

    /// Returns the wait after a failed attempt; `fraction` draws from 0 up to 1, where there is jitter.
    #[must_use]
    pub fn wait_after_attempt(
        &self,
        attempt: u32,
        error: &Error,
        fraction: impl FnOnce() -> f64,
    ) -> Duration {
        match self {
            Self::Jittered { base, cap, asked_max } => {
                let doubled =
                    2_u32.checked_pow(attempt).and_then(|checked_pow| base.checked_mul(checked_pow));
                // A source of randomness that strays must not panic here.
                let fraction = fraction().clamp(0.0, 1.0);
                let jittered = doubled.unwrap_or(*cap).min(*cap).mul_f64(fraction);
                jittered.max(error.retry_after().unwrap_or_default().min(*asked_max))
            }
            Self::Constant(wait) => *wait,
            Self::By(wait) => wait(attempt),
        }
    }
}

impl Default for ModelRetryBackoff {
    fn default() -> Self {
        Self::with_jitter(Duration::from_secs(1), Duration::from_secs(30))
    }
}

impl fmt::Debug for ModelRetryBackoff {
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
