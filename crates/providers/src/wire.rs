//! The vendors' protocols.

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
