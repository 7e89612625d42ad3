//! Tests of the facade: the blocks of the README, and the examples.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "a test that lacks its program says so")]

mod canary;
mod examples;
mod orphans;
mod readme;
mod tool;
