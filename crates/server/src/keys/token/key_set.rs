//! The public keys of a file, read again when the file changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use singletree_durable::Timestamp;

use crate::{Error, Result};

/// Bytes of the largest file that is read.
const FILE_BYTES: u64 = 1 << 20;
/// How often it is looked whether the file has changed.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// The keys of a file.
#[derive(Debug)]
pub(super) struct TokenKeySet {
    path: PathBuf,
    /// Guards the keys of the file and the state of the last look; held while the file is read again.
    known: Mutex<LoadedTokenKeys>,
}

#[derive(Debug)]
struct LoadedTokenKeys {
    keys: Vec<TokenVerificationKey>,
    /// When the file was last written, and how long it is.
    stamp: Option<(SystemTime, u64)>,
    looked: Option<Timestamp>,
}

#[derive(Clone)]
struct TokenVerificationKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for TokenVerificationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?}, {:?})", self.id, self.algorithm)
    }
}

/// A key set. Its keys are parsed one by one: keys of unknown types are skipped (RFC 7517 §5).
#[derive(Debug, Deserialize)]
struct JsonWebKeySet {
    keys: Vec<Value>,
}

impl TokenKeySet {
    pub(super) fn load_from_file(path: &Path) -> Result<Self> {
        let (keys, stamp) = read_key_file(path)?;
        let known = LoadedTokenKeys { keys, stamp: Some(stamp), looked: None };
        Ok(Self { path: path.to_owned(), known: Mutex::new(known) })
    }

    /// Reads the file again if it has changed. While it cannot be read, the keys that were in it last are good.
    pub(super) fn reload_if_changed(&self, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_some_and(|looked| now >= looked && now.duration_since(looked) < LOOKED_EVERY) {
            return;
        }
        known.looked = Some(now);
        let stamp = fs::metadata(&self.path)
            .ok()
            .and_then(|metadata| Some((metadata.modified().ok()?, metadata.len())));
        if stamp.is_some()
            && stamp != known.stamp
            && let Ok((keys, stamp)) = read_key_file(&self.path)
        {
            (known.keys, known.stamp) = (keys, Some(stamp));
        }
    }

    /// Finds the key of an id, for an algorithm. A token that names no key is checked by the only one of its algorithm.
    pub(super) fn find_decoding_key(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = known.keys.iter().filter(|key| key.algorithm == algorithm);
        let found = match id {
            Some(id) => fitting.find(|it| it.id.as_deref() == Some(id)),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        };
        found.map(|found| found.key.clone())
    }
}

fn read_key_file(path: &Path) -> Result<(Vec<TokenVerificationKey>, (SystemTime, u64))> {
    let wrong = |why: String| Error::KeySet { path: path.to_owned(), why };
    let about = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.len() > FILE_BYTES {
        return Err(wrong(format!("it has more than {FILE_BYTES} bytes")));
    }
    let stamp = (about.modified().map_err(|error| wrong(error.to_string()))?, about.len());
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let set: JsonWebKeySet = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let keys: Vec<TokenVerificationKey> = set.keys.into_iter().filter_map(parse_verification_key).collect();
    if keys.is_empty() {
        return Err(wrong("it has no public key for RS256, ES256 or EdDSA".to_owned()));
    }
    Ok((keys, stamp))
}

/// Returns a key that tokens may be signed with here.
fn parse_verification_key(key: Value) -> Option<TokenVerificationKey> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        // A shared secret is none that others may sign with; other curves are not asked for.
        AlgorithmParameters::EllipticCurve(_)
        | AlgorithmParameters::OctetKeyPair(_)
        | AlgorithmParameters::OctetKey(_) => return None,
    };
    let named = jwk
        .common
        .key_algorithm
        .is_none_or(|key_algorithm| key_algorithm.to_string() == format!("{algorithm:?}"));
    let signs = jwk
        .common
        .public_key_use
        .as_ref()
        .is_none_or(|public_key_use| *public_key_use == PublicKeyUse::Signature);
    if !named || !signs {
        return None;
    }
    Some(TokenVerificationKey {
        id: jwk.common.key_id.clone(),
        algorithm,
        key: DecodingKey::from_jwk(&jwk).ok()?,
    })
}
