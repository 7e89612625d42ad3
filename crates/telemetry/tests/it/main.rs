//! Rendering of runs of the engine.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod calls;
mod langfuse;
mod profiles;
mod rig;
mod trees;
