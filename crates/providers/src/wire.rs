//! The vendors' protocols.

use crate::anthropic::AnthropicMapping;
use crate::gemini::GeminiMapping;
use crate::mapping::WireMapping;
use crate::openai::OpenAiMapping;

/// A vendor's protocol for asking a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// `POST /v1/chat/completions`: OpenAI, and who speaks like it (vLLM, llama.cpp, Ollama, OpenRouter).
    OpenAi,
    /// `POST /v1/messages`: Anthropic.
    Anthropic,
    /// `POST /v1beta/models/{model}:generateContent`: Gemini.
    Gemini,
}

impl Wire {
    /// Returns the address of the vendor's own server.
    #[must_use]
    pub fn vendor_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// Returns the identifier of the vendor's own system (spec: observability §5.5.3).
    #[must_use]
    pub fn system_name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gcp.gemini",
        }
    }

    /// Returns how the protocol is spoken.
    pub(crate) fn wire_mapping(self) -> Box<dyn WireMapping> {
        match self {
            Self::OpenAi => Box::new(OpenAiMapping),
            Self::Anthropic => Box::new(AnthropicMapping),
            Self::Gemini => Box::new(GeminiMapping),
        }
    }
}
