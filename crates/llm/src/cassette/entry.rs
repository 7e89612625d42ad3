//! The lines of a cassette.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delta::ResponseDelta;
use crate::error::{Error, InvalidOutput, ProviderErrorDetail, Result};
use crate::message::ChatMessage;
use crate::response::{ModelFinishReason, Response, TokenUsage};

/// The version of the form.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteHeader {
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
pub(super) struct CassetteEntry {
    /// Names the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// The request.
    pub(super) request: Value,
    /// The deltas of a streamed call; nothing when the call was not streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deltas: Option<Vec<RecordedDelta>>,
    /// How it ended, where the deltas do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<RecordedOutcome>,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordedOutcome {
    /// With an answer.
    Response(RecordedResponse),
    /// With an error.
    Error(RecordedFailure),
}

/// A response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedResponse {
    message: ChatMessage,
    finish_reason: ModelFinishReason,
    #[serde(default)]
    usage: TokenUsage,
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
pub(super) enum RecordedDelta {
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
        reason: ModelFinishReason,
        #[serde(default)]
        usage: TokenUsage,
        #[serde(default)]
        raw: Value,
    },
}

/// An error. Its source is not kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedFailure {
    category: String,
    #[serde(default)]
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The refused response, of `provider_invalid_response`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Box<RecordedResponse>>,
    /// The output that did not fit the schema, of `structured_output_invalid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<RecordedOutput>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedOutput {
    response_schema: Value,
    output_content: String,
    error_message: String,
    finish_reason: ModelFinishReason,
    #[serde(default)]
    usage: TokenUsage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_model: Option<String>,
}

impl RecordedResponse {
    pub(super) fn from_response(response: &Response) -> Self {
        let Response { message, finish_reason, usage, parsed, unread_arguments, raw } = response.clone();
        Self { message, finish_reason, usage, parsed, unread_arguments, raw }
    }

    pub(super) fn restore_response(&self) -> Response {
        let Self { message, finish_reason, usage, parsed, unread_arguments, raw } = self.clone();
        Response { message, finish_reason, usage, parsed, unread_arguments, raw }
    }
}

impl From<ResponseDelta> for RecordedDelta {
    fn from(delta: ResponseDelta) -> Self {
        match delta {
            ResponseDelta::Text { text, signature } => Self::Text { text, signature },
            ResponseDelta::Thinking { text, signature } => Self::Thinking { text, signature },
            ResponseDelta::RedactedThinking { data } => Self::RedactedThinking { data },
            ResponseDelta::ToolCall { index, id, name, arguments, signature } => {
                Self::ToolCall { index, id, name, arguments, signature }
            }
            ResponseDelta::Finish { reason, usage, raw } => Self::Finish { reason, usage, raw },
        }
    }
}

impl From<RecordedDelta> for ResponseDelta {
    fn from(piece: RecordedDelta) -> Self {
        match piece {
            RecordedDelta::Text { text, signature } => Self::Text { text, signature },
            RecordedDelta::Thinking { text, signature } => Self::Thinking { text, signature },
            RecordedDelta::RedactedThinking { data } => Self::RedactedThinking { data },
            RecordedDelta::ToolCall { index, id, name, arguments, signature } => {
                Self::ToolCall { index, id, name, arguments, signature }
            }
            RecordedDelta::Finish { reason, usage, raw } => Self::Finish { reason, usage, raw },
        }
    }
}

impl RecordedFailure {
    pub(super) fn from_error(error: &Error) -> Self {
        let output = match error {
            Error::StructuredOutputInvalid(invalid) => {
                let InvalidOutput {
                    response_schema,
                    output_content,
                    error_message,
                    finish_reason,
                    usage,
                    response_id,
                    response_model,
                } = invalid.as_ref().clone();
                Some(RecordedOutput {
                    response_schema,
                    output_content,
                    error_message,
                    finish_reason,
                    usage,
                    response_id,
                    response_model,
                })
            }
            _ => None,
        };
        let wait =
            error.retry_after().map(|retry_after| u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX));
        Self {
            category: error.category().to_owned(),
            message: error.to_string(),
            status: error.http_status(),
            retry_after_ms: wait,
            response: error
                .refused_response()
                .map(|response| Box::new(RecordedResponse::from_response(response))),
            output,
        }
    }

    /// Makes the error again.
    ///
    /// # Errors
    /// The mistake in the entry: a category that no provider's error has, or an error that lacks its output.
    pub(super) fn restore_error(&self) -> Result<Error, String> {
        let mut detail = ProviderErrorDetail::new(self.message.clone());
        if let Some(status) = self.status {
            detail = detail.with_status(status);
        }
        if let Some(wait) = self.retry_after_ms {
            detail = detail.with_retry_after(Duration::from_millis(wait));
        }
        if let Some(response) = &self.response {
            detail = detail.with_response(response.restore_response());
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
                let RecordedOutput {
                    response_schema,
                    output_content,
                    error_message,
                    finish_reason,
                    usage,
                    response_id,
                    response_model,
                } = output.clone();
                Error::StructuredOutputInvalid(Box::new(InvalidOutput {
                    response_schema,
                    output_content,
                    error_message,
                    finish_reason,
                    usage,
                    response_id,
                    response_model,
                }))
            }
            (category, None) => return Err(format!("{category:?} is no category of a provider's errors")),
            (category, Some(_)) => return Err(format!("{category:?} has no output")),
        })
    }
}
