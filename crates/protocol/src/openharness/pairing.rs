//! Pairing of a device: what is said outside of the message contract (spec: OpenHarness guide device-pairing-session).
//!
//! A device that has nothing yet asks for a code and shows it. Somebody who may says that the code is theirs; the device is
//! given a token of its own. `Debug` shows neither codes nor tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::given::read_optional_field;

/// A device asks for a code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PairCreate {
    /// What it is called, for people.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// What tells it from others: an opaque text. If there is one, only who knows it gets the token.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub device_fingerprint: Option<String>,
}

/// The code that the device shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCreated {
    /// What the device shows: 8 of A-Z and 0-9.
    pub code: String,
    /// What the device fetches its token by; not for showing.
    pub pairing_id: String,
    /// Until when, as RFC 3339 has it.
    pub expires_at: String,
    /// The same as seconds from now on.
    pub expires_in_sec: u64,
}

/// Somebody who may says that a code is theirs.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PairConfirm {
    /// What the device shows.
    pub code: String,
    /// Whose device it is to be; the caller's own tenant, and no other.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// In which session the device talks; one of its own otherwise.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What the device may do; `read` and `write` otherwise.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

/// A device fetches its token.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PairClaim {
    /// What it was given with the code.
    pub pairing_id: String,
    /// What tells it from others, as when it asked.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub device_fingerprint: Option<String>,
}

/// What a device talks by from now on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paired {
    /// What it sends as `Authorization: Bearer`.
    pub access_token: String,
    /// In which session it talks.
    pub session_id: String,
    /// The name of the token, for `auth.credential_ref`.
    pub credential_ref: String,
    /// The device.
    pub device_id: String,
    /// Whose it is.
    pub tenant_id: String,
}

/// A device is not to talk any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PairRevoke {
    /// Which.
    pub device_id: String,
    /// Whose it is; the caller's own tenant, and no other.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
}

impl fmt::Debug for PairCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairCreated").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl fmt::Debug for PairConfirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairConfirm").field("tenant_id", &self.tenant_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for PairClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairClaim").finish_non_exhaustive()
    }
}

impl fmt::Debug for Paired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paired").field("device_id", &self.device_id).finish_non_exhaustive()
    }
}
