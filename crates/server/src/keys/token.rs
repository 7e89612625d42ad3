//! Bearer tokens that somebody else signed (RFC 7519), checked by the public keys in a file (RFC 7517).

mod claims;
mod key_set;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::TokenClaims;
use jsonwebtoken::Algorithm;
use key_set::TokenKeySet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use singletree_engine::Clock;

use crate::Result;
use crate::caller::Caller;
use crate::problem::{RequestProblem, RequestProblemKind};

/// Which tokens the server accepts, and how their claims map to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPolicy {
    /// The file of the public keys: a JSON Web Key Set. Read again when it changes.
    pub key_set: PathBuf,
    /// Who must have made a token: its `iss`.
    pub issuer: String,
    /// For whom it must be: one of these is in its `aud`.
    pub audiences: Vec<String>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists the scopes: a list, or a text of words separated by spaces.
    pub scope_claim: String,
    /// The prefix of our scopes in this claim; words without it are ignored.
    pub scope_prefix: String,
    /// By how much the clocks may differ.
    pub leeway: Duration,
}

/// Checks tokens.
#[derive(Debug)]
pub(crate) struct TokenVerifier {
    policy: TokenPolicy,
    keys: TokenKeySet,
    clock: Arc<dyn Clock>,
}

/// The fields of a token's header that are checked.
#[derive(Debug, Deserialize)]
struct TokenHeader {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// The extensions that a reader must understand. None is supported, so a token with this field is refused (RFC 7515
    /// §4.1.11).
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

impl TokenVerifier {
    /// Opens the file of the keys.
    ///
    /// # Errors
    /// `server_key_set_invalid`.
    pub(super) fn from_policy(policy: TokenPolicy, clock: Arc<dyn Clock>) -> Result<Self> {
        let keys = TokenKeySet::load_from_file(&policy.key_set)?;
        Ok(Self { policy, keys, clock })
    }

    /// Returns who shows a token, if it is one that is believed.
    pub(super) fn authenticate_token(&self, token: &str) -> Result<Caller, RequestProblem> {
        let claims = self.verify_signature(token).ok_or_else(|| {
            RequestProblem::from_kind(
                RequestProblemKind::TokenInvalid,
                RequestProblemKind::TokenInvalid.default_message(),
            )
        })?;
        claims.authenticate_caller(&self.policy, self.clock.now())
    }

    /// Returns the claims of a token, if one of our keys signed it. The reason of a refusal is not reported.
    fn verify_signature(&self, token: &str) -> Option<TokenClaims> {
        let (message, signature) = token.rsplit_once('.')?;
        let (head, body) = message.split_once('.')?;
        let head: TokenHeader = decode_json_part(head)?;
        if head.crit.is_some() {
            return None;
        }
        let algorithm = match head.alg.as_str() {
            "RS256" => Algorithm::RS256,
            "ES256" => Algorithm::ES256,
            "EdDSA" => Algorithm::EdDSA,
            // `none`, and algorithms whose key is a shared secret, which a public key is not.
            _ => return None,
        };
        self.keys.reload_if_changed(self.clock.now());
        let key = self.keys.find_decoding_key(head.kid.as_deref(), algorithm)?;
        let good = jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, algorithm);
        if good.ok()? { decode_json_part(body) } else { None }
    }
}

fn decode_json_part<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}
