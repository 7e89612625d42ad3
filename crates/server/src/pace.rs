//! Time that passes by itself.

use std::time::Duration;

use singletree_llm::{BoxFuture, Pace};

/// Lets time pass as tokio's timers have it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokioPace;

impl Pace for TokioPace {
    fn pause(&self, length: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}
