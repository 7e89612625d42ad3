//! AG-UI 1.0: what front ends post to run an agent, and the events that they are told.
//!
//! What a client posts along (its messages, its state, its tools) is its own view, and no truth: the shapes here take of it
//! what a server looks at, and nothing of the rest is refused. What is sent is exactly as the protocol has it: clients strip
//! what they do not know and refuse what is malformed.

mod event;
mod input;
mod message;

pub use event::{Event, Interrupt, Outcome, ReasoningRole, TextRole, ToolRole};
pub use input::{Held, ResumeEntry, ResumeStatus, RunAgentInput};
pub use message::{
    Content, FunctionCall, FunctionType, KnownPart, Message, Part, PartSource, ToolCall, UnknownPart,
};

/// The version of the protocol that is spoken here.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The key under which events and interrupts carry what is ours, in their `metadata`.
pub const OURS: &str = "dev.singletree";
