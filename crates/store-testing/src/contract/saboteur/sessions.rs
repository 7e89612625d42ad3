//! A session store that breaks one promise.

use std::sync::Arc;

use singletree_durable::{
    BoxFuture, Error, ExpectedVersion, Journal, RecordVersion, Result, SessionFilter, SessionKey,
    SessionRecord, SessionStore, SessionSummary, TenantId, TurnRowQuery, WaitRowQuery,
};

use super::{ClauseFault, ContractClause, PendingStoreCall, sabotage_error};

#[derive(Debug)]
pub(super) struct FaultySessionStore {
    pub(super) inner: Arc<dyn SessionStore>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) trick: ClauseFault,
}

type Stored = Option<(SessionRecord, RecordVersion)>;

impl FaultySessionStore {
    async fn load_wrongly(&self, key: &SessionKey) -> Result<Stored> {
        let stored = self.inner.load(key).await?;
        let memo = self.trick.lock_history();
        match self.trick.broken {
            Some(ContractClause::SaveDurable) if memo.is_reopened => return Ok(None),
            Some(ContractClause::SessionDeleted) if stored.is_none() => {
                return Ok(memo.saved.get(key).cloned());
            }
            Some(ContractClause::SessionTenantsApart) if stored.is_none() => {
                let is_other = |it: &&SessionKey| it.session == key.session && it.tenant != key.tenant;
                let other = memo.saved.keys().find(is_other);
                return Ok(other.and_then(|other| memo.saved.get(other)).cloned());
            }
            _ => {}
        }
        let Some((mut record, version)) = stored else { return Ok(None) };
        match self.trick.broken {
            Some(ContractClause::SaveLoads) if record.state.len() > 2 => drop(record.state.pop_last()),
            Some(ContractClause::SaveWhole) if memo.is_torn => record.schema_version.push_str(" torn"),
            Some(ContractClause::SaveReplaces) => {
                let before = memo.state.get(key).cloned().unwrap_or_default();
                for (name, value) in before {
                    record.state.entry(name).or_insert(value);
                }
            }
            _ => {}
        }
        Ok(Some((record, version)))
    }

    async fn save_wrongly(
        &self,
        key: &SessionKey,
        record: &SessionRecord,
        mut expected: ExpectedVersion,
        mut call: PendingStoreCall,
    ) -> Result<RecordVersion> {
        let stored = self.inner.load(key).await?.map(|(_, version)| version);
        match (self.trick.broken, expected) {
            (Some(ContractClause::SaveOverwrites), ExpectedVersion::Any) if stored.is_some() => {
                return Err(Error::Conflict { key: key.clone(), expected, found: stored });
            }
            (Some(ContractClause::SaveExpectsAbsent), ExpectedVersion::Absent) => {
                expected = ExpectedVersion::Any
            }
            (Some(ContractClause::SaveExpectsExactly), ExpectedVersion::Exactly(it))
                if stored.is_some_and(|stored| it > stored) =>
            {
                expected = ExpectedVersion::Any;
            }
            _ => {}
        }
        let is_alone = call.is_alone();
        let answer = self.inner.save(key, record, expected).await;
        call.is_done = true;
        let is_idle = self.is_idle(key).await?;
        let mut memo = self.trick.lock_history();
        match (self.trick.broken, answer) {
            (Some(ContractClause::SaveDecidedOnce), Err(Error::Conflict { .. })) if !is_alone => {
                Ok(RecordVersion(1))
            }
            (Some(ContractClause::SaveNeedsIdle), Err(Error::Conflict { .. })) if !is_idle => {
                Ok(RecordVersion(1))
            }
            (broken, Ok(version)) => {
                memo.state.entry(key.clone()).or_default().extend(record.state.clone());
                memo.saved.insert(key.clone(), (record.clone(), version));
                Ok(if broken == Some(ContractClause::SaveVersions) { RecordVersion(1) } else { version })
            }
            (_, answer) => answer,
        }
    }

    async fn is_idle(&self, key: &SessionKey) -> Result<bool> {
        Ok(self.journal.read_turns(key, &TurnRowQuery::Open).await?.is_empty()
            && self.journal.read_waits(&WaitRowQuery::Pending(key.clone())).await?.is_empty())
    }
}

impl SessionStore for FaultySessionStore {
    fn load<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Stored>> {
        Box::pin(self.load_wrongly(key))
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, Result<RecordVersion>> {
        Box::pin(self.save_wrongly(key, record, expected, self.trick.begin_call()))
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_absent = self.inner.load(key).await?.is_none();
            if is_absent && self.trick.breaks_clause(ContractClause::SessionDeleteIdempotent) {
                return Err(sabotage_error());
            }
            self.inner.delete(key).await
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>>> {
        Box::pin(async move {
            let all = SessionFilter::default();
            let filter = if self.trick.breaks_clause(ContractClause::ListFilters) { &all } else { filter };
            let mut listed = self.inner.list(tenant, filter).await?;
            if self.trick.breaks_clause(ContractClause::ListOrdered) {
                listed.reverse();
            }
            if self.trick.breaks_clause(ContractClause::ListSummaries) {
                listed.iter_mut().for_each(|it| it.created_at = it.updated_at);
            }
            Ok(listed)
        })
    }
}
