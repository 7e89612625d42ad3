//! The text of a key: `st_ID_SECRET`.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use singletree_http::Secret;

use singletree_env::RandomSource;

/// How the texts of all keys begin: scanners of secrets know them by it.
pub(super) const BEGIN: &str = "st_";

/// Bytes of an id, of which it has twice as many digits.
const ID_BYTES: usize = 8;
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The id of the key that the server draws for its operator at each start. No other key has it: ids are hexadecimal.
pub(super) const OPERATOR: &str = "operator";

/// A key that was just drawn.
pub(super) struct GeneratedKey {
    pub(super) id: String,
    /// Its text, to be shown once.
    pub(super) text: Secret,
    /// The digest of its text, which is stored.
    pub(super) digest: [u8; 32],
}

/// Draws a key.
pub(super) fn generate_key(entropy: &dyn RandomSource) -> GeneratedKey {
    let mut id = [0; ID_BYTES];
    entropy.fill_bytes(&mut id);
    let id = id.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes what is written to it");
        text
    });
    generate_secret(entropy, &id)
}

/// Draws a secret for a key that has an id.
pub(super) fn generate_secret(entropy: &dyn RandomSource, id: &str) -> GeneratedKey {
    let mut secret = [0; SECRET_BYTES];
    entropy.fill_bytes(&mut secret);
    let text = format!("{BEGIN}{id}_{}", encode_base32(&secret));
    let digest = digest_key_text(&text);
    GeneratedKey { id: id.to_owned(), text: Secret::new(text), digest }
}

/// Draws the token of a cookie: a secret without an id.
pub(super) fn generate_token(entropy: &dyn RandomSource) -> String {
    let mut secret = [0; SECRET_BYTES];
    entropy.fill_bytes(&mut secret);
    encode_base32(&secret)
}

/// Returns the digest of a secret as text. It is the id of the document that is stored for the secret.
pub(super) fn base32_digest(text: &str) -> String {
    encode_base32(&digest_key_text(text))
}

/// Returns the id in the text of a key, if it has the form of one.
pub(super) fn parse_key_id(text: &str) -> Option<&str> {
    let (id, secret) = text.strip_prefix(BEGIN)?.split_once('_')?;
    let known =
        id == OPERATOR || (id.len() == 2 * ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (known && !secret.is_empty()).then_some(id)
}

/// Returns the digest of a key's text, which is stored in place of the text.
pub(super) fn digest_key_text(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Writes bytes as letters and digits that a double click selects as one word (RFC 4648 §6, lower case, no padding).
fn encode_base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digit = |index: usize| {
        let bit = |at: usize| bytes.get(at / 8).is_some_and(|bytes| bytes >> (7 - at % 8) & 1 == 1);
        let value = (5 * index..5 * index + 5).fold(0, |value, at| 2 * value + usize::from(bit(at)));
        char::from(DIGITS[value])
    };
    (0..(8 * bytes.len()).div_ceil(5)).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use singletree_env::SystemRandomSource;

    #[test]
    fn bytes_are_written_as_the_standard_has_it() {
        // RFC 4648 §10
        let check = |text: &str, written: &str| assert_eq!(encode_base32(text.as_bytes()), written);
        check("", "");
        check("f", "my");
        check("fo", "mzxq");
        check("foo", "mzxw6");
        check("foobar", "mzxw6ytboi");
    }

    #[test]
    fn a_key_names_its_id_and_is_never_drawn_twice() {
        let (one, two) = (generate_key(&SystemRandomSource), generate_key(&SystemRandomSource));
        assert_eq!(parse_key_id(one.text.expose()), Some(one.id.as_str()));
        assert_eq!(one.text.expose().len(), "st_".len() + 16 + 1 + 52);
        assert_ne!(one.text.expose(), two.text.expose());
        assert_eq!(digest_key_text(one.text.expose()), one.digest);
    }

    #[test]
    fn what_has_not_the_form_of_a_key_names_nothing() {
        for text in
            ["", "st_", "st__x", "st_0011_x", "st_00112233445566zz_x", "sk-00", "st_0011223344556677_"]
        {
            assert_eq!(parse_key_id(text), None, "{text}");
        }
    }
}
