//! Time, names and secrets that a test decides (INV-11).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use singletree_durable::Timestamp;
use singletree_engine::{Clock, IdGenerator};
use singletree_env::RandomSource;
use singletree_llm::{BoxFuture, Timer};
use tokio::sync::{Notify, Semaphore};

/// 2026-01-01T00:00:00Z.
const BEGIN: i64 = 1_767_225_600_000;

/// A clock that moves when it is told to.
#[derive(Debug)]
pub(crate) struct HandClock(AtomicI64, Notify);

impl HandClock {
    pub(crate) fn new() -> Arc<Self> {
        Self::at(Timestamp::from_millis(BEGIN))
    }

    pub(crate) fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now.as_millis()), Notify::new()))
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
        self.1.notify_waiters();
    }
}

/// A pace at which time passes as a clock says.
#[derive(Debug)]
pub(crate) struct ClockPace(pub(crate) Arc<HandClock>);

impl Timer for ClockPace {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        let end = self.0.now().saturating_add(length);
        Box::pin(async move {
            loop {
                let moved = self.0.1.notified();
                if self.0.now() >= end {
                    return;
                }
                moved.await;
            }
        })
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Identifiers that count up.
#[derive(Debug, Default)]
pub(crate) struct CountingIds(AtomicU64);

impl IdGenerator for CountingIds {
    fn generate_uuid(&self) -> String {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        format!("00000000-0000-4000-8000-{n:012x}")
    }
}

/// Bytes that nobody is to guess, and that a test can.
#[derive(Debug, Default)]
pub(crate) struct CountingEntropy(AtomicU64);

impl RandomSource for CountingEntropy {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        for (at, byte) in (0_u64..).zip(bytes) {
            *byte = (n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(at as u32) ^ at) as u8;
        }
    }
}

/// A pace at which a model's pauses end one by one, when a test lets them. The words of the script's `slow` rules wait
/// for it.
#[derive(Debug)]
pub(crate) struct HandPace(Semaphore, AtomicU64);

impl HandPace {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0), AtomicU64::new(0)))
    }

    /// Lets so many pauses pass, now or when they come. A model pauses before each word, and before its end.
    pub(crate) fn pass(&self, pauses: usize) {
        self.0.add_permits(pauses);
    }

    /// Tells whether a model pauses right now.
    pub(crate) fn waiting(&self) -> bool {
        self.1.load(Ordering::SeqCst) > 0
    }

    /// Lets all pauses pass, from now on.
    pub(crate) fn run_free(&self) {
        self.0.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

/// Counts as long as it is there.
struct Waits<'a>(&'a AtomicU64);

impl<'a> Waits<'a> {
    fn begin(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Timer for HandPace {
    fn sleep_for(&self, _length: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let _waits = Waits::begin(&self.1);
            self.0.acquire().await.unwrap().forget();
        })
    }
}
