//! The client over real sockets, and where it may go.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod egress;
mod server;
