//! The name of a wait in its answer, for protocols that identify the answered wait by one opaque id (D2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use singletree_engine::Descriptor;
use singletree_harness::{Answer, PendingWait, SuspensionTerms};

/// The content of such an id: the wait, the digest of the action, the signal. Opaque to clients. The server compares
/// it with the stored wait, so that an invented or outdated id consumes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedWait {
    pub(crate) wait: u64,
    /// The digest of the action that an answer approves; empty if it approves none.
    pub(crate) action: String,
    pub(crate) signal: String,
}

impl NamedWait {
    /// Returns the name of a wait.
    pub(crate) fn from_wait_terms(wait: &SuspensionTerms, descriptor: &Descriptor) -> Self {
        let action = wait.action.clone().unwrap_or_default();
        Self { wait: wait.no, action, signal: descriptor.signal_id.clone() }
    }

    /// Returns the id, with this prefix.
    pub(crate) fn encode_wait_id(&self, prefix: &str) -> String {
        let Self { wait, action, signal } = self;
        format!("{prefix}{}", URL_SAFE_NO_PAD.encode(format!("{wait}.{action}.{signal}")))
    }

    /// Reads an id with this prefix; `None` if it is not one of ours.
    pub(crate) fn decode_wait_id(prefix: &str, id: &str) -> Option<Self> {
        let named = URL_SAFE_NO_PAD.decode(id.strip_prefix(prefix)?).ok()?;
        let named = String::from_utf8(named).ok()?;
        let mut parts = named.splitn(3, '.');
        let (wait, action, signal) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { wait: wait.parse().ok()?, action: action.to_owned(), signal: signal.to_owned() })
    }

    /// Checks whether this is the pending wait.
    pub(crate) fn is_same_wait(&self, pending: &PendingWait) -> bool {
        *self == Self::from_wait_terms(&pending.wait, &pending.descriptor)
    }

    /// Makes an answer with a payload that is valid for this wait and action only.
    pub(crate) fn build_answer(&self, payload: Map<String, Value>) -> Answer {
        Answer::new(payload).to(self.wait, self.action.as_str())
    }
}
