//! The client over real sockets, and where it may go.

mod client;
mod egress;
mod server;
