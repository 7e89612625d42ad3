//! The file to begin with.

/// A file with one agent, and comments that show the rest. It is sound where `OPENAI_API_KEY` is set.
pub const SAMPLE: &str = include_str!("sample.toml");
