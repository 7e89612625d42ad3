//! The environment of the operating system and of tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::unconstrained;
use uuid::Uuid;

use crate::boxed::BoxFuture;
use crate::clock::{Clock, MonotonicClock};
use crate::id::IdGenerator;
use crate::random::RandomSource;
use crate::spawner::Spawner;
use crate::timer::Timer;
use crate::timestamp::Timestamp;

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "every other crate reads this clock")]
        let now = std::time::SystemTime::now();
        Timestamp::from(now)
    }
}

/// The monotonic clock of the operating system. It counts the time in which the machine slept, where the system tells it
/// (Linux): a lease goes on meanwhile. In tests it follows the paused clock of the tokio runtime.
#[derive(Debug, Clone)]
pub struct SystemMonotonicClock {
    origin: tokio::time::Instant,
    asleep: Arc<SleepingTime>,
}

impl Default for SystemMonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "every other crate reads this clock")]
    fn default() -> Self {
        let asleep = SleepingTime { before: read_sleeping_time(), counted: AtomicU64::new(0) };
        Self { origin: tokio::time::Instant::now(), asleep: Arc::new(asleep) }
    }
}

impl MonotonicClock for SystemMonotonicClock {
    fn elapsed_since_origin(&self) -> Duration {
        self.origin.elapsed() + self.asleep.count_until_now(read_sleeping_time())
    }
}

/// How long the machine slept since a clock was made.
#[derive(Debug)]
struct SleepingTime {
    /// How long it had slept before.
    before: Duration,
    /// The time that was counted so far, in nanoseconds. It only grows.
    counted: AtomicU64,
}

impl SleepingTime {
    /// The two clocks of the system are read one after the other: their difference changes by less than this while the
    /// machine is awake.
    const NOISE: Duration = Duration::from_millis(10);

    fn count_until_now(&self, slept: Duration) -> Duration {
        let slept = slept.saturating_sub(self.before);
        let counted = Duration::from_nanos(self.counted.load(Ordering::Relaxed));
        if slept <= counted + Self::NOISE {
            return counted;
        }
        let nanos = u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.counted.fetch_max(nanos, Ordering::Relaxed).max(nanos))
    }
}

/// Returns how long the machine has slept since it was started.
#[cfg(target_os = "linux")]
fn read_sleeping_time() -> Duration {
    use rustix::time::{ClockId, Timespec, clock_gettime};
    let span = |time: Timespec| Duration::try_from(time).unwrap_or_default();
    // In this order: a process that is stopped between the two sees too little, which is made up for later.
    let all = span(clock_gettime(ClockId::Boottime));
    all.saturating_sub(span(clock_gettime(ClockId::Monotonic)))
}

#[cfg(not(target_os = "linux"))]
fn read_sleeping_time() -> Duration {
    Duration::ZERO
}

/// The timer of the tokio runtime. In tests it follows the runtime's paused clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()> {
        // Without tokio's budget: a future that uses up the budget at each poll must not keep its timeout from ending.
        Box::pin(unconstrained(tokio::time::sleep(span)))
    }
}

/// Identifiers from the operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdGenerator for RandomIds {
    fn generate_uuid(&self) -> String {
        Uuid::new_v4().to_string()
    }
}

/// The random numbers of the operating system, which nobody can predict.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandomSource;

impl RandomSource for SystemRandomSource {
    /// # Panics
    /// When the operating system has no random numbers: then no secret could be made.
    fn fill_bytes(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has random numbers");
    }
}

/// Runs tasks on the tokio runtime of the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioSpawner;

impl Spawner for TokioSpawner {
    /// # Panics
    /// Outside of a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "every other crate starts tasks through this one")]
    fn spawn_task(&self, task: BoxFuture<'static, ()>) {
        drop(tokio::spawn(task));
    }
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::sync::Arc;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn the_time_asleep_is_counted_once_and_never_falls() {
        let seconds = Duration::from_secs;
        let asleep = SleepingTime { before: seconds(5), counted: AtomicU64::new(0) };
        assert_eq!(asleep.count_until_now(seconds(5)), Duration::ZERO);
        // The clocks are read one after the other.
        assert_eq!(asleep.count_until_now(seconds(5) + Duration::from_micros(3)), Duration::ZERO);
        assert_eq!(asleep.count_until_now(seconds(65)), seconds(60));
        assert_eq!(asleep.count_until_now(seconds(65) - Duration::from_micros(3)), seconds(60));
        assert_eq!(asleep.count_until_now(seconds(66)), seconds(61));
        assert_eq!(asleep.count_until_now(Duration::ZERO), seconds(61));
    }
    use crate::Env;

    #[tokio::test(start_paused = true)]
    async fn a_timeout_ends_also_beside_a_future_that_is_always_busy() {
        let env = Env::from_system();
        let begin = env.monotonic.elapsed_since_origin();
        let span = Duration::from_secs(3);
        let busy = async {
            for _ in 0..100_000 {
                tokio::task::consume_budget().await;
            }
        };
        env.spawner.spawn_task(Box::pin(tokio::time::advance(span)));
        assert!(env.timer.run_with_timeout(span, busy).await.is_err());
        assert!(env.monotonic.elapsed_since_origin() - begin >= span);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_counts_from_the_first_wait() {
        let env = Env::from_system();
        let begin = env.monotonic.elapsed_since_origin();
        let late = env.timer.run_with_timeout(Duration::from_secs(3), future::pending::<()>()).await;
        assert!(late.is_err());
        assert_eq!((env.monotonic.elapsed_since_origin() - begin).as_secs(), 3);
        assert_eq!(env.timer.run_with_timeout(Duration::ZERO, async { 1 }).await, Ok(1));
    }

    /// Reports when it is dropped.
    struct DropReport(Option<oneshot::Sender<()>>);

    impl Drop for DropReport {
        fn drop(&mut self) {
            if let Some(report) = self.0.take() {
                report.send(()).expect("the test waits for the report");
            }
        }
    }

    #[tokio::test]
    async fn an_aborted_task_is_dropped_and_others_go_on() {
        let env = Env::from_system();
        let (report, dropped) = oneshot::channel();
        let held = DropReport(Some(report));
        let handle = env.spawner.spawn_abortable(async move {
            future::pending::<()>().await;
            drop(held);
        });
        let (done, ended) = oneshot::channel();
        drop(env.spawner.spawn_abortable(async move { done.send(7).expect("the test waits") }));
        assert_eq!(ended.await, Ok(7), "a dropped handle does not stop its task");
        assert!(!handle.is_task_finished());
        handle.abort_task();
        assert_eq!(dropped.await, Ok(()));
        tokio::task::yield_now().await;
        assert!(handle.is_task_finished());
    }

    #[test]
    fn the_system_is_random_and_its_clock_is_past_2020() {
        let env = Env::from_system();
        assert_ne!(env.rng.draw_u64(), env.rng.draw_u64());
        assert_ne!(env.ids.generate_uuid(), env.ids.generate_uuid());
        assert!(env.clock.now() > Timestamp::from_millis(1_577_836_800_000));
        let other = Env { clock: Arc::new(SystemClock), ..env };
        assert!(!other.faults.is_fault_due("any"));
    }
}
