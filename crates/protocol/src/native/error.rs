//! What went wrong: one closed shape for all of the native API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of every answer that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ApiError,
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiError {
    /// The stable, machine-readable category; each has a page in docs/errors.
    pub category: String,
    /// What the caller can do.
    pub bucket: ErrorBucket,
    /// What happened, for whoever develops or runs the client. May change; not for programs.
    pub message: String,
    /// What to show to the end user of the conversation, where a turn was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in the body the mistake is, such as `message.content[0].text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Names the request in the server's log: the caller's own `X-Request-ID`, or one that the server gave it.
    pub request_id: String,
    /// After how many seconds to try again; as the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The turn that was accepted all the same, or may have been: ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The oldest event that is kept, where one before it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_event: Option<String>,
}

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorBucket {
    /// The conversation cannot continue.
    SessionTerminating,
    /// The same again may succeed.
    RetryableTransient,
    /// The caller has to change something.
    UserCorrectable,
}
