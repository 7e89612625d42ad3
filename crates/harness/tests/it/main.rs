//! The harness through its public surface.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod bench;
mod crash;
mod first;
mod sky;
