//! The errors of calls to a model.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use singletree_env::BoxError;

use crate::{ModelFinishReason, Response, TokenUsage};

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a provider call can fail with (spec: llm-provider §7).
///
/// `Display` is the diagnostic; the category says which kind it is. Neither ever holds a
/// credential or an upstream body: who builds a [`ProviderErrorDetail`] promises that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The credentials are missing, expired or refused.
    #[error(transparent)]
    Authentication(ProviderErrorDetail),
    /// The provider cannot be reached, or broke off.
    #[error(transparent)]
    Unavailable(ProviderErrorDetail),
    /// The provider does not know the model.
    #[error(transparent)]
    InvalidModel(ProviderErrorDetail),
    /// The provider knows the model but does not serve it yet.
    #[error(transparent)]
    ModelNotLoaded(ProviderErrorDetail),
    /// The provider asks us to slow down.
    #[error(transparent)]
    RateLimit(ProviderErrorDetail),
    /// The provider answered something that is no response.
    #[error(transparent)]
    InvalidResponse(ProviderErrorDetail),
    /// The request is malformed; nothing was sent.
    #[error(transparent)]
    InvalidRequest(ProviderErrorDetail),
    /// The model does not take a content block of the request.
    #[error(transparent)]
    UnsupportedContentBlock(ProviderErrorDetail),
    /// The model answered content that does not fit the response schema.
    #[error("the model's output does not fit the response schema: {}", .0.error_message)]
    StructuredOutputInvalid(Box<InvalidOutput>),
    /// The file of a scripted model is malformed.
    #[error(transparent)]
    Script(ProviderErrorDetail),
    /// The recording of a provider is malformed.
    #[error(transparent)]
    Cassette(ProviderErrorDetail),
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "provider_authentication",
            Self::Unavailable(_) => "provider_unavailable",
            Self::InvalidModel(_) => "provider_invalid_model",
            Self::ModelNotLoaded(_) => "provider_model_not_loaded",
            Self::RateLimit(_) => "provider_rate_limit",
            Self::InvalidResponse(_) => "provider_invalid_response",
            Self::InvalidRequest(_) => "provider_invalid_request",
            Self::UnsupportedContentBlock(_) => "provider_unsupported_content_block",
            Self::StructuredOutputInvalid(_) => "structured_output_invalid",
            Self::Script(_) => "script_invalid",
            Self::Cassette(_) => "cassette_invalid",
        }
    }

    /// Says whether the same request may succeed later (spec: llm-provider §7).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::ModelNotLoaded(_) | Self::RateLimit(_) => true,
            Self::Authentication(_)
            | Self::InvalidModel(_)
            | Self::InvalidResponse(_)
            | Self::InvalidRequest(_)
            | Self::UnsupportedContentBlock(_)
            | Self::StructuredOutputInvalid(_)
            | Self::Script(_)
            | Self::Cassette(_) => false,
        }
    }

    /// Returns how long the provider asked us to wait, if it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.error_detail().and_then(|detail| detail.retry_after)
    }

    /// Returns the HTTP status that this error was read from, if there was one.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        self.error_detail().and_then(|detail| detail.status)
    }

    /// Rewrites the diagnostic and keeps everything else. For those who know a secret that it must not hold.
    #[must_use]
    pub fn map_diagnostic(self, rewrite: impl Fn(&str) -> String) -> Self {
        let mapped = |detail: ProviderErrorDetail| ProviderErrorDetail {
            diagnostic: rewrite(&detail.diagnostic),
            ..detail
        };
        match self {
            Self::Authentication(detail) => Self::Authentication(mapped(detail)),
            Self::Unavailable(detail) => Self::Unavailable(mapped(detail)),
            Self::InvalidModel(detail) => Self::InvalidModel(mapped(detail)),
            Self::ModelNotLoaded(detail) => Self::ModelNotLoaded(mapped(detail)),
            Self::RateLimit(detail) => Self::RateLimit(mapped(detail)),
            Self::InvalidResponse(detail) => Self::InvalidResponse(mapped(detail)),
            Self::InvalidRequest(detail) => Self::InvalidRequest(mapped(detail)),
            Self::UnsupportedContentBlock(detail) => Self::UnsupportedContentBlock(mapped(detail)),
            Self::Script(detail) => Self::Script(mapped(detail)),
            Self::Cassette(detail) => Self::Cassette(mapped(detail)),
            Self::StructuredOutputInvalid(output) => {
                let error_message = rewrite(&output.error_message);
                Self::StructuredOutputInvalid(Box::new(InvalidOutput { error_message, ..*output }))
            }
        }
    }

    /// Returns the response that was read and refused, where there is one: of `provider_invalid_response`, a message
    /// that breaks the rules of its role, or whose calls do not fit the request. It is unchecked: callers that go on
    /// with it have to check each of its parts.
    #[must_use]
    pub fn refused_response(&self) -> Option<&Response> {
        self.error_detail().and_then(|detail| detail.response.as_ref()).map(|refused| refused.0.as_ref())
    }

    fn error_detail(&self) -> Option<&ProviderErrorDetail> {
        match self {
            Self::Authentication(detail)
            | Self::Unavailable(detail)
            | Self::InvalidModel(detail)
            | Self::ModelNotLoaded(detail)
            | Self::RateLimit(detail)
            | Self::InvalidResponse(detail)
            | Self::InvalidRequest(detail)
            | Self::UnsupportedContentBlock(detail)
            | Self::Script(detail)
            | Self::Cassette(detail) => Some(detail),
            Self::StructuredOutputInvalid(_) => None,
        }
    }
}

/// The details of an error beside its category.
#[derive(Debug, thiserror::Error)]
#[error("{diagnostic}")]
pub struct ProviderErrorDetail {
    diagnostic: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
    response: Option<RefusedResponse>,
    #[source]
    source: Option<BoxError>,
}

/// A response that was read and does not fit its request.
struct RefusedResponse(Box<Response>);

impl fmt::Debug for RefusedResponse {
    // Without the content: it is the model's text, and errors are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedResponse")
            .field("finish_reason", &self.0.finish_reason)
            .finish_non_exhaustive()
    }
}

impl ProviderErrorDetail {
    /// Makes a detail from a text that a person can act on: a lowercase fragment without secrets.
    #[must_use]
    pub fn new(diagnostic: impl Into<String>) -> Self {
        Self { diagnostic: diagnostic.into(), status: None, retry_after: None, response: None, source: None }
    }

    /// Keeps the HTTP status that the error was read from.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Keeps how long the provider asked us to wait.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Keeps the response that was read and refused.
    #[must_use]
    pub(crate) fn with_response(mut self, response: Response) -> Self {
        self.response = Some(RefusedResponse(Box::new(response)));
        self
    }

    /// Keeps the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the diagnostic.
    #[must_use]
    pub fn diagnostic(&self) -> &str {
        &self.diagnostic
    }
}

/// The data of a failed structured output, with which a caller can ask again with a correction (spec: llm-provider
/// §7).
#[derive(Clone, PartialEq)]
pub struct InvalidOutput {
    /// The schema that the request asked for.
    pub response_schema: Value,
    /// The model's output, verbatim.
    pub output_content: String,
    /// The mistake in the output, naming the failing path.
    pub error_message: String,
    /// Why the model stopped: `length` means that it was cut.
    pub finish_reason: ModelFinishReason,
    /// The tokens that the call used.
    pub usage: TokenUsage,
    /// The provider's identifier of the response.
    pub response_id: Option<String>,
    /// The model that the provider says it answered with.
    pub response_model: Option<String>,
}

impl fmt::Debug for InvalidOutput {
    // Without the content: it is the model's text, and errors are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InvalidOutput")
            .field("error_message", &self.error_message)
            .field("finish_reason", &self.finish_reason)
            .field("usage", &self.usage)
            .field("output_bytes", &self.output_content.len())
            .finish_non_exhaustive()
    }
}
