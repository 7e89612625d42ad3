//! Thinking of which Anthropic shows the signature only.
//!
//! A model that omits its reasoning sends thinking blocks without text. A thinking block of ours has text (spec:
//! llm-provider §3.1.4), and the block must be sent back unchanged; so it is stored as redacted thinking, that is,
//! reasoning that the provider withholds, and its data says where the signature belongs. Data of a real redacted
//! block is base64 and has no colon.

const MARK: &str = "thinking-signature:";

/// Keeps a signature without text.
pub(super) fn signature_to_data(signature: &str) -> String {
    format!("{MARK}{signature}")
}

/// Returns the signature that was kept so.
pub(super) fn signature_from_data(data: &str) -> Option<&str> {
    data.strip_prefix(MARK)
}
