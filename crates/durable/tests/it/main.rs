//! The stores and tools of this crate, from outside.

mod bench;
mod contract;
