//! The Langfuse mapping (spec: observability §8), as plain data.
//!
//! What lands in Langfuse is derived from the same spans as everything else, rendered with settings of its own: one span
//! for each model call, and payloads by this mapping's own flags (§8.9).

mod observation;
mod settings;
mod trace;

pub use observation::{LangfuseObservation, ObservationLevel};
pub use settings::{LangfuseSettings, StateView};
pub use trace::{LangfuseTrace, render_langfuse_traces};
