//! The server over its wire: real connections to a real port.
#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]
#![expect(clippy::print_stderr, reason = "a test that lacks its program says so")]

mod administration;
mod agui;
mod bad_input;
mod blobs;
mod campaigns;
mod canary;
mod clients;
mod closed_connections;
mod closing;
mod disconnecting;
mod frame;
mod keys;
mod left_notices;
mod narration;
mod native;
mod nodes;
mod notify;
mod notify_page;
mod openai;
mod openharness;
mod operating;
mod pages;
mod quotas;
mod resume;
mod schemathesis;
mod steerable;
mod store_health;
mod stream_ends;
mod support;
mod tenants;
mod tokens;
mod trace_context;
mod ui_stream;
