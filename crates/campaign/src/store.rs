//! Where campaigns are kept: documents, changed by compare-and-set. A commit has the entries of the log, the changed
//! parts of the board, and nothing that did not change.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error as StoreError, JsonDocument,
    SessionId, StoredDocument, TenantId,
};
use singletree_env::Timestamp;

use crate::board::{CampaignBoard, TaskProgress};
use crate::campaign::Campaign;
use crate::error::{Error, Result};
use crate::event::{CampaignEvent, CampaignLogEntry};
use crate::plan::PlanTask;
use crate::transition::create_campaign;

/// The kinds of the documents: a board without its plan and progress, the tasks of a version of the plan, a row of
/// progress, an entry of the log.
const BOARD: &str = "campaign";
const PLAN: &str = "campaign_plan";
const TASK: &str = "campaign_task";
const LOG: &str = "campaign_log";

/// How many rows of progress are read at once.
const ROWS: u64 = 2_000;

/// Keeps the campaigns of all tenants. Clones keep the same ones.
#[derive(Debug, Clone)]
pub struct CampaignStore {
    pub(crate) documents: Arc<dyn DocumentStore>,
}

/// A campaign as it was read or committed.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCampaign {
    /// Its board.
    pub board: CampaignBoard,
    /// How often it was committed: a commit over it needs it to be the newest.
    pub version: u64,
}

impl CampaignStore {
    /// Keeps campaigns in a store.
    #[must_use]
    pub fn new(documents: Arc<dyn DocumentStore>) -> Self {
        Self { documents }
    }

    /// Makes a campaign.
    ///
    /// # Errors
    /// `campaign_record_invalid`; `campaign_changed` when the id is taken; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has made it or has not.
    pub async fn create(&self, campaign: Campaign) -> Result<StoredCampaign> {
        self.create_with(campaign, Vec::new(), Vec::new()).await
    }

    /// Makes a campaign with further events, such as its first plan, and with other changes in the same transaction, such
    /// as its schedules.
    ///
    /// # Errors
    /// As [`CampaignStore::create`]; `campaign_changed` also when one of the other changes is refused;
    /// `campaign_log_corrupt` for events that do not follow.
    ///
    /// # Cancellation
    /// A dropped call has made all of it or nothing.
    pub async fn create_with(
        &self,
        campaign: Campaign,
        events: Vec<CampaignEvent>,
        others: Vec<DocumentChange>,
    ) -> Result<StoredCampaign> {
        let at = campaign.created_at;
        let event = create_campaign(campaign)?.remove(0);
        let first = CampaignLogEntry { seq: 1, at, event };
        let empty = CampaignBoard::from_first_entry(&first)?;
        let mut board = empty.clone();
        let mut writing = CampaignWrites::for_campaign(&board)?;
        writing.write_entry(&first)?;
        for event in events {
            let entry = CampaignLogEntry { seq: board.seq + 1, at, event };
            board.apply_entry(&entry)?;
            writing.write_entry(&entry)?;
        }
        writing.write(BOARD, "", DocumentPrecondition::Absent, &head_of_board(&board))?;
        writing.write_plan(&empty, &board)?;
        writing.write_progress(&empty.progress, &board.progress)?;
        writing.changes.extend(others);
        self.commit_changes(writing.changes).await?;
        Ok(StoredCampaign { board, version: 1 })
    }

    /// Reads a campaign of a tenant.
    ///
    /// # Errors
    /// `campaign_log_corrupt` for documents that do not fit together; `store_unavailable` and its kin.
    pub async fn load(&self, tenant: &TenantId, id: &str) -> Result<Option<StoredCampaign>> {
        // Another commit may come between the reads: the board is read again, and is the same as before.
        loop {
            let Some(head) = self.read(tenant, BOARD, id).await? else { return Ok(None) };
            let mut board: CampaignBoard = decode_document(&head)?;
            if let Some(plan) = &mut board.plan {
                let plan_id = plan_document_id(id, plan.version);
                let tasks = self.read(tenant, PLAN, &plan_id).await?;
                plan.tasks =
                    tasks.as_ref().map(decode_document::<Vec<PlanTask>>).transpose()?.unwrap_or_default();
                board.progress = self.read_rows(tenant, id).await?;
            }
            let again = self.read(tenant, BOARD, id).await?;
            if again.is_none_or(|again| again.version != head.version) {
                continue;
            }
            let tasks = board.plan.as_ref().map_or(0, |plan| plan.tasks.len());
            if tasks != board.progress.len() {
                let why = format!("the plan has {tasks} tasks, and {} have progress", board.progress.len());
                return Err(Error::Log { why });
            }
            return Ok(Some(StoredCampaign { board, version: head.version }));
        }
    }

    /// Reads the board of a campaign without the tasks of its plan and without its progress: enough to say what is done
    /// next.
    ///
    /// # Errors
    /// `campaign_log_corrupt`; `store_unavailable` and its kin.
    pub async fn load_head(&self, tenant: &TenantId, id: &str) -> Result<Option<CampaignBoard>> {
        self.read(tenant, BOARD, id).await?.as_ref().map(decode_document).transpose()
    }

    /// Commits events over a campaign that was read, with other changes in the same transaction, such as an artifact or
    /// an entry of an audit. Returns the campaign as it is then.
    ///
    /// # Errors
    /// `campaign_changed` when somebody else has committed in the meantime, or one of the other changes is refused:
    /// nothing is committed then; `campaign_log_corrupt` for events that do not follow; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has committed all of it or nothing.
    pub async fn commit(
        &self,
        stored: &StoredCampaign,
        events: Vec<CampaignEvent>,
        (at, others): (Timestamp, Vec<DocumentChange>),
    ) -> Result<StoredCampaign> {
        let before = &stored.board;
        let mut board = before.clone();
        let mut writing = CampaignWrites::for_campaign(&board)?;
        for event in events {
            let entry = CampaignLogEntry { seq: board.seq + 1, at, event };
            board.apply_entry(&entry)?;
            writing.write_entry(&entry)?;
        }
        let expect = DocumentPrecondition::Version(stored.version);
        writing.write(BOARD, "", expect, &head_of_board(&board))?;
        writing.write_plan(before, &board)?;
        writing.write_progress(&before.progress, &board.progress)?;
        writing.changes.extend(others);
        self.commit_changes(writing.changes).await?;
        Ok(StoredCampaign { board, version: stored.version + 1 })
    }

    /// Lists the campaigns of a tenant by id, from past the given id on, at most `limit`, as (id, status, name).
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn list(
        &self,
        tenant: &TenantId,
        past: Option<&str>,
        limit: u64,
    ) -> Result<Vec<CampaignBoard>> {
        let found = self.documents.read_documents(tenant, BOARD, past, limit).await?;
        found.iter().map(decode_document).collect()
    }

    /// Reads the log of a campaign after an entry, at most `limit` entries.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn read_log(
        &self,
        tenant: &TenantId,
        id: &str,
        (after, limit): (u64, u64),
    ) -> Result<Vec<CampaignLogEntry>> {
        let past = log_document_id(id, after);
        let found = self.documents.read_documents(tenant, LOG, Some(&past), limit).await?;
        let own = format!("{id}/");
        found.iter().take_while(|document| document.key.id.starts_with(&own)).map(decode_document).collect()
    }

    async fn read(&self, tenant: &TenantId, kind: &str, id: &str) -> Result<Option<StoredDocument>> {
        Ok(self.documents.read_document(&DocumentKey::new(tenant.clone(), kind, id)).await?)
    }

    async fn read_rows(&self, tenant: &TenantId, id: &str) -> Result<Vec<TaskProgress>> {
        let own = format!("{id}/");
        let found = self.documents.read_documents(tenant, TASK, Some(&own), ROWS).await?;
        found.iter().take_while(|document| document.key.id.starts_with(&own)).map(decode_document).collect()
    }

    pub(crate) async fn commit_changes(&self, changes: Vec<DocumentChange>) -> Result<()> {
        match self.documents.change_documents(changes).await {
            Err(StoreError::Refused { .. }) => {
                Err(Error::Changed { why: "somebody else has changed it at the same time".to_owned() })
            }
            changed => Ok(changed?),
        }
    }
}

/// Returns the id of the session in which the turns of a campaign run, and with which its documents are deleted.
#[must_use]
pub fn campaign_session(id: &str) -> String {
    format!("campaign:{id}")
}

/// The changes of one commit.
struct CampaignWrites {
    tenant: TenantId,
    session: SessionId,
    id: String,
    changes: Vec<DocumentChange>,
}

impl CampaignWrites {
    fn for_campaign(board: &CampaignBoard) -> Result<Self> {
        let record = |why: String| Error::Record { why };
        let id = board.campaign.id.clone();
        let tenant = TenantId::parse(&board.campaign.tenant).map_err(|error| record(error.to_string()))?;
        let session = SessionId::parse(campaign_session(&id)).map_err(|error| record(error.to_string()))?;
        Ok(Self { tenant, session, id, changes: Vec::new() })
    }

    /// Writes a document of the campaign; `rest` is the part of its id behind the campaign's.
    fn write(
        &mut self,
        kind: &str,
        rest: &str,
        expect: DocumentPrecondition,
        body: &impl Serialize,
    ) -> Result<()> {
        let body = JsonDocument::from_serializable(body)
            .map_err(|error| Error::Record { why: format!("it cannot be represented as JSON: {error}") })?;
        let key = DocumentKey::new(self.tenant.clone(), kind, format!("{}{rest}", self.id));
        let session = Some(self.session.clone());
        self.changes.push(DocumentChange::Write { key, expect, session, body, expires_at: None });
        Ok(())
    }

    fn write_entry(&mut self, entry: &CampaignLogEntry) -> Result<()> {
        self.write(LOG, &format!("/{:020}", entry.seq), DocumentPrecondition::Absent, entry)
    }

    /// Writes the tasks of a new version of the plan. Earlier versions stay.
    fn write_plan(&mut self, before: &CampaignBoard, after: &CampaignBoard) -> Result<()> {
        let version = |board: &CampaignBoard| board.plan.as_ref().map(|plan| plan.version);
        match &after.plan {
            Some(plan) if version(before) != Some(plan.version) => {
                let rest = format!("/{:020}", plan.version);
                self.write(PLAN, &rest, DocumentPrecondition::Absent, &plan.tasks)
            }
            _ => Ok(()),
        }
    }

    /// Writes the rows that have changed, by their place in the plan, and removes those beyond its end.
    fn write_progress(&mut self, before: &[TaskProgress], after: &[TaskProgress]) -> Result<()> {
        for (at, row) in after.iter().enumerate().filter(|(at, row)| before.get(*at) != Some(row)) {
            self.write(TASK, &format!("/{at:06}"), DocumentPrecondition::Any, row)?;
        }
        for at in after.len()..before.len() {
            let key = DocumentKey::new(self.tenant.clone(), TASK, format!("{}/{at:06}", self.id));
            self.changes.push(DocumentChange::Remove { key, expect: DocumentPrecondition::Any });
        }
        Ok(())
    }
}

/// Returns the board without the tasks of its plan and without its progress, which have documents of their own.
fn head_of_board(board: &CampaignBoard) -> CampaignBoard {
    let plan = board.plan.as_ref().map(|plan| crate::plan::Plan {
        version: plan.version,
        tasks: Vec::new(),
        digest: plan.digest.clone(),
    });
    board.with_plan_and_progress(plan, Vec::new())
}

fn plan_document_id(id: &str, version: u64) -> String {
    format!("{id}/{version:020}")
}

fn log_document_id(id: &str, seq: u64) -> String {
    format!("{id}/{seq:020}")
}

pub(crate) fn decode_document<T: DeserializeOwned>(document: &StoredDocument) -> Result<T> {
    let why = || format!("the document '{}' cannot be read", document.key.id);
    document.body.decode().map_err(|error| Error::Log { why: format!("{}: {error}", why()) })
}
