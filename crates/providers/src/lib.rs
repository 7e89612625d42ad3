//! Models over HTTP: OpenAI-compatible, Anthropic, Gemini (spec: llm-provider §8).
//!
//! # Vocabulary
//!
//! A *wire* is a vendor's protocol. A *mapping* writes a request in the form of a wire and reads the answer; it does
//! no I/O. An *extra* is a field of the runtime configuration that we do not know; a *managed* field is one that the
//! mapping writes itself (llm-provider §6). A *refusal* is an answer whose status is no success.
//!
//! # Bodies of requests
//!
//! Bodies are canonical JSON: keys sorted at every depth, lists in their order, no space between tokens. Equal
//! requests are equal bytes, which prompt caches need. The properties of a response schema are sorted too, and a
//! model in strict mode writes its answer in that order.

mod answer;
mod canonical;
mod extras;
mod mapping;
mod path;
mod rejection;
mod system;
mod usage;

mod anthropic;
mod gemini;
mod openai;

mod provider;
mod wire;

pub use provider::{Capabilities, HttpProvider, HttpProviderBuilder};
pub use wire::Wire;
