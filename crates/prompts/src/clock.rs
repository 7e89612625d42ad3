//! Time is an input (INV-11).

use std::fmt;
use std::time::SystemTime;

/// Tells the time at which prompts are fetched and rendered, and by which cached ones age.
pub trait PromptClock: fmt::Debug + Send + Sync {
    /// Returns the present time.
    fn now(&self) -> SystemTime;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemPromptClock;

impl PromptClock for SystemPromptClock {
    fn now(&self) -> SystemTime {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the crate's one clock that reads the system's"
        )]
        SystemTime::now()
    }
}
