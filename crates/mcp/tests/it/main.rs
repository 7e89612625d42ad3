//! MCP servers as an agent meets them.

mod ends;
mod everything;
mod pins;
mod program;
mod remote;
mod remote_revisions;
mod revisions;
mod rig;
