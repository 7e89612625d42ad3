//! Where schedules are kept: a document each, which is deleted with its campaign.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, SessionId, StoredDocument, TenantId,
};
use singletree_env::Timestamp;

use crate::error::{Error, Result};
use crate::schedule::{CampaignSchedule, SCHEDULES_MAX};
use crate::store::{CampaignStore, campaign_session, decode_document};

/// The kind of the documents.
const SCHEDULE: &str = "campaign_schedule";

/// A schedule as it was read or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSchedule {
    /// Its id, `sch_…`, unique in its campaign.
    pub id: String,
    /// The schedule.
    pub schedule: CampaignSchedule,
    /// How often it was written: a change needs it to be the newest.
    #[serde(skip, default)]
    pub version: u64,
}

impl CampaignStore {
    /// Adds a schedule, with other changes in the same transaction.
    ///
    /// # Errors
    /// `campaign_changed` when the id is taken or one of the other changes is refused; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has added it or has not.
    pub async fn add_schedule(
        &self,
        tenant: &TenantId,
        (id, schedule): (&str, CampaignSchedule),
        others: Vec<DocumentChange>,
    ) -> Result<StoredSchedule> {
        let (added, change) = self.build_added_schedule(tenant, (id, schedule))?;
        self.commit_changes(std::iter::once(change).chain(others).collect()).await?;
        Ok(added)
    }

    /// Returns a schedule with the change that adds it, to commit it with others.
    ///
    /// # Errors
    /// `campaign_record_invalid` for a campaign whose id is none.
    pub fn build_added_schedule(
        &self,
        tenant: &TenantId,
        (id, schedule): (&str, CampaignSchedule),
    ) -> Result<(StoredSchedule, DocumentChange)> {
        let added = StoredSchedule { id: id.to_owned(), schedule, version: 1 };
        let change = build_write_change(tenant, &added, DocumentPrecondition::Absent)?;
        Ok((added, change))
    }

    /// Returns the change that sets the next due time of a schedule: refused when another process has set it.
    ///
    /// # Errors
    /// `campaign_record_invalid` for a campaign whose id is none.
    pub fn build_schedule_change(
        &self,
        tenant: &TenantId,
        stored: &StoredSchedule,
        next_at: Timestamp,
    ) -> Result<DocumentChange> {
        let schedule = CampaignSchedule { next_at, ..stored.schedule.clone() };
        let moved = StoredSchedule { schedule, ..stored.clone() };
        build_write_change(tenant, &moved, DocumentPrecondition::Version(stored.version))
    }

    /// Removes a schedule, with other changes in the same transaction.
    ///
    /// # Errors
    /// `campaign_changed` when it was changed in the meantime, or one of the other changes is refused;
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has removed it or has not.
    pub async fn remove_schedule(
        &self,
        tenant: &TenantId,
        stored: &StoredSchedule,
        others: Vec<DocumentChange>,
    ) -> Result<()> {
        let key = schedule_key(tenant, &stored.schedule.campaign, &stored.id);
        let expect = DocumentPrecondition::Version(stored.version);
        let removed = DocumentChange::Remove { key, expect };
        self.commit_changes(std::iter::once(removed).chain(others).collect()).await
    }

    /// Reads a schedule of a campaign.
    ///
    /// # Errors
    /// `campaign_log_corrupt`; `store_unavailable` and its kin.
    pub async fn load_schedule(
        &self,
        tenant: &TenantId,
        campaign: &str,
        id: &str,
    ) -> Result<Option<StoredSchedule>> {
        let found = self.documents.read_document(&schedule_key(tenant, campaign, id)).await?;
        found.as_ref().map(decode_schedule).transpose()
    }

    /// Lists the schedules of a tenant, or of one of its campaigns, ordered by campaign and id.
    ///
    /// # Errors
    /// `campaign_log_corrupt`; `store_unavailable` and its kin.
    pub async fn list_schedules(
        &self,
        tenant: &TenantId,
        campaign: Option<&str>,
    ) -> Result<Vec<StoredSchedule>> {
        let own = campaign.map(|campaign| format!("{campaign}/"));
        let found = self.documents.read_documents(tenant, SCHEDULE, own.as_deref(), SCHEDULES_MAX).await?;
        let is_own = |document: &&StoredDocument| match &own {
            Some(own) => document.key.id.starts_with(own.as_str()),
            None => true,
        };
        found.iter().take_while(is_own).map(decode_schedule).collect()
    }
}

fn schedule_key(tenant: &TenantId, campaign: &str, id: &str) -> DocumentKey {
    DocumentKey::new(tenant.clone(), SCHEDULE, format!("{campaign}/{id}"))
}

fn decode_schedule(document: &StoredDocument) -> Result<StoredSchedule> {
    let stored: StoredSchedule = decode_document(document)?;
    Ok(StoredSchedule { version: document.version, ..stored })
}

fn build_write_change(
    tenant: &TenantId,
    stored: &StoredSchedule,
    expect: DocumentPrecondition,
) -> Result<DocumentChange> {
    let record = |why: String| Error::Record { why };
    let body = JsonDocument::from_serializable(stored)
        .map_err(|error| record(format!("it cannot be represented as JSON: {error}")))?;
    let session = SessionId::parse(campaign_session(&stored.schedule.campaign));
    let session = Some(session.map_err(|error| record(error.to_string()))?);
    let key = schedule_key(tenant, &stored.schedule.campaign, &stored.id);
    Ok(DocumentChange::Write { key, expect, session, body, expires_at: None })
}
