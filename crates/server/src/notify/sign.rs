//! Signatures of webhook requests, as Standard Webhooks 1.0 defines them.
//!
//! Three headers: `webhook-id`, the same for all attempts to send a message; `webhook-timestamp`, the time of the
//! attempt in seconds since the Unix epoch; `webhook-signature`, for each secret `v1,` and the base64 of the
//! HMAC-SHA256 of id, timestamp and body with a dot between them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use singletree_http::Secret;

/// How many bytes a secret must have at least.
const BYTES_MIN: usize = 24;
/// The prefix of a secret that is written as base64.
const PREFIX: &str = "whsec_";

/// A key that signs messages. `Debug` hides it.
#[derive(Clone)]
pub(crate) struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Reads a secret.
    ///
    /// # Errors
    /// A reason why the secret is invalid; it contains no part of the secret.
    pub(super) fn from_secret(secret: &Secret) -> Result<Self, &'static str> {
        let text = secret.expose().trim();
        let bytes = match text.strip_prefix(PREFIX) {
            Some(base64) => STANDARD.decode(base64).map_err(|_| "what stands behind whsec_ is no base64")?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.len() < BYTES_MIN {
            return Err("the secret must have 24 bytes or more");
        }
        let mac = Hmac::new_from_slice(&bytes).map_err(|_| "the secret is no key")?;
        Ok(Self(mac))
    }

    fn sign_message(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(hidden)")
    }
}

/// Returns the headers of a message.
pub(super) fn signature_headers(
    keys: &[SigningKey],
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> Vec<(String, String)> {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign_message(id, timestamp, body)).collect();
    let headers = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signatures.join(" ")),
    ];
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<SigningKey, &'static str> {
        SigningKey::from_secret(&Secret::new(text))
    }

    // The example of the specification of Standard Webhooks 1.0.
    #[test]
    fn a_message_is_signed_as_others_sign_it() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let headers = signature_headers(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let expected = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn with_two_secrets_there_are_two_signatures() {
        let (one, two) = (key("an old secret of some length").unwrap(), key(&"n".repeat(24)).unwrap());
        let both = signature_headers(&[one.clone(), two.clone()], "i", 1, b"b");
        let each = [one, two].map(|item| item.sign_message("i", 1, b"b")).join(" ");
        assert_eq!(both[2].1, each);
    }

    #[test]
    fn a_secret_that_is_none_is_refused_and_never_shown() {
        let refused = |text: &str| key(text).err();
        assert_eq!(refused("short"), Some("the secret must have 24 bytes or more"));
        assert_eq!(refused("whsec_c2hvcnQ="), Some("the secret must have 24 bytes or more"));
        assert_eq!(refused("whsec_!"), Some("what stands behind whsec_ is no base64"));
        assert_eq!(format!("{:?}", key("canary-canary-canary-canary").unwrap()), "SigningKey(hidden)");
    }
}
