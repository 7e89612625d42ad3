//! The errors of failed answers (spec: llm-provider §8.1.3).

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail};

use crate::mapping::{FailedResponse, error_field, error_text};
use crate::rejection::names_a_block;

/// Classifies an answer by its status and the text of its body. Statuses that the specification does not list: 402 is
/// a matter of the account; 408, 409, 425 may pass; every other 4xx is a mistake of the request, as are redirects,
/// which are not followed.
pub(super) fn classify_failure(refusal: &FailedResponse<'_>) -> Error {
    let said = OpenAiErrorFields::from_body(refusal.body);
    error_category(refusal.status, &said)(refusal.error_detail())
}

/// Classifies an error that came in the place of an answer, or in the middle of one, under a successful status.
pub(super) fn in_band_error(body: &Value) -> Error {
    let said = OpenAiErrorFields::from_body(Some(body));
    let text =
        error_text(body, "message").map_or_else(|| "the server failed on the way".to_owned(), str::to_owned);
    error_category(said.equivalent_status(), &said)(ProviderErrorDetail::new(text))
}

fn error_category(status: u16, said: &OpenAiErrorFields<'_>) -> fn(ProviderErrorDetail) -> Error {
    match status {
        401..=403 => Error::Authentication,
        400 | 404 if said.is_unknown_model() => Error::InvalidModel,
        400 if said.is_block_refused() => Error::UnsupportedContentBlock,
        503 if said.is_model_loading() => Error::ModelNotLoaded,
        429 => Error::RateLimit,
        408 | 409 | 425 | 500.. => Error::Unavailable,
        300..=499 => Error::InvalidRequest,
        _ => Error::InvalidResponse,
    }
}

/// The fields of an error's body, in lower case.
struct OpenAiErrorFields<'a> {
    code: Option<&'a Value>,
    kinds: String,
    message: String,
}

impl<'a> OpenAiErrorFields<'a> {
    fn from_body(body: Option<&'a Value>) -> Self {
        let field = |name: &str| body.and_then(|body| error_text(body, name)).unwrap_or_default();
        Self {
            code: body.and_then(|body| error_field(body, "code")),
            kinds: format!("{} {}", field("code"), field("type")).to_ascii_lowercase(),
            message: field("message").to_ascii_lowercase(),
        }
    }

    fn message_contains(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.message.contains(word))
    }

    fn kind_contains(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.kinds.contains(kind))
    }

    fn is_unknown_model(&self) -> bool {
        self.kind_contains(&["model_not_found", "invalid_model"])
            || (self.message_contains(&["model"])
                && self.message_contains(&[
                    "not found",
                    "does not exist",
                    "not a valid model",
                    "invalid model",
                ]))
    }

    fn is_model_loading(&self) -> bool {
        self.kind_contains(&["model_not_loaded", "model_loading"])
            || (self.message_contains(&["model"]) && self.message_contains(&["loading", "not loaded"]))
    }

    fn is_block_refused(&self) -> bool {
        self.kind_contains(&[
            "image_content_not_supported",
            "unsupported_image",
            "invalid_image_format",
            "unsupported_content",
        ]) || names_a_block(&self.message)
    }

    /// Returns the status that an error under a successful one stands for.
    fn equivalent_status(&self) -> u16 {
        let written = self.code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        if let Some(status) =
            written.and_then(|written| u16::try_from(written).ok()).filter(|it| (400..600).contains(it))
        {
            return status;
        }
        match () {
            () if self.kind_contains(&["rate_limit", "insufficient_quota", "too_many_requests"]) => 429,
            () if self.kind_contains(&["invalid_api_key", "authentication", "permission"]) => 401,
            () if self.is_model_loading() => 503,
            () if self.kind_contains(&["model_not_found", "not_found"]) => 404,
            () if self.kind_contains(&[
                "invalid_request",
                "context_length",
                "image_content_not_supported",
                "badrequest",
            ]) =>
            {
                400
            }
            () => 500,
        }
    }
}
