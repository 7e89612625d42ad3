//! Digests of texts, for names and comparisons.

use sha2::{Digest, Sha256};

/// Digests parts, each with its length, so that two different lists of parts never give the same bytes.
pub(super) fn digest_parts(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// As [`parts`], in lower-case hexadecimal.
pub(super) fn digest_parts_hex(of: &[&str]) -> String {
    encode_hex(&digest_parts(of))
}

/// Digests one text as it is, in lower-case hexadecimal.
pub(super) fn digest_text_hex(text: &str) -> String {
    encode_hex(&Sha256::digest(text))
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
