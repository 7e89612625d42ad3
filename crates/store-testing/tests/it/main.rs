//! Tests of the contract suite and the fault injector through their public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod contract;
mod fault;
mod memory;
