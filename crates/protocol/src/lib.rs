//! The shapes on the wire, one module a protocol: what is said, and nothing of how it comes about.
//!
//! Everything here is data with `serde`; the native API's shapes also have JSON Schemas, of which the server makes its
//! OpenAPI document. Who reads a shape ignores fields that it does not know, unless the protocol forbids them.

pub mod agui;
pub mod native;
pub mod openai;
pub mod openharness;
pub mod steerable;
pub mod ui_stream;
