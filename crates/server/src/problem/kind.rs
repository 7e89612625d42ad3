//! The problems that the server itself reports, before or outside of the harness.

use axum::http::StatusCode;
use singletree_harness::FailureBucket;

/// A category of problems that the server itself finds with a request of any section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestProblemKind {
    /// Nobody said who they are, or not so that it could be believed.
    Unauthorized,
    /// The key's time is over.
    KeyExpired,
    /// The key was taken back.
    KeyRevoked,
    /// The token's time is over, or has not begun.
    TokenExpired,
    /// The token is not one that is believed here.
    TokenInvalid,
    /// Who asks may not do this.
    Forbidden,
    /// The request comes from a page that may not ask here.
    OriginForbidden,
    /// The request itself is not right.
    Invalid,
    /// There is no such path.
    RouteUnknown,
    /// The path is there, and not with this method.
    MethodNotAllowed,
    /// The body took too long to arrive.
    RequestTimeout,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// The body is of a type that is not taken here.
    MediaTypeUnsupported,
    /// Too much at once.
    RateLimited,
    /// A quota of the key or its tenant is used up.
    QuotaExceeded,
    /// Something broke in the server.
    Failed,
    /// The server takes nothing more, for now.
    Unready,
}

impl RequestProblemKind {
    /// Returns the stable, machine-readable category.
    pub(crate) fn category(self) -> &'static str {
        match self {
            Self::Unauthorized => "server_unauthorized",
            Self::KeyExpired => "server_key_expired",
            Self::KeyRevoked => "server_key_revoked",
            Self::TokenExpired => "server_token_expired",
            Self::TokenInvalid => "server_token_invalid",
            Self::Forbidden => "server_forbidden",
            Self::OriginForbidden => "server_origin_forbidden",
            Self::Invalid => "server_request_invalid",
            Self::RouteUnknown => "server_route_unknown",
            Self::MethodNotAllowed => "server_method_not_allowed",
            Self::RequestTimeout => "server_request_timeout",
            Self::BodyTooLarge => "server_body_too_large",
            Self::MediaTypeUnsupported => "server_media_type_unsupported",
            Self::RateLimited => "server_rate_limited",
            Self::QuotaExceeded => "server_quota_exceeded",
            Self::Failed => "server_failed",
            Self::Unready => "server_unready",
        }
    }

    /// Returns the status.
    pub(crate) fn http_status(self) -> StatusCode {
        match self {
            Self::Unauthorized
            | Self::KeyExpired
            | Self::KeyRevoked
            | Self::TokenExpired
            | Self::TokenInvalid => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::OriginForbidden => StatusCode::FORBIDDEN,
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::RouteUnknown => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaTypeUnsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RateLimited | Self::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unready => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the bucket, which tells the caller how to react.
    pub(crate) fn failure_bucket(self) -> FailureBucket {
        match self {
            Self::RequestTimeout | Self::RateLimited | Self::QuotaExceeded | Self::Failed | Self::Unready => {
                FailureBucket::RetryableTransient
            }
            Self::Unauthorized
            | Self::KeyExpired
            | Self::KeyRevoked
            | Self::TokenExpired
            | Self::TokenInvalid
            | Self::Forbidden
            | Self::OriginForbidden
            | Self::Invalid
            | Self::RouteUnknown
            | Self::MethodNotAllowed
            | Self::BodyTooLarge
            | Self::MediaTypeUnsupported => FailureBucket::UserCorrectable,
        }
    }

    /// Returns the kind for an error status of a library's response.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::Unauthorized,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::RouteUnknown,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::REQUEST_TIMEOUT => Self::RequestTimeout,
            StatusCode::PAYLOAD_TOO_LARGE => Self::BodyTooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::MediaTypeUnsupported,
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited,
            StatusCode::SERVICE_UNAVAILABLE => Self::Unready,
            it if it.is_client_error() => Self::Invalid,
            _ => Self::Failed,
        }
    }

    /// Returns the default message.
    pub(crate) fn default_message(self) -> &'static str {
        match self {
            Self::Unauthorized => "a valid key is needed",
            Self::KeyExpired => "the time of this key is over",
            Self::KeyRevoked => "this key was taken back",
            Self::TokenExpired => "the time of this token is over, or has not begun",
            Self::TokenInvalid => "this token is not believed here",
            Self::Forbidden => "this key may not do this",
            Self::OriginForbidden => "pages from elsewhere may not ask here",
            Self::Invalid => "the request is not right",
            Self::RouteUnknown => "there is no such path",
            Self::MethodNotAllowed => "this path is not used with this method",
            Self::RequestTimeout => "the body took too long to arrive",
            Self::BodyTooLarge => "the body is larger than allowed",
            Self::MediaTypeUnsupported => "the body is of a type that is not taken here",
            Self::RateLimited => "too many requests at once",
            Self::QuotaExceeded => "a quota is used up",
            Self::Failed => "something broke in the server",
            Self::Unready => "the server takes nothing more for now",
        }
    }
}
