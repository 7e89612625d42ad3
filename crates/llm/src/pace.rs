//! Letting time pass.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use singletree_env::BoxFuture;

/// Lets time pass. This crate has no clock; whoever has one hands it in.
pub trait AsyncSleep: fmt::Debug + Send + Sync {
    /// Returns after this long.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the pause and does nothing else.
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()>;
}

/// A pace without pauses.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstantSleep;

impl AsyncSleep for InstantSleep {
    fn sleep_for(&self, _length: Duration) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
