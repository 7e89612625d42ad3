//! The errors of failed answers (spec: llm-provider §8.1.3).

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail};

use crate::mapping::{FailedResponse, error_field, told};
use crate::rejection::names_a_block;

/// Classifies an answer by its status and the text of its body. Statuses that the specification does not list: 402 is
/// a matter of the account; 408, 409, 425 may pass; every other 4xx is a mistake of the request, as are redirects,
/// which are not followed.
pub(super) fn refuse(refusal: &FailedResponse<'_>) -> Error {
    let said = OpenAiErrorFields::of(refusal.body);
    category(refusal.status, &said)(refusal.detail())
}

/// Classifies an error that came in the place of an answer, or in the middle of one, under a successful status.
pub(super) fn in_band(body: &Value) -> Error {
    let said = OpenAiErrorFields::of(Some(body));
    let text = told(body, "message").map_or_else(|| "the server failed on the way".to_owned(), str::to_owned);
    category(said.status(), &said)(ProviderErrorDetail::new(text))
}

fn category(status: u16, said: &OpenAiErrorFields<'_>) -> fn(ProviderErrorDetail) -> Error {
    match status {
        401..=403 => Error::Authentication,
        400 | 404 if said.unknown_model() => Error::InvalidModel,
        400 if said.refused_block() => Error::UnsupportedContentBlock,
        503 if said.loading() => Error::ModelNotLoaded,
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
    fn of(body: Option<&'a Value>) -> Self {
        let field = |name: &str| body.and_then(|body| told(body, name)).unwrap_or_default();
        Self {
            code: body.and_then(|body| error_field(body, "code")),
            kinds: format!("{} {}", field("code"), field("type")).to_ascii_lowercase(),
            message: field("message").to_ascii_lowercase(),
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.message.contains(word))
    }

    fn is(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.kinds.contains(kind))
    }

    fn unknown_model(&self) -> bool {
        self.is(&["model_not_found", "invalid_model"])
            || (self.says(&["model"])
                && self.says(&["not found", "does not exist", "not a valid model", "invalid model"]))
    }

    fn loading(&self) -> bool {
        self.is(&["model_not_loaded", "model_loading"])
            || (self.says(&["model"]) && self.says(&["loading", "not loaded"]))
    }

    fn refused_block(&self) -> bool {
        self.is(&[
            "image_content_not_supported",
            "unsupported_image",
            "invalid_image_format",
            "unsupported_content",
        ]) || names_a_block(&self.message)
    }

    /// Returns the status that an error under a successful one stands for.
    fn status(&self) -> u16 {
        let written = self.code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        if let Some(status) =
            written.and_then(|written| u16::try_from(written).ok()).filter(|it| (400..600).contains(it))
        {
            return status;
        }
        match () {
            () if self.is(&["rate_limit", "insufficient_quota", "too_many_requests"]) => 429,
            () if self.is(&["invalid_api_key", "authentication", "permission"]) => 401,
            () if self.loading() => 503,
            () if self.is(&["model_not_found", "not_found"]) => 404,
            () if self.is(&[
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
