//! The version of the library that a page uses: a client gives up on a stream with a part that its version does not
//! know.

use axum::http::HeaderMap;

use crate::native::{HandlerContext, load_visibility};
use crate::problem::RequestProblem;

/// The header with the major version of `ai`. No other part of a request has it.
pub(crate) const AI_SDK_VERSION: &str = "x-ai-sdk-version";

/// The first version that has parts for approvals.
const APPROVALS_SINCE: u32 = 6;

/// The optional parts that a page gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UiStreamFeatures {
    /// Approvals in the library's own parts, beside ours.
    pub(super) approvals: bool,
    /// The thinking of models, if the session's agent shows it (D19).
    pub(super) thinking: bool,
}

impl UiStreamFeatures {
    /// Finds out which optional parts the page of a request gets for a session.
    ///
    /// # Errors
    /// `server_request_invalid`; those of reading a session.
    pub(super) async fn read_for_session(
        telling: &HandlerContext,
        session: &str,
    ) -> Result<Self, RequestProblem> {
        let approvals = supports_approvals(&telling.headers)?;
        let view = load_visibility(&telling.shared, &telling.caller_chat(), session).await?;
        Ok(Self { approvals, thinking: view.thinking })
    }
}

/// Checks whether the library of a page has parts for approvals; without the header it is version 5.
///
/// # Errors
/// `server_request_invalid`.
pub(super) fn supports_approvals(headers: &HeaderMap) -> Result<bool, RequestProblem> {
    Ok(read_sdk_version(headers)?.is_some_and(|version| version >= APPROVALS_SINCE))
}

/// Reads the major version of the library.
fn read_sdk_version(headers: &HeaderMap) -> Result<Option<u32>, RequestProblem> {
    let Some(version) = headers.get(AI_SDK_VERSION) else { return Ok(None) };
    let text = version.to_str().unwrap_or_default();
    let major = text.split('.').next().and_then(|major| major.parse().ok());
    let wrong = || {
        RequestProblem::invalid_request("X-AI-SDK-Version is the major version of `ai`, such as 6")
            .with_field("X-AI-SDK-Version")
    };
    major.map(Some).ok_or_else(wrong)
}
