//! The stores and tools of this crate, from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod meddler;
mod memory;
mod model;
mod rows;
mod sessions;
