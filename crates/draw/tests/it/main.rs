//! Pictures through the public surface.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod golden;
mod graph_properties;
mod samples;
mod timelines;
mod tools;
mod turns;
mod visible_text;
mod waterfall;
mod xml;
