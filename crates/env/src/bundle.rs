//! One environment: an implementation of each input.

use std::sync::Arc;

use crate::clock::{Clock, MonotonicClock};
use crate::fault_points::FaultPoints;
use crate::id::IdGenerator;
use crate::random::RandomSource;
use crate::spawner::Spawner;
use crate::timer::Timer;

/// The environment of a program or of a test. A clone shares its parts.
#[derive(Debug, Clone)]
pub struct Env {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Spans of time.
    pub monotonic: Arc<dyn MonotonicClock>,
    /// Waits and timeouts.
    pub timer: Arc<dyn Timer>,
    /// Random numbers.
    pub rng: Arc<dyn RandomSource>,
    /// Identifiers.
    pub ids: Arc<dyn IdGenerator>,
    /// Background tasks.
    pub spawner: Arc<dyn Spawner>,
    /// Injected faults.
    pub faults: FaultPoints,
}

#[cfg(feature = "system")]
impl Env {
    /// Returns the real environment: the operating system's clocks and random numbers, tokio's timers and tasks, and no
    /// faults. Its timer and spawner need a tokio runtime where they are used, not here.
    #[must_use]
    pub fn from_system() -> Self {
        use crate::system::{
            RandomIds, RuntimeTimer, SystemClock, SystemMonotonicClock, SystemRandomSource, TokioSpawner,
        };

        Self {
            clock: Arc::new(SystemClock),
            monotonic: Arc::new(SystemMonotonicClock::default()),
            timer: Arc::new(RuntimeTimer),
            rng: Arc::new(SystemRandomSource),
            ids: Arc::new(RandomIds),
            spawner: Arc::new(TokioSpawner),
            faults: FaultPoints::without_faults(),
        }
    }
}
