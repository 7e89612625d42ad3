//! Keyed hashes of names.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::ErasedName;

/// Returns the HMAC-SHA-256 of some texts, in lower-case hexadecimal.
///
/// # Panics
/// Never: HMAC takes a key of any length.
#[must_use]
pub fn hmac_of_texts(key: &str, texts: &[&str]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of HMAC may have any length");
    for text in texts {
        // With its length, so that no two lists of texts run into the same bytes.
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    let mut hash = String::with_capacity(64);
    for byte in mac.finalize().into_bytes() {
        write!(hash, "{byte:02x}").expect("text grows");
    }
    hash
}

/// Returns the hash under which a list has a name.
pub(crate) fn hash_erased_name(key: &str, name: &ErasedName) -> String {
    match name {
        ErasedName::Tenant(tenant) => hmac_of_texts(key, &["tenant", tenant.as_str()]),
        ErasedName::Subject(tenant, subject) => {
            hmac_of_texts(key, &["subject", tenant.as_str(), subject.as_str()])
        }
        ErasedName::Session(session) => {
            hmac_of_texts(key, &["session", session.tenant.as_str(), session.session.as_str()])
        }
        ErasedName::Key(tenant, id) => hmac_of_texts(key, &["key", tenant.as_str(), id]),
    }
}
