//! The server over its wire: real connections to a real port.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod bad_input;
mod blobs;
mod canary;
mod closing;
mod frame;
mod keys;
mod narration;
mod native;
mod operating;
mod resume;
mod support;
mod tenants;
mod tokens;
