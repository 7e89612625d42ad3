//! The tests of the simulation.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod differential;
mod failed_sync;
mod narration;
mod planted;
mod seeds;
