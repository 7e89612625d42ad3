//! The stored record of a key.

use serde::{Deserialize, Serialize};
use singletree_durable::{TenantId, Timestamp};
use singletree_protocol::native::{ApiKey, KeyScope, KeyState};
use subtle::{Choice, ConstantTimeEq};

use crate::caller::Scope;
use crate::native::convert_time;

/// The stored record of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredKeyRecord {
    pub(super) name: String,
    pub(super) scopes: Vec<KeyScope>,
    /// The digest of its text, in hexadecimal.
    digest: String,
    /// The one before the last rotation, and until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<(String, Timestamp)>,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_used_at: Option<Timestamp>,
}

impl StoredKeyRecord {
    pub(super) fn new(name: String, scopes: Vec<KeyScope>, digest: &[u8; 32], now: Timestamp) -> Self {
        let (previous, expires_at, revoked_at, last_used_at) = (None, None, None, None);
        let digest = encode_hex(digest);
        Self { name, scopes, digest, previous, created_at: now, expires_at, revoked_at, last_used_at }
    }

    /// Gives it another secret; the one that it had stays good until then.
    pub(super) fn rotate_secret(&mut self, digest: &[u8; 32], until: Timestamp) {
        self.previous = Some((std::mem::replace(&mut self.digest, encode_hex(digest)), until));
    }

    /// Tells whether a text with this digest is its own, without telling by the time it takes how near it came.
    pub(super) fn matches_digest(&self, digest: &[u8; 32], now: Timestamp) -> bool {
        let digest = encode_hex(digest);
        let same = |kept: &str| kept.as_bytes().ct_eq(digest.as_bytes());
        let before = self
            .previous
            .as_ref()
            .map_or(Choice::from(0), |(kept, until)| same(kept) & Choice::from(u8::from(now < *until)));
        (same(&self.digest) | before).into()
    }

    /// Returns until when a text with this digest is good, which is its own.
    pub(super) fn valid_until(&self, digest: &[u8; 32], now: Timestamp) -> Option<Timestamp> {
        let is_present = bool::from(self.digest.as_bytes().ct_eq(encode_hex(digest).as_bytes()));
        let rotated = self.previous.as_ref().map(|(_, until)| *until).filter(|it| !is_present && now < *it);
        self.expires_at.into_iter().chain(rotated).min()
    }

    /// Returns whether it is good.
    pub(super) fn key_state_at(&self, now: Timestamp) -> KeyState {
        if self.revoked_at.is_some() {
            KeyState::Revoked
        } else if self.expires_at.is_some_and(|expires_at| expires_at <= now) {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }

    /// Returns it as it is shown.
    pub(super) fn to_api_key(&self, tenant: &TenantId, id: &str, now: Timestamp) -> ApiKey {
        let previous = self.previous.as_ref().map(|(_, until)| *until);
        ApiKey {
            id: id.to_owned(),
            tenant: tenant.to_string(),
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            state: self.key_state_at(now),
            created_at: convert_time(self.created_at),
            expires_at: self.expires_at.map(convert_time),
            revoked_at: self.revoked_at.map(convert_time),
            last_used_at: self.last_used_at.map(convert_time),
            old_secret_until: previous.filter(|previous| *previous > now).map(convert_time),
        }
    }

    /// Returns its scopes.
    pub(super) fn granted_scopes(&self) -> Vec<Scope> {
        self.scopes.iter().map(|it| convert_scope(*it)).collect()
    }
}

fn convert_scope(scope: KeyScope) -> Scope {
    match scope {
        KeyScope::Read => Scope::Read,
        KeyScope::Write => Scope::Write,
        KeyScope::Approve => Scope::Approve,
        KeyScope::Admin => Scope::Admin,
    }
}

fn encode_hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
