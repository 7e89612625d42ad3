//! The server over its wire: real connections to a real port.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod frame;
mod keys;
mod native;
mod openharness;
mod support;
mod tokens;
