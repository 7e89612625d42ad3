//! How often, and after which pauses, a request is sent again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singletree_http::BoxFuture;

/// The longest pause that is made.
const LONGEST: Duration = Duration::from_secs(30);

/// Sends failed requests again, with longer and longer pauses. A repeated request has the same id, so that the engine
/// handles it once.
#[derive(Clone)]
pub struct EngineRetry {
    attempts: u32,
    first: Duration,
    pause: Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl EngineRetry {
    /// Asks up to so many times in all; `pause` lets time pass (INV-11).
    #[must_use]
    pub fn new(
        attempts: u32,
        first: Duration,
        pause: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { attempts, first, pause: Arc::new(pause) }
    }

    /// Asks once.
    #[must_use]
    pub fn never() -> Self {
        Self::new(1, Duration::ZERO, |_| Box::pin(std::future::ready(())))
    }

    /// Pauses before the next attempt, if there is one after so many.
    pub(crate) async fn pause_before_retry(&self, made: u32) -> bool {
        if made >= self.attempts {
            return false;
        }
        let doubled = 2_u32.saturating_pow(made.saturating_sub(1));
        (self.pause)(self.first.saturating_mul(doubled).min(LONGEST)).await;
        true
    }
}

impl fmt::Debug for EngineRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRetry")
            .field("attempts", &self.attempts)
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
