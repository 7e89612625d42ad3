//! The contract suite and the fault injector, from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod contract;
mod fault;
mod memory;
