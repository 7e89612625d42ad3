//! The server over its wire: real connections to a real port.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod blobs;
mod frame;
mod keys;
mod narration;
mod native;
mod notify;
mod notify_page;
mod resume;
mod schemathesis;
mod support;
mod tenants;
mod tokens;
