//! The UI message stream, version 1, as `ai` 5 and later read it.
//!
//! A client of it gives up on a stream with a part that it does not know: there are no other parts here than those of the version,
//! and whatever is ours alone is a `data-*` part, which the version leaves to applications.

mod message;
mod part;
mod request;

#[cfg(test)]
mod tests;

pub use message::{MessageStatus, Metadata, ToolApproval, UiMessage, UiMessagePage, UiPart, UiRole};
pub use part::{Cause, StreamPart};
pub use request::{GivenAnswer, GivenMessage, GivenPart, Posted, Trigger};

/// The header that says which stream this is.
pub const HEADER: &str = "x-vercel-ai-ui-message-stream";

/// The version of the stream.
pub const VERSION: &str = "v1";
