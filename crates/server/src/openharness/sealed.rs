//! Text that the store keeps encrypted: it can be decrypted only with the secret that sealed it.
//!
//! An answer that is returned again byte for byte contains tokens, of which the store has only digests. So the answer
//! is encrypted with a key that the requester brings: its own token, or its own request. HMAC-SHA-256 over a nonce
//! and a counter makes the key stream, one more over the nonce and the ciphertext the proof of integrity.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use singletree_env::RandomSource;

const NONCE: usize = 16;
const PROOF: usize = 16;

/// Encrypts a text with a key.
pub(super) fn seal_text(key: &[u8; 32], text: &[u8], entropy: &dyn RandomSource) -> String {
    let mut nonce = [0; NONCE];
    entropy.fill_bytes(&mut nonce);
    let mut sealed = nonce.to_vec();
    sealed.extend_from_slice(text);
    apply_key_stream(key, &nonce, &mut sealed[NONCE..]);
    let proof = compute_proof(key, &sealed);
    sealed.extend_from_slice(&proof);
    STANDARD_NO_PAD.encode(sealed)
}

/// Decrypts a sealed text; `None` if the key is another one, or the text was changed.
pub(super) fn unseal_text(key: &[u8; 32], sealed: &str) -> Option<Vec<u8>> {
    let sealed = STANDARD_NO_PAD.decode(sealed).ok()?;
    let (sealed, given) = sealed.split_at_checked(sealed.len().checked_sub(PROOF)?)?;
    if !bool::from(compute_proof(key, sealed).ct_eq(given)) {
        return None;
    }
    let (nonce, text) = sealed.split_at_checked(NONCE)?;
    let mut text = text.to_vec();
    apply_key_stream(key, nonce, &mut text);
    Some(text)
}

fn apply_key_stream(key: &[u8; 32], nonce: &[u8], text: &mut [u8]) {
    for (counter, block) in (0_u64..).zip(text.chunks_mut(32)) {
        let pad = compute_mac(key, &[b"stream", nonce, &counter.to_be_bytes()]);
        for (byte, pad) in block.iter_mut().zip(pad) {
            *byte ^= pad;
        }
    }
}

fn compute_proof(key: &[u8; 32], sealed: &[u8]) -> [u8; PROOF] {
    let whole = compute_mac(key, &[b"proof", sealed]);
    let mut proof = [0; PROOF];
    proof.copy_from_slice(&whole[..PROOF]);
    proof
}

fn compute_mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC may have any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use singletree_env::SystemRandomSource;

    #[test]
    fn who_has_the_key_gets_the_text_and_nobody_else() {
        let key = [7; 32];
        for length in [0, 1, 31, 32, 33, 1000] {
            let text: Vec<u8> = (0..length).map(|it| (it % 251) as u8).collect();
            let sealed = seal_text(&key, &text, &SystemRandomSource);
            assert_eq!(unseal_text(&key, &sealed), Some(text.clone()));
            assert_eq!(unseal_text(&[8; 32], &sealed), None);
            let mut bytes = STANDARD_NO_PAD.decode(&sealed).unwrap();
            assert!(length < 16 || !bytes.windows(16).any(|window| window == &text[..16]));
            // The first byte of the text, or of the proof where there is no text.
            bytes[NONCE] ^= 1;
            assert_eq!(unseal_text(&key, &STANDARD_NO_PAD.encode(&bytes)), None);
        }
        assert_eq!(
            [unseal_text(&key, ""), unseal_text(&key, "AAAA"), unseal_text(&key, "?")],
            [None, None, None]
        );
        let twice =
            [seal_text(&key, b"same", &SystemRandomSource), seal_text(&key, b"same", &SystemRandomSource)];
        assert_ne!(twice[0], twice[1]);
    }
}
