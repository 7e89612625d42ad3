//! The server over its wire: real connections to a real port.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod agui;
mod blobs;
mod clients;
mod frame;
mod keys;
mod narration;
mod native;
mod openai;
mod openharness;
mod resume;
mod schemathesis;
mod steerable;
mod support;
mod tenants;
mod tokens;
mod ui_stream;
