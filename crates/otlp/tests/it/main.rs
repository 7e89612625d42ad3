//! Sending spans: what is written, and what is done with each answer of a receiver.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod langfuse;
mod rig;
mod sending;
