//! The judge of llm-provider's cases, judged.
