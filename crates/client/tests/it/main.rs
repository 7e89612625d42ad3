//! The shell beside the protocol's own texts, and against answers of every kind.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]
#![expect(clippy::print_stderr, reason = "a test that lacks its files says so")]

mod classes;
mod engine;
mod mutations;
mod protocol;
mod scripted;
mod spec;
