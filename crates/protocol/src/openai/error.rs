//! How OpenAI's clients are told of errors.

use serde::{Deserialize, Serialize};

/// The body of an error, and the piece of a stream that tells of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// What happened.
    pub message: String,
    /// Of which kind it is, in OpenAI's words, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which parameter is wrong.
    pub param: Option<String>,
    /// The category.
    pub code: Option<String>,
}
