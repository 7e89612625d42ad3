//! The errors of a model call whose HTTP exchange failed.

use singletree_http::Error as HttpError;
use singletree_llm::{Error, ProviderErrorDetail};

/// Maps an error of the transport (spec: llm-provider §7). The diagnostic names the host and nothing else of the
/// address.
pub(crate) fn from_http_error(error: HttpError) -> Error {
    let category: fn(ProviderErrorDetail) -> Error = match error {
        HttpError::TooLarge { .. } | HttpError::Stream { .. } => Error::InvalidResponse,
        HttpError::Request { .. } | HttpError::Egress { .. } => Error::InvalidRequest,
        // Not reached, too slow, broken off; and variants that the HTTP crate may add.
        _ => Error::Unavailable,
    };
    let detail = ProviderErrorDetail::new(error.to_string());
    category(match error.into_source() {
        Some(source) => detail.with_source(source),
        None => detail,
    })
}
