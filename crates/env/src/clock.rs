//! Clocks.

use std::fmt;
use std::time::Duration;

use crate::timestamp::Timestamp;

/// Tells the time of day, for everything that is stored or shown.
///
/// It may go backwards between two calls: the operating system's clock is corrected while programs run.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Measures spans of time. It never goes backwards, and its origin has no meaning outside of the process.
pub trait MonotonicClock: fmt::Debug + Send + Sync {
    /// Returns the time since the origin of the clock.
    fn elapsed_since_origin(&self) -> Duration;
}
