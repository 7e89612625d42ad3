//! Whole session records over any journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    AcquiredSession, Batch, BatchPrecondition, BoxFuture, Counters, Error, ExpectedVersion, FencingToken,
    FieldRow, FieldValue, ItemPlacement, ItemRange, Journal, JsonDocument, ListItemRow, RecordVersion,
    Result, RowMutation, SessionFilter, SessionHead, SessionKey, SessionRecord, SessionRow, SessionSnapshot,
    SessionStore, SessionSummary, TenantId,
};

/// The session store of the specification over a journal: full records in and out.
///
/// - A field whose value is a JSON array is kept as rows, one per element; every save starts a new generation of them.
///   Elements keep their text; white space between them does not stay.
/// - A session with a turn without outcome or with a pending wait is not overwritten, whatever the caller expects: that
///   is `session_write_conflict` (D1).
/// - A session that a save makes belongs to no agent (its name is empty) until a chat turn claims it. A save over a
///   chat session leaves agent, policy, parent, turns, events and everything else in place.
/// - Items that a save makes carry a turn number that no turn has.
/// - `delete` removes the session with everything of it, also when a turn runs; versions of a session that is made anew
///   count from 1. It writes no audit row: it knows neither the time nor who asks.
#[derive(Debug, Clone)]
pub struct JournalSessions {
    journal: Arc<dyn Journal>,
}

/// How many times a call starts over because somebody else wrote in between.
const ATTEMPTS_MAX: u32 = 64;

/// How many sessions a listing reads at a time.
const PAGE: u64 = 256;

impl JournalSessions {
    /// Puts the adapter over a journal.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal }
    }

    async fn load_record(&self, key: &SessionKey) -> Result<Option<(SessionRecord, RecordVersion)>> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(row) = self.journal.read_session(key).await? else { return Ok(None) };
            let state = self.read_fields(&row).await;
            // Rows of a generation never change, but the session may be deleted between two reads.
            let has_lists = row.fields.iter().any(|field| matches!(field.value, FieldValue::List { .. }));
            if has_lists && self.journal.read_session(key).await?.as_ref() != Some(&row) {
                continue;
            }
            let SessionRow { head, .. } = row;
            let record = SessionRecord {
                schema_version: head.schema_version,
                state: state?,
                updated_at: head.updated_at,
            };
            return Ok(Some((record, RecordVersion(head.version))));
        }
        Err(contention_error("load a session"))
    }

    async fn read_fields(&self, row: &SessionRow) -> Result<BTreeMap<String, JsonDocument>> {
        let mut state = BTreeMap::new();
        for field in &row.fields {
            let value = match &field.value {
                FieldValue::Value(value) => value.clone(),
                FieldValue::List { generation, len, .. } => {
                    self.read_list(&row.key, &field.name, *generation, *len).await?
                }
            };
            state.insert(field.name.clone(), value);
        }
        Ok(state)
    }

    async fn read_list(
        &self,
        key: &SessionKey,
        field: &str,
        generation: u64,
        len: u64,
    ) -> Result<JsonDocument> {
        if len == 0 {
            return Ok(JsonDocument::from_text("[]"));
        }
        let range = ItemRange::List { field: field.to_owned(), generation, from: 0, limit: len };
        let items = self.journal.read_items(key, &range).await?;
        if u64::try_from(items.len()) != Ok(len) {
            let what = format!("list {field:?} of session {} has {} of {len} rows", key.session, items.len());
            return Err(Error::Corrupt { what, source: None });
        }
        let bodies: Vec<&str> = items.iter().map(|item| item.body.as_str()).collect();
        Ok(JsonDocument::from_text(format!("[{}]", bodies.join(","))))
    }

    async fn save_record(
        &self,
        key: &SessionKey,
        record: &SessionRecord,
        expected: ExpectedVersion,
    ) -> Result<RecordVersion> {
        let mut before: Option<Option<SessionRow>> = None;
        let mut refusal = contention_error("save a session");
        for _ in 0..ATTEMPTS_MAX {
            let (lease, SessionSnapshot { session: row, numbers, open, pending, .. }) =
                self.acquire_session(key).await?;
            let found = row.as_ref().map(|row| RecordVersion(row.head.version));
            if !is_expected(expected, found) || !open.is_empty() || !pending.is_empty() {
                return Err(Error::Conflict { key: key.clone(), expected, found });
            }
            if before.as_ref() == Some(&row) {
                // The row has not changed since the last attempt, so the refusal is not caused by it but by this
                // writer.
                return Err(refusal);
            }
            let (batch, version) = build_save_batch((key, lease.fence), record, row.as_ref(), numbers)?;
            match self.journal.apply(batch).await {
                Ok(()) => return Ok(version),
                Err(it @ Error::Refused { .. }) => (before, refusal) = (Some(row), it),
                Err(it @ Error::LeaseLost { .. }) => refusal = it,
                Err(it) => return Err(it),
            }
        }
        Err(refusal)
    }

    async fn acquire_session(&self, key: &SessionKey) -> Result<(SaveLease<'_>, SessionSnapshot)> {
        let AcquiredSession { fence, snapshot } = self.journal.acquire(key).await?;
        Ok((SaveLease { journal: self.journal.as_ref(), key: key.clone(), fence }, snapshot))
    }

    async fn delete_record(&self, key: &SessionKey) -> Result<()> {
        let mut lost = contention_error("delete a session");
        for _ in 0..ATTEMPTS_MAX {
            let (lease, _) = self.acquire_session(key).await?;
            let mut batch = Batch::new(key.clone(), lease.fence);
            batch.put(RowMutation::Delete);
            match self.journal.apply(batch).await {
                Err(it @ Error::LeaseLost { .. }) => lost = it,
                deleted => return deleted,
            }
        }
        Err(lost)
    }

    async fn list_records(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<Vec<SessionSummary>> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = self.journal.read_session_page(tenant, from.as_ref(), PAGE).await?;
            found.extend(
                page.sessions.into_iter().map(summarize_session).filter(|it| matches_filter(filter, it)),
            );
            from = page.next;
            if from.is_none() {
                return Ok(found);
            }
        }
    }
}

/// The lease of a session while it is saved or deleted, which is released when this is dropped.
struct SaveLease<'a> {
    journal: &'a dyn Journal,
    key: SessionKey,
    fence: FencingToken,
}

impl Drop for SaveLease<'_> {
    fn drop(&mut self) {
        // The call releases; its future only tells when that is done.
        drop(self.journal.release(vec![self.key.clone()]));
    }
}

impl SessionStore for JournalSessions {
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, Result<Option<(SessionRecord, RecordVersion)>>> {
        Box::pin(self.load_record(key))
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, Result<RecordVersion>> {
        Box::pin(self.save_record(key, record, expected))
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.delete_record(key))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>>> {
        Box::pin(self.list_records(tenant, filter))
    }
}

fn contention_error(doing: &'static str) -> Error {
    Error::Unavailable { doing, source: "others kept writing to it".into() }
}

fn is_expected(expected: ExpectedVersion, found: Option<RecordVersion>) -> bool {
    match expected {
        ExpectedVersion::Any => true,
        ExpectedVersion::Absent => found.is_none(),
        ExpectedVersion::Exactly(version) => found == Some(version),
    }
}

/// Returns the batch that makes `record` the session's state, provided that the stored row is still `stored`.
fn build_save_batch(
    (key, fence): (&SessionKey, FencingToken),
    record: &SessionRecord,
    stored: Option<&SessionRow>,
    mut counters: Counters,
) -> Result<(Batch, RecordVersion)> {
    let head = next_session_head(record, stored.map(|stored| &stored.head));
    let version = head.version;
    let mut batch = Batch::new(key.clone(), fence)
        .require(BatchPrecondition::Idle)
        .require(BatchPrecondition::Counters(counters));
    batch.requires.push(match stored {
        None => BatchPrecondition::SessionAbsent,
        Some(row) => BatchPrecondition::SessionVersion(row.head.version),
    });
    batch.put(RowMutation::Head(head));
    for field in stored.iter().flat_map(|item| &item.fields).filter(|it| !record.state.contains_key(&it.name))
    {
        batch.put(RowMutation::DropField(field.name.clone()));
    }
    let items_before = counters.items;
    for (name, value) in &record.state {
        // Every generation was started by a commit that raised the version, so this one is new.
        put_field(&mut batch, &mut counters, name, value, version)?;
    }
    if counters.items > items_before {
        counters.turns += 1;
        batch.put(RowMutation::Counters(counters));
    }
    Ok((batch, RecordVersion(version)))
}

fn next_session_head(record: &SessionRecord, stored: Option<&SessionHead>) -> SessionHead {
    let new = SessionHead {
        agent: String::new(),
        graph: String::new(),
        schema_version: String::new(),
        version: 0,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: record.updated_at,
        updated_at: record.updated_at,
    };
    let head = stored.cloned().unwrap_or(new);
    SessionHead {
        schema_version: record.schema_version.clone(),
        version: head.version + 1,
        updated_at: record.updated_at,
        ..head
    }
}

fn put_field(
    batch: &mut Batch,
    counters: &mut Counters,
    name: &str,
    value: &JsonDocument,
    generation: u64,
) -> Result<()> {
    let (mut len, mut bytes) = (0, 0);
    let mut kept = FieldValue::Value(value.clone());
    if value.as_str().trim_start().starts_with('[') {
        let elements: Vec<&RawValue> = value.decode().map_err(|source| Error::Corrupt {
            what: format!("the value of field {name:?} to save"),
            source: Some(source.into()),
        })?;
        for element in elements {
            let placement = Some(ItemPlacement { field: name.to_owned(), generation, seq: len });
            let body = JsonDocument::from_text(element.get());
            let row = ListItemRow { no: counters.items, turn: counters.turns, placement, body, side: None };
            batch.put(RowMutation::Item(row));
            counters.items += 1;
            len += 1;
            bytes += element.get().len() as u64;
        }
        kept = FieldValue::List { generation, len, bytes };
    }
    batch.put(RowMutation::Field(FieldRow { name: name.to_owned(), value: kept }));
    Ok(())
}

fn summarize_session(row: SessionRow) -> SessionSummary {
    let SessionHead { schema_version, created_at, updated_at, .. } = row.head;
    SessionSummary { key: row.key, schema_version, created_at, updated_at }
}

fn matches_filter(filter: &SessionFilter, it: &SessionSummary) -> bool {
    filter.updated_after.is_none_or(|after| it.updated_at > after)
        && filter.created_after.is_none_or(|after| it.created_at > after)
        && filter.schema_version.as_ref().is_none_or(|version| *version == it.schema_version)
}
