//! MCP servers as an agent meets them.

#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]

mod ends;
mod everything;
mod pins;
mod program;
mod remote;
mod remote_revisions;
mod revisions;
mod rig;
