//! Devices that wait for a key: their stored state, and its lifetime.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    Change, Document, DocumentKey, Error as StoreError, Expect, Json, TenantId, Timestamp,
};
use singletree_protocol::openharness::PairCreate;
use subtle::ConstantTimeEq;

use super::super::digest;
use super::CODE_TTL;
use super::told::Refusal;
use crate::caller::house;
use crate::problem::Problem;
use crate::shared::Shared;

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
struct Waiting {
    /// The name of the device's own document.
    device: String,
    /// The device's display name.
    name: Option<String>,
}

/// A valid code, with its device.
pub(super) struct Found {
    waiting: Waiting,
    code: (DocumentKey, u64),
    device: Option<(u64, Device)>,
}

/// A device, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Device {
    /// The digest of the fingerprint that identifies the device.
    fingerprint: Option<String>,
    key: Option<Confirmed>,
}

/// The result of a confirmed pairing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Confirmed {
    pub(super) tenant: TenantId,
    /// The id of the device's key.
    pub(super) key: String,
    pub(super) session: String,
}

/// A waiting device: the code that it shows, and the id with which it fetches its key.
pub(super) struct Made {
    pub(super) code: String,
    pub(super) id: String,
    pub(super) until: Timestamp,
}

/// The state of a device.
pub(super) enum Stands {
    Waiting(Option<Timestamp>),
    /// The result for the device, and the change that makes it available only once.
    Confirmed(Confirmed, Change),
}

/// The reason why an operation is not done.
pub(super) enum Unable {
    Refused(Refusal),
    Failed(Problem),
}

impl From<StoreError> for Unable {
    fn from(error: StoreError) -> Self {
        crate::Error::from(error).into()
    }
}

impl From<crate::Error> for Unable {
    fn from(error: crate::Error) -> Self {
        match error {
            // Another request was first.
            crate::Error::Store(StoreError::Refused { .. }) => Refusal::Code.into(),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<Problem> for Unable {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<Refusal> for Unable {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Makes a code for a device.
pub(super) async fn make(shared: &Shared, asked: &PairCreate) -> Result<Made, Unable> {
    let now = shared.now();
    let kept = shared.documents.documents(&house(), CODE, None, WAITING_MAX as u64 * 4).await?;
    let (over, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|item| is_over(item, now));
    if waiting.len() >= WAITING_MAX {
        return Err(Refusal::Attempts.into());
    }
    let until = now.after(CODE_TTL);
    loop {
        let (code, id) = (draw_code(shared), draw_id(shared));
        let device = digest::hex_of(&["pairing id", &id]);
        let fingerprint = asked.device_fingerprint.as_deref().map(fingerprint);
        let waiting = Waiting { device: device.clone(), name: asked.device_name.clone() };
        let mut changes = vec![
            write((CODE, &name(&code)), Expect::Absent, &waiting, until),
            write((DEVICE, &device), Expect::Absent, &Device { fingerprint, key: None }, until),
        ];
        // Expired codes make room.
        changes.extend(over.iter().map(|it| Change::Remove { key: it.key.clone(), expect: Expect::Any }));
        match shared.documents.change(changes).await {
            Ok(()) => return Ok(Made { code, id, until }),
            // The code is in use: draws another one.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Finds the device of a code.
pub(super) async fn find(shared: &Shared, code: &str) -> Result<Found, Unable> {
    let key = DocumentKey::new(house(), CODE, name(code));
    let found = shared.documents.document(&key).await?.filter(|document| !is_over(document, shared.now()));
    let code = found.ok_or(Refusal::Code)?;
    let waiting: Waiting = read(&code)?;
    let key = DocumentKey::new(house(), DEVICE, waiting.device.as_str());
    let kept = shared.documents.document(&key).await?;
    let device = kept.map(|kept| Ok::<_, Unable>((kept.version, read(&kept)?))).transpose()?;
    Ok(Found { waiting, code: (code.key, code.version), device })
}

impl Found {
    /// Returns the display name of the device.
    pub(super) fn name(&self) -> &str {
        self.waiting.name.as_deref().unwrap_or("device")
    }

    /// Returns the changes that use the code up and store the device's key; the device has the lifetime of a code to
    /// fetch it.
    pub(super) fn confirm(self, confirmed: Confirmed, now: Timestamp) -> Vec<Change> {
        let (key, version) = self.code;
        let mut changes = vec![Change::Remove { key, expect: Expect::Version(version) }];
        // A device whose record is gone cannot fetch the key; the person who confirmed can still bring it.
        if let Some((version, device)) = self.device {
            let device = Device { key: Some(confirmed), ..device };
            let at = (DEVICE, self.waiting.device.as_str());
            changes.push(write(at, Expect::Version(version), &device, now.after(CODE_TTL)));
        }
        changes
    }
}

/// Returns the state of a device.
pub(super) async fn claim(shared: &Shared, id: &str, shown: Option<&str>) -> Result<Stands, Unable> {
    let key = DocumentKey::new(house(), DEVICE, digest::hex_of(&["pairing id", id]));
    let found = shared.documents.document(&key).await?.filter(|document| !is_over(document, shared.now()));
    let found = found.ok_or(Refusal::Code)?;
    let device: Device = read(&found)?;
    if let Some(kept) = &device.fingerprint {
        let shown = shown.map(fingerprint).unwrap_or_default();
        if !bool::from(kept.as_bytes().ct_eq(shown.as_bytes())) {
            return Err(Refusal::Code.into());
        }
    }
    let Some(confirmed) = device.key else { return Ok(Stands::Waiting(found.expires_at)) };
    Ok(Stands::Confirmed(confirmed, Change::Remove { key, expect: Expect::Version(found.version) }))
}

fn draw_code(shared: &Shared) -> String {
    let mut code = String::with_capacity(CODE_LETTERS);
    while code.len() < CODE_LETTERS {
        let mut bytes = [0; 16];
        shared.entropy.fill(&mut bytes);
        // Bytes beyond the last whole round of letters would make the first letters more likely.
        let even =
            bytes.iter().filter(|byte| **byte < 252).map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()]);
        code.extend(even.take(CODE_LETTERS - code.len()).map(char::from));
    }
    code
}

fn draw_id(shared: &Shared) -> String {
    let mut bytes = [0; 32];
    shared.entropy.fill(&mut bytes);
    format!("pair_{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Names a code by its digest. Spaces, hyphens and case do not matter, since people type codes.
fn name(code: &str) -> String {
    let typed: String = code.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    digest::hex_of(&["pairing code", &typed.to_ascii_uppercase()])
}

fn fingerprint(of: &str) -> String {
    digest::hex_of(&["device fingerprint", of])
}

fn is_over(document: &Document, now: Timestamp) -> bool {
    document.expires_at.is_some_and(|expires_at| expires_at <= now)
}

fn read<'a, T: Deserialize<'a>>(document: &'a Document) -> Result<T, Unable> {
    let corrupt = |source: serde_json::Error| StoreError::Corrupt {
        what: document.key.kind.clone(),
        source: Some(source.into()),
    };
    document.body.decode().map_err(|error| corrupt(error).into())
}

fn write((kind, id): (&str, &str), expect: Expect, body: &impl Serialize, until: Timestamp) -> Change {
    let key = DocumentKey::new(house(), kind, id);
    let body = Json::of(body).expect("texts are JSON");
    Change::Write { key, expect, session: None, body, expires_at: Some(until) }
}
