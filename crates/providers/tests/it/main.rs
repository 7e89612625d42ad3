//! Providers through their public surface: over a transport made of data, and over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod errors;
mod fuzz;
mod openai;
mod orphans;
mod rig;
mod rules;
mod secrets;
mod sequences;
mod sockets;
mod vendors;
