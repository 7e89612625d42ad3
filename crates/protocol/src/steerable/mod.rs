//! Steerable chat: ChatMessage, ChatAgent, the stream.
