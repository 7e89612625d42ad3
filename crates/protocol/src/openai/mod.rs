//! OpenAI's chat completions, as far as an agent can be asked by them.
//!
//! What clients send is read leniently: parameters that are not known are ignored, and so are those that sample a model, which
//! are the agent's own. What would mean something else if it were ignored is here, so that it can be refused.

mod completion;
mod error;
mod model;
mod request;

pub use completion::{
    Choice, Chunk, ChunkChoice, ChunkObject, Completion, CompletionObject, Delta, DeltaCall, DeltaRole,
    FinishReason, PromptTokensDetails, Reply, ReplyRole, Usage,
};
pub use error::{ErrorBody, ErrorDetail};
pub use model::{Model, ModelList, ModelObject};
pub use request::{
    CompletionRequest, Content, FunctionCall, FunctionDefinition, ImageUrl, NamedFunction, Part,
    RequestMessage, Stop, StreamOptions, Tool, ToolCall, ToolChoice, ToolChoiceMode, ToolKind,
};
