//! Steerable chat: ChatMessage, ChatAgent, the stream.
//!
//! Shapes of the Steerable framework's specification, as of 0.2.3. Most are open: what is not known of one is kept in `other` and
//! written again. Two are closed, [`ToolCall`] and [`AgentSession`]. Names that end in `Id` and are not the specification's are
//! extensions that it allows: `callId` and `toolCallId` say which call a result answers, for which it has no field.

mod event;
mod message;
mod request;
mod session;
mod tool;

#[cfg(test)]
mod tests;

pub use event::{EventType, SseEvent};
pub use message::{ChatMessage, ContentPart, MessagePage, Role};
pub use request::{SendBody, SentMessage, SentPart};
pub use session::{AgentSession, CreateAgentSession};
pub use tool::{ToolCall, ToolResult};

/// An agent: who owns messages. The native API lists the agents in this shape.
pub use crate::native::Agent as ChatAgent;
