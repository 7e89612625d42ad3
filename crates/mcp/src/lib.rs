//! Tools of MCP servers.
//!
//! # Vocabulary
//!
//! A *server* is a program that is started and spoken to on its standard streams, or an address that is spoken to by
//! streamable HTTP. A *connection* begins with a greeting and ends with either side; a server has one at a time. Its
//! *hints* are its own statements about the effects of its tools.
//!
//! A server is a [`Toolset`](singletree_tools::Toolset): its tools are tools like any other, so that approvals, time
//! limits and the record of calls are handled in the same place as for all tools.
//!
//! # Example
//!
//! ```
//! use singletree_mcp::{McpCommand, McpServer};
//! use singletree_tools::Effect;
//!
//! let command = McpCommand::new("npx", ["-y", "@modelcontextprotocol/server-filesystem", "docs"])
//!     .env("PATH", "/usr/bin:/bin");
//! let server = McpServer::program("files", command).effect("read_file", Effect::Read).build()?;
//! # Ok::<(), singletree_mcp::Error>(())
//! ```

mod error;

mod builder;
mod limits;
mod pinned;
mod place;

mod child;
mod connection;
mod link;
mod probe;
mod remote;
mod words;

mod answer;
mod judgement;
mod name;
mod remote_tool;
mod server;

pub use builder::McpServerBuilder;
pub use error::{Error, Result};
pub use limits::McpLimits;
pub use place::{McpCommand, McpEndpoint};
pub use server::{McpReport, McpServer};
