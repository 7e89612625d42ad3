//! The client over real sockets, and where it may go.
#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod egress;
mod server;
