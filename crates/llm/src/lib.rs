//! Calls to models: messages, tools, the provider trait and stream assembly.
//!
//! # Vocabulary
//!
//! A *message* is one entry of a conversation, in exactly the shape of llm-provider §3. A *tool call* is a request of
//! an assistant message to run a tool; it is *open* until a tool message answers it. A *request* is everything that
//! one call to a model sends; a *response* is the assistant message that came back, with its finish reason. A *delta*
//! is one piece of a response on its way; an *assembler* folds deltas into the response. A *script* is a model made
//! of data: rules over the request. A *cassette* is a model made of recorded calls to another model, played by
//! request. An *ask* is one call as a caller means it; each *attempt* of it is one call to the provider.
//!
//! This crate knows no transport, no clock and no runtime. A provider is one trait with two ways
//! to ask: whole, or delta by delta.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use singletree_llm::{ChatMessage, Request};
//!
//! let request = Request::new(vec![Arc::new(ChatMessage::user("What is 2 + 2?"))]);
//! assert!(request.check().is_ok());
//!
//! let nothing_to_answer = Request::new(vec![Arc::new(ChatMessage::assistant("4"))]);
//! assert_eq!(nothing_to_answer.check().unwrap_err().category(), "provider_invalid_request");
//! ```

mod canonical;
mod error;
mod fault;

mod content;
mod conversation;
mod message;

mod config;
mod request;
mod response;
mod schema;
mod tool;

mod assemble;
mod delta;
mod provider;

mod ask;
mod retry;

mod active_prompt;
mod budget;

mod cassette;
mod pictures;
mod script;

pub use active_prompt::ActivePrompt;
pub use ask::{AttemptObserver, ModelStreamUpdate, ProviderCall, ProviderCallAttempt};
pub use assemble::{ResponseAssembler, ResponseLimits, parse_arguments};
pub use budget::{EvaluatedBound, TokenBudget};
pub use canonical::canonical_json;
pub use cassette::{CassetteRecorder, CassetteReplayer};
pub use config::RuntimeConfig;
pub use content::{ContentBlock, ImageContentSource, ImageDetailLevel, MessageContent};
pub use conversation::{find_open_calls, validate_messages};
pub use delta::ResponseDelta;
pub use error::{Error, InvalidOutput, ProviderErrorDetail, Result};
pub use message::{ChatMessage, Role, ToolCall};
pub use pictures::{PictureResolver, ResolvedPicture, TOOL_PICTURES_MAX, tool_picture_line};
pub use provider::{BoxStream, Provider, complete_streaming};
pub use request::{ConversationRange, Request};
pub use response::{ModelFinishReason, Response, TokenUsage, UNREAD_ARGUMENTS_MAX, is_too_deep};
pub use retry::{ModelRetryPolicy, RetryReason};
pub use schema::{Schema, SchemaMismatch, count_patterns};
pub use script::{Script, ScriptedProvider};
pub use singletree_env::{
    BoxError, BoxFuture, ConstantRandomSource, InstantTimer, RandomSource, Retry, RetryBackoff,
    RetryableError, Timer,
};
pub use tool::{ToolChoicePolicy, ToolDefinition};

/// A JSON object: argument names to values, field names to values.
pub type Map = serde_json::Map<String, serde_json::Value>;
