//! One piece of a response on its way.

use serde_json::Value;

use crate::response::{ModelFinishReason, TokenUsage};

/// One piece of a streamed response.
///
/// Pieces of one kind that follow each other belong to one block, until a signature closes it; a
/// signature without text and without an open block has nothing to sign and is dropped.
/// `Finish` comes exactly once, last.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseDelta {
    /// Text of the answer.
    Text {
        /// The next piece; may be empty when only a signature arrives.
        text: String,
        /// The token that closes the block.
        signature: Option<String>,
    },
    /// Reasoning of the model. Never narrated (D19).
    Thinking {
        /// The next piece; may be empty when only a signature arrives.
        text: String,
        /// The token that closes the block.
        signature: Option<String>,
    },
    /// A whole block of withheld reasoning.
    RedactedThinking {
        /// The provider's opaque blob.
        data: String,
    },
    /// A fragment of a tool call.
    ToolCall {
        /// Which call, as the provider counts.
        index: u32,
        /// Its id, when it comes with this fragment.
        id: Option<String>,
        /// Its tool, when it comes with this fragment.
        name: Option<String>,
        /// The next piece of the arguments' JSON text.
        arguments: Option<String>,
        /// The provider's continuity token.
        signature: Option<String>,
    },
    /// The end of the response.
    Finish {
        /// Why the model stopped.
        reason: ModelFinishReason,
        /// The tokens that the call used.
        usage: TokenUsage,
        /// The whole response as the provider would have returned it at once.
        raw: Value,
    },
}

impl ResponseDelta {
    /// Makes a piece of unsigned text.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), signature: None }
    }

    /// Makes a piece of unsigned reasoning.
    #[must_use]
    pub fn from_thinking(text: impl Into<String>) -> Self {
        Self::Thinking { text: text.into(), signature: None }
    }
}
