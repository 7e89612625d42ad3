//! A session store that breaks one promise.

use std::sync::Arc;

use super::{Clause, InFlight, Trick, sabotage};
use crate::{
    BoxFuture, Error, Expected, Journal, Result, SessionFilter, SessionKey, SessionRecord, SessionStore,
    SessionSummary, TenantId, TurnQuery, Version, WaitQuery,
};

#[derive(Debug)]
pub(super) struct TrickedSessions {
    pub(super) inner: Arc<dyn SessionStore>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) trick: Trick,
}

type Stored = Option<(SessionRecord, Version)>;

impl TrickedSessions {
    async fn load_wrongly(&self, key: &SessionKey) -> Result<Stored> {
        let stored = self.inner.load(key).await?;
        let memo = self.trick.memo();
        match self.trick.broken {
            Some(Clause::SaveDurable) if memo.is_reopened => return Ok(None),
            Some(Clause::SessionDeleted) if stored.is_none() => return Ok(memo.saved.get(key).cloned()),
            Some(Clause::SessionTenantsApart) if stored.is_none() => {
                let is_other = |it: &&SessionKey| it.session == key.session && it.tenant != key.tenant;
                let other = memo.saved.keys().find(is_other);
                return Ok(other.and_then(|other| memo.saved.get(other)).cloned());
            }
            _ => {}
        }
        let Some((mut record, version)) = stored else { return Ok(None) };
        match self.trick.broken {
            Some(Clause::SaveLoads) if record.state.len() > 2 => drop(record.state.pop_last()),
            Some(Clause::SaveWhole) if memo.is_torn => record.schema_version.push_str(" torn"),
            Some(Clause::SaveReplaces) => {
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
        mut expected: Expected,
        mut call: InFlight,
    ) -> Result<Version> {
        let stored = self.inner.load(key).await?.map(|(_, version)| version);
        match (self.trick.broken, expected) {
            (Some(Clause::SaveOverwrites), Expected::Any) if stored.is_some() => {
                return Err(Error::Conflict { key: key.clone(), expected, found: stored });
            }
            (Some(Clause::SaveExpectsAbsent), Expected::Absent) => expected = Expected::Any,
            (Some(Clause::SaveExpectsExactly), Expected::Exactly(it))
                if stored.is_some_and(|stored| it > stored) =>
            {
                expected = Expected::Any;
            }
            _ => {}
        }
        let is_alone = call.is_alone();
        let answer = self.inner.save(key, record, expected).await;
        call.is_done = true;
        let is_idle = self.is_idle(key).await?;
        let mut memo = self.trick.memo();
        match (self.trick.broken, answer) {
            (Some(Clause::SaveDecidedOnce), Err(Error::Conflict { .. })) if !is_alone => Ok(Version(1)),
            (Some(Clause::SaveNeedsIdle), Err(Error::Conflict { .. })) if !is_idle => Ok(Version(1)),
            (broken, Ok(version)) => {
                memo.state.entry(key.clone()).or_default().extend(record.state.clone());
                memo.saved.insert(key.clone(), (record.clone(), version));
                Ok(if broken == Some(Clause::SaveVersions) { Version(1) } else { version })
            }
            (_, answer) => answer,
        }
    }

    async fn is_idle(&self, key: &SessionKey) -> Result<bool> {
        Ok(self.journal.turns(key, &TurnQuery::Open).await?.is_empty()
            && self.journal.waits(&WaitQuery::Pending(key.clone())).await?.is_empty())
    }
}

impl SessionStore for TrickedSessions {
    fn load<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Stored>> {
        Box::pin(self.load_wrongly(key))
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: Expected,
    ) -> BoxFuture<'a, Result<Version>> {
        Box::pin(self.save_wrongly(key, record, expected, self.trick.enter()))
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_absent = self.inner.load(key).await?.is_none();
            if is_absent && self.trick.breaks(Clause::SessionDeleteIdempotent) {
                return Err(sabotage());
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
            let filter = if self.trick.breaks(Clause::ListFilters) { &all } else { filter };
            let mut listed = self.inner.list(tenant, filter).await?;
            if self.trick.breaks(Clause::ListOrdered) {
                listed.reverse();
            }
            if self.trick.breaks(Clause::ListSummaries) {
                listed.iter_mut().for_each(|it| it.created_at = it.updated_at);
            }
            Ok(listed)
        })
    }
}
