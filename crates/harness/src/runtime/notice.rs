//! Notices for people who are not connected. Each is written in the commit of its event and kept until it was
//! delivered.
//!
//! A tenant that wants notices ([`ChatBuilder::notices`](crate::ChatBuilder::notices)) has one written as a document in
//! the very commit that suspends a turn, ends a wait or fails a turn: no crash comes between an event and its notice.
//! The component that delivers notices (a server's webhooks) removes each one after its delivery. When it does not know
//! whether a delivery succeeded, it delivers the notice again under the same id.
//!
//! A notice holds names, ids and times, and no message content. It is deleted with its session.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use singletree_durable::{
    DocumentKey, InvocationId, JsonDocument, RowMutation, SessionId, SessionKey, StoredDocument, TenantId,
    Timestamp,
};
use singletree_engine::{Descriptor, TraceHeaders};
use singletree_session::{ChatEvent, ChatEventKind, ChatTurnOutcome, FailureBucket, SuspensionTerms, TurnId};

use crate::Result;
use crate::error::store_corrupt_error;
use crate::runtime::pending_wait::PendingWait;

/// How long a notice is kept that nobody tells.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The type of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeType {
    /// A turn waits for an answer.
    Suspended,
    /// A wait's deadline is near.
    Expiring,
    /// A wait has ended: it was answered, has expired, or was given up.
    Resumed,
    /// A turn failed.
    Errored,
}

impl NoticeType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Suspended, Self::Expiring, Self::Resumed, Self::Errored];

    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Expiring => "expiring",
            Self::Resumed => "resumed",
            Self::Errored => "errored",
        }
    }
}

impl fmt::Display for NoticeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A notice about a session, for people who are not connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Its id: the same however often it is told, and no other's.
    pub id: String,
    /// Its position among the notices of its tenant: by session, then by the number of its event, or of its wait for a
    /// near deadline.
    pub place: String,
    /// Whose session it is.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The invocation that it is about.
    pub invocation: InvocationId,
    /// The turn that it is about; none of a deadline that is near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The id of the event that tells the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// The trace of the invocation, below its span: who is told of the notice is called in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceHeaders>,
    /// The subject of the notice.
    #[serde(flatten)]
    pub what: NoticeKind,
}

/// The subject of a notice, with its details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NoticeKind {
    /// A turn waits for an answer.
    Suspended(PendingWaitSummary),
    /// The deadline of a wait is near.
    Expiring(PendingWaitSummary),
    /// A wait has ended.
    Resumed {
        /// Its number in the session.
        wait: u64,
        /// The id of its signal.
        signal: String,
        /// How it ended: `consumed`, `expired` or `cancelled`.
        how: String,
    },
    /// A turn failed.
    Errored {
        /// The category of the error.
        category: String,
        /// The action that the caller can take.
        bucket: FailureBucket,
        /// Whether sending the same again is known to do nothing twice.
        retry_safe: bool,
    },
}

/// The names and ids of a pending wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingWaitSummary {
    /// The number of the wait in its session.
    pub wait: u64,
    /// The id of its signal.
    pub signal: String,
    /// Whether an exact action is to be approved.
    pub approval: bool,
    /// The name of the tool that would run, where the wait's metadata has one under `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The effect of running the tool, where the wait's metadata has one under `effect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// When the wait expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

impl PendingWaitSummary {
    pub(crate) fn from_descriptor(descriptor: &Descriptor, wait: &SuspensionTerms) -> Self {
        let said = |key: &str| {
            let value =
                descriptor.metadata.as_ref().and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        Self {
            wait: wait.no,
            signal: descriptor.signal_id.clone(),
            approval: wait.action.is_some(),
            tool: said("tool"),
            effect: said("effect"),
            deadline: wait.deadline,
        }
    }
}

impl NoticeKind {
    /// Returns its type.
    #[must_use]
    pub fn notice_type(&self) -> NoticeType {
        match self {
            Self::Suspended(_) => NoticeType::Suspended,
            Self::Expiring(_) => NoticeType::Expiring,
            Self::Resumed { .. } => NoticeType::Resumed,
            Self::Errored { .. } => NoticeType::Errored,
        }
    }

    /// Returns the subject of the notice of an event; none for events without notice.
    fn from_event(event: &ChatEvent) -> Option<Self> {
        match &event.what {
            ChatEventKind::SignalReceived { wait, signal, how, .. } if *how != "refused" => {
                Some(Self::Resumed { wait: *wait, signal: signal.clone(), how: (*how).to_owned() })
            }
            other => match other.outcome()?.as_ref() {
                ChatTurnOutcome::Completed(_) => None,
                ChatTurnOutcome::Suspended(it) => Some(Self::Suspended(PendingWaitSummary::from_descriptor(
                    &it.signal_descriptor,
                    &it.wait,
                ))),
                ChatTurnOutcome::Errored(it) => Some(Self::Errored {
                    category: it.error_category.clone(),
                    bucket: it.error_bucket,
                    retry_safe: it.retry_safe,
                }),
            },
        }
    }

    /// Returns the number of the wait that it is about, if it is about one.
    pub(crate) fn wait_number(&self) -> Option<u64> {
        match self {
            Self::Suspended(it) | Self::Expiring(it) => Some(it.wait),
            Self::Resumed { wait, .. } => Some(*wait),
            Self::Errored { .. } => None,
        }
    }
}

impl Notice {
    /// The kind of the documents that notices are.
    pub const KIND: &'static str = "notice";

    /// Tells that the deadline of a wait is near. The epoch is that of the log
    /// ([`Chat::log_epoch`](crate::Chat::log_epoch)).
    #[must_use]
    pub fn for_expiring_wait(
        tenant: TenantId,
        pending: &PendingWait,
        epoch: &str,
        at: Timestamp,
    ) -> Option<Self> {
        let session = SessionId::parse(&pending.session).ok()?;
        let key = SessionKey::new(tenant, session);
        let number = format!("w{:020}", pending.wait.no);
        Some(Self {
            id: hash_notice_id(&key, epoch, &number),
            place: format!("{}/{number}", key.session),
            tenant: key.tenant,
            session: key.session,
            invocation: pending.invocation.clone(),
            turn: None,
            event: None,
            at,
            trace: None,
            what: NoticeKind::Expiring(PendingWaitSummary::from_descriptor(
                &pending.descriptor,
                &pending.wait,
            )),
        })
    }

    /// Tells of an event, if there is something to tell.
    pub(crate) fn from_event(tenant: &TenantId, event: &ChatEvent) -> Option<Self> {
        let (what, event_id) = (NoticeKind::from_event(event)?, event.id.as_ref()?);
        let key = SessionKey::new(tenant.clone(), event.session.clone());
        let number = format!("{:020}", event_id.seq);
        Some(Self {
            id: hash_notice_id(&key, &event_id.epoch, &number),
            place: format!("{}/{number}", key.session),
            tenant: key.tenant,
            session: key.session,
            invocation: event.turn.invocation.clone(),
            turn: Some(event.turn.clone()),
            event: Some(event_id.to_string()),
            at: event.at,
            trace: None,
            what,
        })
    }

    /// Returns the name of its document.
    #[must_use]
    pub fn document_key(&self) -> DocumentKey {
        DocumentKey::new(self.tenant.clone(), Self::KIND, &self.place)
    }

    /// Returns from when on its document is as if it were not there.
    #[must_use]
    pub fn kept_until(&self) -> Timestamp {
        self.at.saturating_add(KEPT)
    }

    /// Writes it down.
    ///
    /// # Errors
    /// `store_corrupt`; none that could be thought of.
    pub fn to_document_body(&self) -> Result<JsonDocument> {
        JsonDocument::from_serializable(self).map_err(|error| {
            store_corrupt_error("a notice that JSON cannot represent".into(), Some(error.into()))
        })
    }

    /// Reads its document.
    ///
    /// # Errors
    /// `store_corrupt`.
    pub fn from_document(document: &StoredDocument) -> Result<Self> {
        let what = || format!("the document {} {}", document.key.kind, document.key.id);
        document.body.decode().map_err(|error| store_corrupt_error(what(), Some(error.into())))
    }

    /// Returns the put that stores the notice in the batch of its event.
    pub(crate) fn to_row_mutation(&self) -> Option<RowMutation> {
        let (kind, id) = (Self::KIND.to_owned(), self.place.clone());
        // Names, numbers and words: there is nothing in it that JSON cannot say.
        let body = self.to_document_body().ok()?;
        Some(RowMutation::Document { kind, id, body, expires_at: Some(self.kept_until()), outlives: false })
    }
}

/// Names a notice: the log, whose it is, and its number there.
fn hash_notice_id(key: &SessionKey, epoch: &str, number: &str) -> String {
    let mut hash = Sha256::new();
    for part in [epoch, key.tenant.as_str(), key.session.as_str(), number] {
        // With its length, so that no two lists of parts run into the same bytes.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let digits: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
    format!("ntc_{digits}")
}
