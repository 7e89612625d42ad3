//! Agents in conversation, over stores that die and over stores that do not.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals;
mod cancelling;
mod commits;
mod crashes;
mod demo;
mod failing;
mod probe;
mod rig;
mod streaming;
mod tools;
mod window;
