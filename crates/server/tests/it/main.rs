//! The server over its wire: real connections to a real port.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod frame;
mod openharness;
mod support;
