//! The store of a test, and a PostgreSQL server for as long as a test needs one. Crates use it as a dev-dependency; the
//! conformance runner opens the stores of its cases with it.
//!
//! A [`TestStore`] is in memory. With `SINGLETREE_STORE=postgres` in the environment each one is a PostgreSQL database of
//! its own instead, so that the tests of a crate also run over PostgreSQL.
//!
//! # Time
//! A test may run under a paused clock, which goes forward by itself whenever all tasks wait. A database answers in real
//! time, so while a call is on its way the clock of the test is held.
#![expect(clippy::unwrap_used, reason = "only tests use it, and they may unwrap")]

mod bridge;
mod checkpoint;
mod empty;
mod running;
mod server;
mod store;
#[cfg(test)]
mod tests;

pub use server::{PostgresServer, url_at};
pub use store::TestStore;
