//! A wait as its answer names it, for protocols that give what is answered one opaque id (D2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use singletree_engine::Descriptor;
use singletree_harness::{Answer, PendingWait, Wait};

/// What such an id says: which wait, what an answer approves, which signal. Opaque to clients; what it names is compared with
/// what is stored, so that one that was made up or is of yesterday consumes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedWait {
    pub(crate) wait: u64,
    /// The digest of the action that an answer approves; empty where it approves none.
    pub(crate) action: String,
    pub(crate) signal: String,
}

impl NamedWait {
    /// Names a wait.
    pub(crate) fn of(wait: &Wait, descriptor: &Descriptor) -> Self {
        let action = wait.action.clone().unwrap_or_default();
        Self { wait: wait.no, action, signal: descriptor.signal_id.clone() }
    }

    /// Writes it as an id that begins so.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let Self { wait, action, signal } = self;
        format!("{prefix}{}", URL_SAFE_NO_PAD.encode(format!("{wait}.{action}.{signal}")))
    }

    /// Reads an id that begins so; none when it is not one of ours.
    pub(crate) fn read(prefix: &str, id: &str) -> Option<Self> {
        let named = URL_SAFE_NO_PAD.decode(id.strip_prefix(prefix)?).ok()?;
        let named = String::from_utf8(named).ok()?;
        let mut parts = named.splitn(3, '.');
        let (wait, action, signal) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { wait: wait.parse().ok()?, action: action.to_owned(), signal: signal.to_owned() })
    }

    /// Tells whether this is what is awaited.
    pub(crate) fn is(&self, pending: &PendingWait) -> bool {
        *self == Self::of(&pending.wait, &pending.descriptor)
    }

    /// Makes an answer of a payload that holds for this wait and action only.
    pub(crate) fn answer(&self, payload: Map<String, Value>) -> Answer {
        Answer::new(payload).to(self.wait, self.action.as_str())
    }
}
