//! The audit: who did what that cannot be undone, or that lets others do something.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::{Change, Document, DocumentKey, Documents, Expect, Json, TenantId, Timestamp};
use singletree_engine::{Clock, Ids};
use singletree_protocol::native::{AuditEntry, AuditList};

use crate::Result;
use crate::native::time;

/// The kind of its documents.
const KIND: &str = "audit";

/// Larger than every time in milliseconds: ids count down from it, so that what is later comes first.
const END: i64 = 10_000_000_000_000;

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deed {
    at: Timestamp,
    who: String,
    action: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
}

impl Deed {
    /// Says what somebody did to what.
    pub(crate) fn new(who: &str, action: &str, subject: &str) -> Self {
        let (who, action, subject) = (who.to_owned(), action.to_owned(), subject.to_owned());
        Self { at: Timestamp::from_millis(0), who, action, subject, details: Map::new() }
    }

    /// Adds what else is worth knowing. No content of a conversation, no secret.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// Keeps deeds, each tenant's for itself, for as long as it is told to.
#[derive(Debug)]
pub(crate) struct Audit {
    documents: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    kept: Duration,
}

impl Audit {
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        kept: Duration,
    ) -> Self {
        Self { documents, clock, ids, kept }
    }

    /// Returns the change that records a deed, to be made with what it records.
    pub(crate) fn entry(&self, tenant: &TenantId, deed: Deed) -> Change {
        let at = self.clock.now();
        let id = format!("{:013}-{}", END.saturating_sub(at.as_millis()), self.ids.uuid());
        Change::Write {
            key: DocumentKey::new(tenant.clone(), KIND, id),
            expect: Expect::Absent,
            session: None,
            body: Json::of(&Deed { at, ..deed }).expect("a deed is texts and values of JSON"),
            expires_at: Some(at.after(self.kept)),
        }
    }

    /// Records a deed.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub(crate) async fn note(&self, tenant: &TenantId, deed: Deed) -> Result<()> {
        Ok(self.documents.change(vec![self.entry(tenant, deed)]).await?)
    }

    /// Lists a tenant's deeds, the last one first.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub(super) async fn list(&self, tenant: &TenantId, from: Option<&str>, limit: u64) -> Result<AuditList> {
        let found = self.documents.documents(tenant, KIND, from, limit + 1).await?;
        let (found, next) = page(found, limit);
        let items = found.iter().map(shown).collect::<Result<_>>()?;
        Ok(AuditList { items, next })
    }
}

/// Cuts what was read with one more than a page to a page, and says where the next one begins.
pub(super) fn page(mut found: Vec<Document>, limit: u64) -> (Vec<Document>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|it| it.key.id.clone());
    (found, next)
}

fn shown(document: &Document) -> Result<AuditEntry> {
    let Deed { at, who, action, subject, details } =
        document.body.decode().map_err(|source| singletree_durable::Error::Corrupt {
            what: format!("audit entry {}", document.key.id),
            source: Some(source.into()),
        })?;
    Ok(AuditEntry { id: document.key.id.clone(), at: time(at), who, action, subject, details })
}
