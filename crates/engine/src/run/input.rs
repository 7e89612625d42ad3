//! Time, waiting, identifiers and chance are inputs (INV-11).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use singletree_durable::{BoxFuture, Timestamp};
use uuid::Uuid;

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the present time.
    fn now(&self) -> Timestamp;
}

/// Makes identifiers.
pub trait IdGenerator: fmt::Debug + Send + Sync {
    /// Returns a fresh UUID of version 4, in its usual text form.
    fn uuid(&self) -> String;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one clock that reads the system's")]
        let now = std::time::SystemTime::now();
        Timestamp::from(now)
    }
}

/// Identifiers from the operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdGenerator for RandomIds {
    fn uuid(&self) -> String {
        Uuid::new_v4().to_string()
    }
}

/// Waits; used by retries between attempts.
pub trait Timer: fmt::Debug + Send + Sync {
    /// Returns when this much time has passed.
    ///
    /// # Cancellation
    /// Dropping the future ends the wait.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// Makes random numbers; used by retries for jitter.
pub trait RandomSource: fmt::Debug + Send + Sync {
    /// Returns the next number, all 64 bits of it random.
    fn next(&self) -> u64;

    /// Returns a number from 0 up to, but not including, 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a fraction holds")]
    fn fraction(&self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Time that only runs forward, from an origin of its own: for measuring spans, never for dates.
pub trait MonotonicClock: fmt::Debug + Send + Sync {
    /// Returns how long the origin is ago.
    fn elapsed(&self) -> Duration;
}

/// The timer of the tokio runtime; it follows a paused clock in tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// The monotonic clock of the operating system; it follows the tokio runtime's paused clock in tests.
#[derive(Debug, Clone, Copy)]
pub struct SystemMonotonicClock {
    origin: tokio::time::Instant,
}

impl Default for SystemMonotonicClock {
    fn default() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl MonotonicClock for SystemMonotonicClock {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Chance from the operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandomSource;

impl RandomSource for SystemRandomSource {
    fn next(&self) -> u64 {
        // An identifier of version 4 has 122 random bits; its two halves have their fixed ones at different places.
        let (high, low) = Uuid::new_v4().as_u64_pair();
        high ^ low.rotate_left(32)
    }
}

/// Chance that is the same for the same seed (SplitMix64).
#[derive(Debug, Default)]
pub struct SeededRandomSource(AtomicU64);

impl SeededRandomSource {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl RandomSource for SeededRandomSource {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
