//! The environment: everything that a run depends on beside its input (INV-11).
//!
//! Time, timers, randomness, identifiers, background tasks and injected faults are traits here. An [`Env`] bundles one
//! implementation of each. [`Env::from_system`] is the real one; a test or a simulation brings its own.
//!
//! This crate performs no I/O and depends on no other crate of the workspace. The implementations over the operating
//! system and tokio are behind the feature `system`, so that crates which must not depend on tokio can use the traits.
//!
//! It also holds names that all crates share ([`BoxFuture`], [`BoxError`]), and the trace that code works in
//! ([`TraceHeaders`]).

mod boxed;
mod bundle;
mod fault_points;
mod id;
mod random;
mod retry;
mod spawner;
mod timer;
mod timestamp;
mod trace_headers;

mod clock;
#[cfg(feature = "system")]
mod system;

pub use boxed::{BoxError, BoxFuture};
pub use bundle::Env;
pub use clock::{Clock, MonotonicClock};
pub use fault_points::{FaultInjector, FaultPoints};
pub use id::IdGenerator;
pub use random::{ConstantRandomSource, RandomSource, SeededRandomSource};
pub use retry::{Retry, RetryBackoff, RetryableError, TRANSIENT_CATEGORIES};
pub use spawner::{AbortHandle, Spawner};
#[cfg(feature = "system")]
pub use system::{
    RandomIds, RuntimeTimer, SystemClock, SystemMonotonicClock, SystemRandomSource, TokioSpawner,
};
pub use timer::{Elapsed, InstantTimer, Timeout, Timer};
pub use timestamp::Timestamp;
pub use trace_headers::{InTrace, TraceHeaders};
