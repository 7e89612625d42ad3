//! Devices that wait for a key: their stored state, and its lifetime.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, StoredDocument,
    TenantId, Timestamp,
};
use singletree_protocol::openharness::PairCreate;
use subtle::ConstantTimeEq;

use super::super::digest;
use super::CODE_TTL;
use super::told::PairingRefusal;
use crate::caller::operator_tenant;
use crate::problem::RequestProblem;
use crate::shared::ServerState;

/// The kind of the documents that are found by the code.
const CODE: &str = "pairing";

/// The kind of the documents that are found by the device's own id.
const DEVICE: &str = "pairing_device";

/// The maximum number of waiting devices: anybody may ask for a code.
const WAITING_MAX: usize = 64;

/// The characters of codes.
const LETTERS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

const CODE_LETTERS: usize = 8;

/// A code, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPairingCode {
    /// The name of the device's own document.
    device: String,
    /// The device's display name.
    name: Option<String>,
}

/// A valid code, with its device.
pub(super) struct ValidPairingCode {
    waiting: StoredPairingCode,
    code: (DocumentKey, u64),
    device: Option<(u64, StoredDevice)>,
}

/// A device, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct StoredDevice {
    /// The digest of the fingerprint that identifies the device.
    fingerprint: Option<String>,
    key: Option<ConfirmedPairing>,
}

/// The result of a confirmed pairing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfirmedPairing {
    pub(super) tenant: TenantId,
    /// The id of the device's key.
    pub(super) key: String,
    pub(super) session: String,
}

/// A waiting device: the code that it shows, and the id with which it fetches its key.
pub(super) struct WaitingDevice {
    pub(super) code: String,
    pub(super) id: String,
    pub(super) until: Timestamp,
}

/// The state of a device.
pub(super) enum DevicePairingState {
    Waiting(Option<Timestamp>),
    /// The result for the device, and the change that makes it available only once.
    Confirmed(ConfirmedPairing, DocumentChange),
}

/// The reason why an operation is not done.
pub(super) enum PairingStoreError {
    Refused(PairingRefusal),
    Failed(RequestProblem),
}

impl From<StoreError> for PairingStoreError {
    fn from(error: StoreError) -> Self {
        crate::Error::from(error).into()
    }
}

impl From<crate::Error> for PairingStoreError {
    fn from(error: crate::Error) -> Self {
        match error {
            // Another request was first.
            crate::Error::Store(StoreError::Refused { .. }) => PairingRefusal::Code.into(),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<RequestProblem> for PairingStoreError {
    fn from(problem: RequestProblem) -> Self {
        Self::Failed(problem)
    }
}

impl From<PairingRefusal> for PairingStoreError {
    fn from(refusal: PairingRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Makes a code for a device.
pub(super) async fn make_pairing_code(
    shared: &ServerState,
    asked: &PairCreate,
) -> Result<WaitingDevice, PairingStoreError> {
    let now = shared.now();
    let kept =
        shared.documents.read_documents(&operator_tenant(), CODE, None, WAITING_MAX as u64 * 4).await?;
    let (over, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|item| has_expired(item, now));
    if waiting.len() >= WAITING_MAX {
        return Err(PairingRefusal::Attempts.into());
    }
    let until = now.saturating_add(CODE_TTL);
    loop {
        let (code, id) = (draw_pairing_code(shared), draw_pairing_id(shared));
        let device = digest::digest_parts_hex(&["pairing id", &id]);
        let fingerprint = asked.device_fingerprint.as_deref().map(digest_fingerprint);
        let waiting = StoredPairingCode { device: device.clone(), name: asked.device_name.clone() };
        let mut changes = vec![
            build_document_change(
                (CODE, &code_document_name(&code)),
                DocumentPrecondition::Absent,
                &waiting,
                until,
            ),
            build_document_change(
                (DEVICE, &device),
                DocumentPrecondition::Absent,
                &StoredDevice { fingerprint, key: None },
                until,
            ),
        ];
        // Expired codes make room.
        changes.extend(
            over.iter()
                .map(|it| DocumentChange::Remove { key: it.key.clone(), expect: DocumentPrecondition::Any }),
        );
        match shared.documents.change_documents(changes).await {
            Ok(()) => return Ok(WaitingDevice { code, id, until }),
            // The code is in use: draws another one.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Finds the device of a code.
pub(super) async fn find_pairing_code(
    shared: &ServerState,
    code: &str,
) -> Result<ValidPairingCode, PairingStoreError> {
    let key = DocumentKey::new(operator_tenant(), CODE, code_document_name(code));
    let found =
        shared.documents.read_document(&key).await?.filter(|document| !has_expired(document, shared.now()));
    let code = found.ok_or(PairingRefusal::Code)?;
    let waiting: StoredPairingCode = decode_document(&code)?;
    let key = DocumentKey::new(operator_tenant(), DEVICE, waiting.device.as_str());
    let kept = shared.documents.read_document(&key).await?;
    let device =
        kept.map(|kept| Ok::<_, PairingStoreError>((kept.version, decode_document(&kept)?))).transpose()?;
    Ok(ValidPairingCode { waiting, code: (code.key, code.version), device })
}

impl ValidPairingCode {
    /// Returns the display name of the device.
    pub(super) fn device_name(&self) -> &str {
        self.waiting.name.as_deref().unwrap_or("device")
    }

    /// Returns the changes that use the code up and store the device's key; the device has the lifetime of a code to
    /// fetch it.
    pub(super) fn into_confirm_changes(
        self,
        confirmed: ConfirmedPairing,
        now: Timestamp,
    ) -> Vec<DocumentChange> {
        let (key, version) = self.code;
        let mut changes =
            vec![DocumentChange::Remove { key, expect: DocumentPrecondition::Version(version) }];
        // A device whose record is gone cannot fetch the key; the person who confirmed can still bring it.
        if let Some((version, device)) = self.device {
            let device = StoredDevice { key: Some(confirmed), ..device };
            let at = (DEVICE, self.waiting.device.as_str());
            changes.push(build_document_change(
                at,
                DocumentPrecondition::Version(version),
                &device,
                now.saturating_add(CODE_TTL),
            ));
        }
        changes
    }
}

/// Returns the state of a device.
pub(super) async fn claim_device_state(
    shared: &ServerState,
    id: &str,
    shown: Option<&str>,
) -> Result<DevicePairingState, PairingStoreError> {
    let key = DocumentKey::new(operator_tenant(), DEVICE, digest::digest_parts_hex(&["pairing id", id]));
    let found =
        shared.documents.read_document(&key).await?.filter(|document| !has_expired(document, shared.now()));
    let found = found.ok_or(PairingRefusal::Code)?;
    let device: StoredDevice = decode_document(&found)?;
    if let Some(kept) = &device.fingerprint {
        let shown = shown.map(digest_fingerprint).unwrap_or_default();
        if !bool::from(kept.as_bytes().ct_eq(shown.as_bytes())) {
            return Err(PairingRefusal::Code.into());
        }
    }
    let Some(confirmed) = device.key else { return Ok(DevicePairingState::Waiting(found.expires_at)) };
    Ok(DevicePairingState::Confirmed(
        confirmed,
        DocumentChange::Remove { key, expect: DocumentPrecondition::Version(found.version) },
    ))
}

fn draw_pairing_code(shared: &ServerState) -> String {
    let mut code = String::with_capacity(CODE_LETTERS);
    while code.len() < CODE_LETTERS {
        let mut bytes = [0; 16];
        shared.entropy.fill_bytes(&mut bytes);
        // Bytes beyond the last whole round of letters would make the first letters more likely.
        let even =
            bytes.iter().filter(|byte| **byte < 252).map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()]);
        code.extend(even.take(CODE_LETTERS - code.len()).map(char::from));
    }
    code
}

fn draw_pairing_id(shared: &ServerState) -> String {
    let mut bytes = [0; 32];
    shared.entropy.fill_bytes(&mut bytes);
    format!("pair_{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Names a code by its digest. Spaces, hyphens and case do not matter, since people type codes.
fn code_document_name(code: &str) -> String {
    let typed: String = code.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    digest::digest_parts_hex(&["pairing code", &typed.to_ascii_uppercase()])
}

fn digest_fingerprint(of: &str) -> String {
    digest::digest_parts_hex(&["device fingerprint", of])
}

fn has_expired(document: &StoredDocument, now: Timestamp) -> bool {
    document.expires_at.is_some_and(|expires_at| expires_at <= now)
}

fn decode_document<'a, T: Deserialize<'a>>(document: &'a StoredDocument) -> Result<T, PairingStoreError> {
    let corrupt = |source: serde_json::Error| StoreError::Corrupt {
        what: document.key.kind.clone(),
        source: Some(source.into()),
    };
    document.body.decode().map_err(|error| corrupt(error).into())
}

fn build_document_change(
    (kind, id): (&str, &str),
    expect: DocumentPrecondition,
    body: &impl Serialize,
    until: Timestamp,
) -> DocumentChange {
    let key = DocumentKey::new(operator_tenant(), kind, id);
    let body = JsonDocument::from_serializable(body).expect("texts are JSON");
    DocumentChange::Write { key, expect, session: None, body, expires_at: Some(until) }
}
