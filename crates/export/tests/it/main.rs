//! Exports to receivers that fail, of processes that die.
#![expect(clippy::disallowed_methods, reason = "a test measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod bounds;
mod crashes;
mod reading;
mod receivers;
mod rig;
mod shared;
