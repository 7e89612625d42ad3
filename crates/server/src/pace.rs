//! Pauses in real time.

use std::time::Duration;

use singletree_llm::{AsyncSleep, BoxFuture};

/// Pauses by the timers of tokio.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokioPace;

impl AsyncSleep for TokioPace {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}
