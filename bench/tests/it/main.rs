//! The program itself, as others run it: its command line, its lines, and those of its figures that can be counted.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod workloads;
