//! The environment of a simulated process: each of its parts follows from the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use singletree_durable::Timestamp;
use singletree_env::{Clock, Env, FaultPoints, IdGenerator, RandomSource};

use crate::executor::{SimulatedSpawner, SimulatedTimer, SimulationExecutor, TaskGroup};
use crate::fault::FaultSwarm;
use crate::random::SimulationRandom;

/// The time of day at the beginning: any moment does.
const BEGINNING: i64 = 1_800_000_000_000;

/// The time of day of a machine: the simulated time, corrected now and then.
#[derive(Debug)]
pub(crate) struct SimulatedClock {
    executor: SimulationExecutor,
    correction: AtomicI64,
}

impl SimulatedClock {
    pub(crate) fn new(executor: SimulationExecutor) -> Arc<Self> {
        Arc::new(Self { executor, correction: AtomicI64::new(0) })
    }

    /// Corrects the clock, as an operating system does.
    pub(crate) fn correct_by(&self, millis: i64) {
        self.correction.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.executor.now().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(BEGINNING + elapsed + self.correction.load(Ordering::Relaxed))
    }
}

/// Identifiers that follow from the seed.
#[derive(Debug)]
pub(crate) struct SimulatedIds(SimulationRandom);

impl IdGenerator for SimulatedIds {
    fn generate_uuid(&self) -> String {
        let (high, low) = (self.0.draw_u64(), self.0.draw_u64());
        let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, (high & 0xfff) | 0x4000);
        let (fourth, last) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{last:012x}")
    }
}

/// Makes the environment of a process.
pub(crate) fn make_environment(
    seed: u64,
    (executor, group): (&SimulationExecutor, TaskGroup),
    clock: &Arc<SimulatedClock>,
    swarm: &Arc<FaultSwarm>,
) -> Env {
    let timer = Arc::new(SimulatedTimer(executor.clone()));
    let stream = |part: &str| SimulationRandom::from_name(seed, &format!("{part} of {group:?}"));
    Env {
        clock: clock.clone(),
        monotonic: timer.clone(),
        timer,
        rng: Arc::new(stream("rng")) as Arc<dyn RandomSource>,
        ids: Arc::new(SimulatedIds(stream("ids"))),
        spawner: Arc::new(SimulatedSpawner { executor: executor.clone(), group }),
        faults: FaultPoints::with_injector(swarm.clone()),
    }
}
