//! Models over HTTP: OpenAI-compatible, Anthropic, Gemini (spec: llm-provider §8).
//!
//! # Vocabulary
//!
//! A *wire* is a vendor's protocol. A *mapping* writes a request as a wire wants it and reads what comes back; it does no
//! I/O. An *extra* is a field of the runtime configuration that we do not know; a *managed* field is one that the mapping
//! writes itself (llm-provider §6).

mod mapping;
mod provider;
mod wire;

pub use provider::{Capabilities, HttpProvider, HttpProviderBuilder};
pub use wire::Wire;
