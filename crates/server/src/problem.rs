//! The reason why a request fails: one type, which each section renders in its own protocol.

mod kind;

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use singletree_harness::{ErroredTurn, FailureBucket, QuotaExceeded};

pub(crate) use kind::RequestProblemKind;

use crate::caller::Scope;

/// The reason why a request fails.
///
/// A handler returns it in the extensions of an empty response: the section's [`render`](crate::section::ProtocolSection) makes
/// the body, with the request's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestProblem {
    /// The status.
    pub(crate) status: StatusCode,
    /// The stable, machine-readable category: it has a page in docs/errors.
    pub(crate) category: String,
    /// How the caller can react (harness §7).
    pub(crate) bucket: FailureBucket,
    /// A description of the problem for people; no secret, no raw text of others.
    pub(crate) message: String,
    /// Advice for the caller.
    pub(crate) hint: Option<Box<str>>,
    /// The number of seconds after which to try again.
    pub(crate) retry_after: Option<u32>,
    /// The place of the mistake in the body, such as `context.session_id`.
    pub(crate) field: Option<Box<str>>,
    /// The text for the end user of a conversation, if it differs from the message (D32).
    pub(crate) reply: Option<Box<str>>,
    /// The turn or event of the conversation that the problem names; few do.
    pub(crate) names: Option<Box<ConversationIds>>,
}

/// The ids of a conversation that a problem names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ConversationIds {
    turn: Option<String>,
    oldest_event: Option<String>,
}

impl RequestProblem {
    pub(crate) fn new(
        status: StatusCode,
        category: &str,
        bucket: FailureBucket,
        message: impl Into<String>,
    ) -> Self {
        let (category, message) = (category.to_owned(), message.into());
        let retry_after = (status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE)
            .then_some(RETRY_AFTER);
        let (hint, field, reply, names) = (None, None, None, None);
        Self { status, category, bucket, message, hint, retry_after, field, reply, names }
    }

    /// Returns the turn that is stored in spite of the problem, or may be.
    pub(crate) fn named_turn(&self) -> Option<&str> {
        self.names.as_ref().and_then(|names| names.turn.as_deref())
    }

    /// Returns the oldest stored event, if an older one was requested (D9).
    pub(crate) fn oldest_event(&self) -> Option<&str> {
        self.names.as_ref().and_then(|names| names.oldest_event.as_deref())
    }

    /// Adds advice for the caller.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Sets the number of seconds after which to try again.
    pub(crate) fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the place of the mistake in the body.
    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into());
        self
    }

    /// Makes a problem that the server itself found.
    pub(crate) fn from_kind(kind: RequestProblemKind, message: impl Into<String>) -> Self {
        Self::new(kind.http_status(), kind.category(), kind.failure_bucket(), message)
    }

    /// Makes a problem of a library's error response, of which only the status is used.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        let kind = RequestProblemKind::from_status(status);
        Self::from_kind(kind, kind.default_message())
    }

    /// Makes the problem of a request without valid credentials.
    pub(crate) fn unauthorized() -> Self {
        Self::from_kind(RequestProblemKind::Unauthorized, RequestProblemKind::Unauthorized.default_message())
            .with_hint(
                "send `Authorization: Bearer KEY`; an operator makes keys with `singletree keys create`",
            )
    }

    /// Makes the problem of a known caller whose key is not valid any more.
    pub(crate) fn stale_credentials(kind: RequestProblemKind) -> Self {
        Self::from_kind(kind, kind.default_message()).with_hint("ask an operator for another one")
    }

    /// Makes the problem of a caller without this scope.
    pub(crate) fn missing_scope(scope: Scope) -> Self {
        Self::from_kind(RequestProblemKind::Forbidden, format!("this key lacks the scope `{scope}`"))
    }

    /// Makes the problem of a used-up quota of the key or its tenant.
    pub(crate) fn quota_exceeded(exceeded: &QuotaExceeded) -> Self {
        let seconds = round_up_seconds(exceeded.retry_after);
        Self::from_kind(RequestProblemKind::QuotaExceeded, exceeded.to_string())
            .with_hint(format!("try again in {seconds} s"))
            .with_retry_after(seconds)
    }

    /// Makes the problem of an invalid request.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::from_kind(RequestProblemKind::Invalid, message)
    }

    /// Makes the problem of a name that is unknown or belongs to another tenant: both get the same answer (INV-14).
    pub(crate) fn not_found(category: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, category, FailureBucket::UserCorrectable, message)
    }

    /// Makes a problem of a turn that the harness refused, or that failed without an outcome.
    pub(crate) fn from_errored_turn(errored: &ErroredTurn) -> Self {
        let status = category_status(&errored.error_category, errored.error_bucket);
        let (category, bucket) = (&errored.error_category, errored.error_bucket);
        let problem = Self::new(status, category, bucket, errored.diagnostic.as_str());
        let turn = errored.turn.as_ref().map(ToString::to_string);
        let names =
            turn.map(|turn| Box::new(ConversationIds { turn: Some(turn), ..ConversationIds::default() }));
        let problem = match errored.retry_after {
            Some(wait) => problem.with_retry_after(round_up_seconds(wait)),
            None => problem,
        };
        Self { reply: Some(errored.reply.text().into_owned().into()), names, ..problem }
    }

    /// Returns the text for the end user of a conversation.
    pub(crate) fn end_user_text(&self) -> &str {
        self.reply.as_deref().unwrap_or(&self.message)
    }

    /// Makes a problem of a category of the harness.
    pub(crate) fn from_chat_category(category: &str, message: impl Into<String>) -> Self {
        let bucket = singletree_harness::BucketTable::default()
            .look_up_category(category, singletree_harness::HarnessSurface::Chat)
            .bucket;
        Self::new(category_status(category, bucket), category, bucket, message)
    }

    /// Makes a problem of an error of the harness.
    pub(crate) fn from_chat_error(error: &singletree_harness::Error) -> Self {
        match error {
            singletree_harness::Error::Quota(exceeded) => return Self::quota_exceeded(exceeded),
            singletree_harness::Error::Refused(errored) => return Self::from_errored_turn(errored),
            _ => {}
        }
        let names = match error {
            singletree_harness::Error::EventsExpired { oldest } => Some(Box::new(ConversationIds {
                oldest_event: Some(oldest.clone()),
                ..ConversationIds::default()
            })),
            _ => None,
        };
        Self { names, ..Self::from_chat_category(error.category(), error.to_string()) }
    }
}

impl From<crate::Error> for RequestProblem {
    fn from(error: crate::Error) -> Self {
        use crate::Error;

        let (status, bucket) = match &error {
            Error::KeyUnknown { .. } => (StatusCode::NOT_FOUND, FailureBucket::UserCorrectable),
            Error::KeysFull { .. } => (StatusCode::CONFLICT, FailureBucket::UserCorrectable),
            Error::Tenant { .. } | Error::KeyInvalid { .. } => {
                (StatusCode::BAD_REQUEST, FailureBucket::UserCorrectable)
            }
            Error::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, FailureBucket::RetryableTransient),
            Error::Open { .. } | Error::Listen { .. } | Error::KeySet { .. } | Error::Webhook { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, FailureBucket::RetryableTransient)
            }
        };
        Self::new(status, error.category(), bucket, error.to_string())
    }
}

impl IntoResponse for RequestProblem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the seconds of a wait, rounded up.
fn round_up_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// Seconds to wait before a retry where no better value is known.
const RETRY_AFTER: u32 = 1;

/// Returns the status of a category: its own status, if it has one, otherwise the status of its bucket.
pub(crate) fn category_status(category: &str, bucket: FailureBucket) -> StatusCode {
    match (category, bucket) {
        (
            "campaign_agent_unknown"
            | "campaign_schedule_unknown"
            | "campaign_task_unknown"
            | "campaign_template_unknown"
            | "campaign_unknown"
            | "chat_agent_unknown"
            | "chat_event_unknown"
            | "chat_message_unknown"
            | "chat_session_unknown"
            | "chat_turn_unknown"
            | "harness_signal_correlation_failed",
            _,
        ) => StatusCode::NOT_FOUND,
        (
            "campaign_changed"
            | "campaign_status_unfit"
            | "chat_events_expired"
            | "chat_idempotency_conflict"
            | "chat_retry_superseded"
            | "chat_session_exists"
            | "chat_session_reserved"
            | "chat_session_suspended"
            | "chat_signal_conflict"
            | "chat_signal_mismatch"
            | "session_write_conflict"
            | "store_refused",
            _,
        ) => StatusCode::CONFLICT,
        ("campaign_scope_missing", _) => StatusCode::FORBIDDEN,
        ("chat_signal_expired", _) => StatusCode::GONE,
        // The request is wrong, though the harness ends the conversation with this category.
        ("harness_session_id_unresolved", _) => StatusCode::BAD_REQUEST,
        (
            "chat_mailbox_full"
            | "chat_queue_full"
            | "chat_subscriptions_full"
            | "provider_rate_limit"
            | "provider_rate_limited"
            | "server_quota_exceeded",
            _,
        ) => StatusCode::TOO_MANY_REQUESTS,
        // The operator's key, the model or the provider's answer is wrong: the caller cannot change that (D32).
        (
            "provider_authentication"
            | "provider_invalid_model"
            | "provider_invalid_response"
            | "structured_output_invalid",
            _,
        ) => StatusCode::BAD_GATEWAY,
        ("chat_blob_too_large" | "chat_blobs_full", _) => StatusCode::PAYLOAD_TOO_LARGE,
        ("session_load_failed" | "session_save_failed", _) => StatusCode::SERVICE_UNAVAILABLE,
        (_, FailureBucket::RetryableTransient) => StatusCode::SERVICE_UNAVAILABLE,
        (_, FailureBucket::UserCorrectable) => StatusCode::BAD_REQUEST,
        (_, FailureBucket::SessionTerminating) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
