//! The program itself, as others run it: its command line, its lines, and what of its figures can be counted.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod workloads;
