//! The harness through its public surface.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod bench;
mod crash;
mod base_failures;
mod base_paths;
mod base_rig;
mod base_signals;
mod base_subscriptions;
mod first;
mod sky;
