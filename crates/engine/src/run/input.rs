//! Time and identifiers are inputs (INV-11).

use std::fmt;

use singletree_durable::Timestamp;
use uuid::Uuid;

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the present time.
    fn now(&self) -> Timestamp;
}

/// Makes identifiers.
pub trait Ids: fmt::Debug + Send + Sync {
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

impl Ids for RandomIds {
    fn uuid(&self) -> String {
        Uuid::new_v4().to_string()
    }
}
