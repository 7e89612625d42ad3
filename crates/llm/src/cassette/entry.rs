//! The lines of a cassette.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delta::Delta;
use crate::error::{Detail, Error, InvalidOutput, Result};
use crate::message::ChatMessage;
use crate::response::{FinishReason, Response, Usage};

/// The version of the form.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// [`VERSION`].
    pub(super) cassette: u32,
    /// The model that was asked.
    pub(super) model: String,
    /// Whether its provider streamed.
    pub(super) streams: bool,
}

/// A call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Names the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// The request.
    pub(super) request: Value,
    /// The deltas of a streamed call; nothing when the call was not streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deltas: Option<Vec<Piece>>,
    /// How it ended, where the deltas do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Ended>,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// With an answer.
    Response(Answer),
    /// With an error.
    Error(Failure),
}

/// A response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    message: ChatMessage,
    finish_reason: FinishReason,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    parsed: Option<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unread_arguments: BTreeMap<usize, String>,
    #[serde(default)]
    raw: Value,
}

/// A delta.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Piece {
    Text {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    Thinking {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    RedactedThinking {
        data: String,
    },
    ToolCall {
        index: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    Finish {
        reason: FinishReason,
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        raw: Value,
    },
}

/// An error. Its source is not kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    category: String,
    #[serde(default)]
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The refused response, of `provider_invalid_response`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Box<Answer>>,
    /// The output that did not fit the schema, of `structured_output_invalid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    response_schema: Value,
    output_content: String,
    error_message: String,
    finish_reason: FinishReason,
    #[serde(default)]
    usage: Usage,
}

impl Answer {
    pub(super) fn of(response: &Response) -> Self {
        let Response { message, finish_reason, usage, parsed, unread_arguments, raw } = response.clone();
        Self { message, finish_reason, usage, parsed, unread_arguments, raw }
    }

    pub(super) fn response(&self) -> Response {
        let Self { message, finish_reason, usage, parsed, unread_arguments, raw } = self.clone();
        Response { message, finish_reason, usage, parsed, unread_arguments, raw }
    }
}

impl From<Delta> for Piece {
    fn from(delta: Delta) -> Self {
        match delta {
            Delta::Text { text, signature } => Self::Text { text, signature },
            Delta::Thinking { text, signature } => Self::Thinking { text, signature },
            Delta::RedactedThinking { data } => Self::RedactedThinking { data },
            Delta::ToolCall { index, id, name, arguments, signature } => {
                Self::ToolCall { index, id, name, arguments, signature }
            }
            Delta::Finish { reason, usage, raw } => Self::Finish { reason, usage, raw },
        }
    }
}

impl From<Piece> for Delta {
    fn from(piece: Piece) -> Self {
        match piece {
            Piece::Text { text, signature } => Self::Text { text, signature },
            Piece::Thinking { text, signature } => Self::Thinking { text, signature },
            Piece::RedactedThinking { data } => Self::RedactedThinking { data },
            Piece::ToolCall { index, id, name, arguments, signature } => {
                Self::ToolCall { index, id, name, arguments, signature }
            }
            Piece::Finish { reason, usage, raw } => Self::Finish { reason, usage, raw },
        }
    }
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        let output = match error {
            Error::StructuredOutputInvalid(invalid) => {
                let InvalidOutput { response_schema, output_content, error_message, finish_reason, usage } =
                    invalid.as_ref().clone();
                Some(Output { response_schema, output_content, error_message, finish_reason, usage })
            }
            _ => None,
        };
        let wait =
            error.retry_after().map(|retry_after| u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX));
        Self {
            category: error.category().to_owned(),
            message: error.to_string(),
            status: error.status(),
            retry_after_ms: wait,
            response: error.response().map(|response| Box::new(Answer::of(response))),
            output,
        }
    }

    /// Makes the error again.
    ///
    /// # Errors
    /// The mistake in the entry: a category that no provider's error has, or an error that lacks its output.
    pub(super) fn error(&self) -> Result<Error, String> {
        let mut detail = Detail::new(self.message.clone());
        if let Some(status) = self.status {
            detail = detail.with_status(status);
        }
        if let Some(wait) = self.retry_after_ms {
            detail = detail.with_retry_after(Duration::from_millis(wait));
        }
        if let Some(response) = &self.response {
            detail = detail.with_response(response.response());
        }
        Ok(match (self.category.as_str(), &self.output) {
            ("provider_authentication", None) => Error::Authentication(detail),
            ("provider_unavailable", None) => Error::Unavailable(detail),
            ("provider_invalid_model", None) => Error::InvalidModel(detail),
            ("provider_model_not_loaded", None) => Error::ModelNotLoaded(detail),
            ("provider_rate_limit", None) => Error::RateLimit(detail),
            ("provider_invalid_response", None) => Error::InvalidResponse(detail),
            ("provider_invalid_request", None) => Error::InvalidRequest(detail),
            ("provider_unsupported_content_block", None) => Error::UnsupportedContentBlock(detail),
            ("structured_output_invalid", Some(output)) => {
                let Output { response_schema, output_content, error_message, finish_reason, usage } =
                    output.clone();
                Error::StructuredOutputInvalid(Box::new(InvalidOutput {
                    response_schema,
                    output_content,
                    error_message,
                    finish_reason,
                    usage,
                }))
            }
            (category, None) => return Err(format!("{category:?} is no category of a provider's errors")),
            (category, Some(_)) => return Err(format!("{category:?} has no output")),
        })
    }
}
