//! A journal that breaks one promise.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use singletree_durable::{
    AcquiredSession, Batch, BatchPrecondition, BoxFuture, Counters, EarlySignalRow, Error, EventRow,
    FencingToken, InvocationId, ItemRange, Journal, JsonDocument, ListItemRow, LoggedTurn, LoggedTurnQuery,
    PositionRow, RecordRow, Result, RowMutation, SessionId, SessionKey, SessionPage, SessionRow,
    SessionSnapshot, StoredWaitStatus, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery,
    WaitRow, WaitRowQuery,
};

use super::batches::twist_batch;
use super::leases::{LateWrite, TwistedLeases, land_waiting_batches};
use super::writes::{CancellableWrite, DeferredWrite};
use super::{ClauseFault, ContractClause, lock_unpoisoned, sabotage_error};

#[derive(Debug)]
pub(super) struct FaultyJournal {
    inner: Arc<dyn Journal>,
    trick: ClauseFault,
    epoch: String,
    /// The fences that this handle was given.
    leases: TwistedLeases,
    /// Batches whose futures were not polled yet, with the numbers of their calls.
    queue: Arc<Mutex<VecDeque<(u64, Batch)>>>,
    calls: Mutex<u64>,
}

impl FaultyJournal {
    pub(super) fn new(inner: Arc<dyn Journal>, trick: ClauseFault, is_reopened: bool) -> Self {
        let mut epoch = inner.log_epoch().to_owned();
        if trick.breaks_clause(ContractClause::EpochStays) && is_reopened {
            epoch.push('+');
        }
        let leases = TwistedLeases::default();
        Self { inner, trick, epoch, leases, queue: Arc::default(), calls: Mutex::new(0) }
    }

    /// Applies a batch; when it is refused, applies another and answers as `answer` says.
    fn apply_with_fallback(
        &self,
        batch: Batch,
        other: Batch,
        answer: impl FnOnce(Error, Result<()>) -> Result<()> + Send + 'static,
    ) -> BoxFuture<'static, Result<()>> {
        let first = self.inner.apply(batch);
        let inner = self.inner.clone();
        Box::pin(async move {
            match first.await {
                Err(it @ Error::Refused { .. }) => answer(it, inner.apply(other).await),
                other => other,
            }
        })
    }

    /// Keeps a batch until its future is polled, then applies it after all batches of earlier calls.
    fn apply_when_polled(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let mut calls = lock_unpoisoned(&self.calls);
        *calls += 1;
        lock_unpoisoned(&self.queue).push_back((*calls, batch));
        Box::pin(CancellableWrite { no: *calls, queue: self.queue.clone(), inner: self.inner.clone() })
    }
}

fn without_mutations(batch: &Batch, is_lost: impl Fn(&RowMutation) -> bool) -> Batch {
    let mut batch = batch.clone();
    batch.puts.retain(|put| !is_lost(put));
    batch
}

/// Checks whether a batch answers a wait that was pending.
fn is_claim(batch: &Batch) -> bool {
    let requires = batch.requires.iter().any(|require| matches!(require, BatchPrecondition::Wait { .. }));
    requires
        && batch
            .puts
            .iter()
            .any(|put| matches!(put, RowMutation::Wait(row) if row.status == StoredWaitStatus::Consumed))
}

fn pop_if_several<T>(rows: &mut Vec<T>) {
    if rows.len() > 1 {
        rows.pop();
    }
}

impl Journal for FaultyJournal {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(async move {
            let early = match self.trick.breaks_clause(ContractClause::AcquireSeesLast) {
                true => Some(self.inner.read_session_snapshot(key).await?),
                false => None,
            };
            if early.is_some() {
                land_waiting_batches(&self.inner, &self.trick).await;
            }
            let mut acquired = self.inner.acquire(key).await?;
            acquired.fence = self.leases.record_acquired(&self.trick, key, acquired.fence);
            acquired.snapshot = early.unwrap_or(acquired.snapshot);
            if self.trick.breaks_clause(ContractClause::AcquireReads) {
                acquired.snapshot.open.clear();
            }
            Ok(acquired)
        })
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        match self.trick.broken {
            Some(ContractClause::LeaseReleased) => Box::pin(std::future::ready(Ok(()))),
            // More often than the suite ever acquires a session.
            Some(ContractClause::LeaseCounted) => self.inner.release([keys.as_slice(); 8].concat()),
            _ => self.inner.release(keys),
        }
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        match self.trick.breaks_clause(ContractClause::NewestFence) {
            true => Box::pin(std::future::ready(Ok(FencingToken(0)))),
            false => self.inner.read_newest_fence(),
        }
    }

    fn log_epoch(&self) -> &str {
        &self.epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let mut batch = twist_batch(&self.trick, batch);
        self.leases.twist_fences(&self.trick, self.inner.as_ref(), &mut batch);
        let answers = |_: Error, answer: Result<()>| answer;
        match self.trick.broken {
            Some(ContractClause::Ordered) => {
                Box::pin(DeferredWrite { inner: self.inner.clone(), batch: Some(batch), answer: None })
            }
            Some(ContractClause::NeverDropped) => self.apply_when_polled(batch),
            Some(ContractClause::AcquireSeesLast) => {
                Box::pin(LateWrite::new(self.inner.clone(), self.trick.clone(), batch))
            }
            Some(ContractClause::RefusedWritesNothing) => {
                let mut other = without_mutations(&batch, |it| {
                    matches!(it, RowMutation::Item(_) | RowMutation::Event(_))
                });
                other.requires.clear();
                self.apply_with_fallback(batch, other, |refusal, _| Err(refusal))
            }
            Some(ContractClause::ItemNumbers) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::Item(_)));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::EventNumbers) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::Event(_)));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::PlaceOnce) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::Place { .. }));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::SideNeedsItem) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::Side { .. }));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::InheritWhole) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::Inherit { .. }));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::TurnInUse) => {
                let other = without_mutations(&batch, |it| matches!(it, RowMutation::DropTurn { .. }));
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::DecidedOnce) if is_claim(&batch) => {
                let other = Batch { requires: Vec::new(), ..batch.clone() };
                self.apply_with_fallback(batch, other, answers)
            }
            Some(ContractClause::DeleteIdempotent)
                if std::mem::take(&mut self.trick.lock_history().fails) =>
            {
                // The delete still happens: another promise states that the rows of the session are removed.
                let done = self.inner.apply(batch);
                Box::pin(async move { done.await.and(Err(sabotage_error())) })
            }
            _ => self.inner.apply(batch),
        }
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        Box::pin(async move {
            let mut row = self.inner.read_session(key).await?;
            if let Some(row) =
                row.as_mut().filter(|_| self.trick.breaks_clause(ContractClause::FieldsOrdered))
                && row.fields.len() > 2
            {
                row.fields.reverse();
            }
            if let Some(row) = row.as_mut() {
                let memo = self.trick.lock_history();
                let is_lower = match self.trick.broken {
                    Some(ContractClause::CountersRise) => {
                        memo.counters.contains_key(key) && !memo.deleted.contains(key)
                    }
                    Some(ContractClause::NumbersGoOn) => memo.deleted.contains(key),
                    _ => false,
                };
                if is_lower {
                    row.counters = memo.counters.get(key).copied().unwrap_or_default();
                }
            }
            Ok(row)
        })
    }

    fn read_session_snapshot<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        Box::pin(async move {
            if self.trick.breaks_clause(ContractClause::ReadingAcquiresNothing)
                && !self.leases.has_acquired(key)
            {
                self.inner.acquire(key).await?;
            }
            let mut dossier = self.inner.read_session_snapshot(key).await?;
            if self.trick.breaks_clause(ContractClause::DossierAgrees) {
                dossier.paused = None;
            }
            Ok(dossier)
        })
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        Box::pin(async move {
            let is_lost = self.trick.breaks_clause(ContractClause::NumbersOutlive)
                && self.trick.lock_history().deleted.contains(key);
            if is_lost && self.inner.read_session(key).await?.is_none() {
                return Ok(Counters::default());
            }
            self.inner.read_counters(key).await
        })
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        Box::pin(async move {
            let mut page = self.inner.read_session_page(tenant, from, limit).await?;
            page.next = page.next.filter(|_| !self.trick.breaks_clause(ContractClause::SessionsPaged));
            Ok(page)
        })
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_recent_sessions(tenant, past, limit).await?;
            if self.trick.breaks_clause(ContractClause::SessionsRecent) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        Box::pin(async move {
            let mut range = range.clone();
            match &mut range {
                ItemRange::List { limit, .. } if self.trick.breaks_clause(ContractClause::ItemsOfList) => {
                    *limit += 1
                }
                ItemRange::Page { bytes, .. } | ItemRange::PageBefore { bytes, .. }
                    if self.trick.breaks_clause(ContractClause::ItemsByBytes) =>
                {
                    *bytes = bytes.saturating_add(10);
                }
                ItemRange::Numbers { to, .. } if self.trick.breaks_clause(ContractClause::ItemsByNumber) => {
                    *to += 1
                }
                _ => {}
            }
            let mut rows = self.inner.read_items(key, &range).await?;
            if self.trick.breaks_clause(ContractClause::ItemsOfTurn) && matches!(range, ItemRange::Turn(_)) {
                pop_if_several(&mut rows);
            }
            if self.trick.breaks_clause(ContractClause::InheritCopies)
                && self.trick.lock_history().heirs.contains(key)
            {
                rows.iter_mut().for_each(|row| row.side = None);
            }
            if self.trick.breaks_clause(ContractClause::PlaceKeepsBody) {
                let memo = self.trick.lock_history();
                let placed = rows.iter_mut().filter(|row| memo.placed.contains(&(key.clone(), row.no)));
                placed.for_each(|it| it.body = JsonDocument::from_text("null"));
            }
            if self.trick.breaks_clause(ContractClause::SideReplaced) {
                let memo = self.trick.lock_history();
                let sided = rows.iter_mut().filter(|row| memo.sided.contains(&(key.clone(), row.no)));
                sided.for_each(|it| it.side = None);
            }
            Ok(rows)
        })
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_turns(key, query).await?;
            match (self.trick.broken, query) {
                (Some(ContractClause::TurnByNumber), TurnRowQuery::No(no)) => {
                    rows.extend(self.inner.read_turns(key, &TurnRowQuery::No(no + 1)).await?);
                }
                (Some(ContractClause::TurnByKey), TurnRowQuery::Key(_)) => rows.clear(),
                (Some(ContractClause::TurnsOfInvocation), TurnRowQuery::Invocation(_))
                | (Some(ContractClause::TurnsOpen), TurnRowQuery::Open) => pop_if_several(&mut rows),
                (Some(ContractClause::TurnsFrom), TurnRowQuery::From { no, limit }) => {
                    let more = TurnRowQuery::From { no: *no, limit: limit + 1 };
                    rows = self.inner.read_turns(key, &more).await?;
                }
                _ => {}
            }
            Ok(rows)
        })
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        Box::pin(async move {
            let key = self.inner.find_session_of_invocation(tenant, invocation).await?;
            Ok(key.filter(|_| !self.trick.breaks_clause(ContractClause::SessionOfInvocation)))
        })
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_waits(query).await?;
            let clause = match query {
                WaitRowQuery::Pending(_) => ContractClause::WaitsPending,
                WaitRowQuery::PendingOf(..) => ContractClause::WaitsPendingOfTenant,
                WaitRowQuery::Signal(..) => ContractClause::WaitsOfSignal,
                WaitRowQuery::SignalOf(..) => ContractClause::WaitsOfTenantSignal,
                WaitRowQuery::Invocation(..) => ContractClause::WaitsOfInvocation,
            };
            if self.trick.breaks_clause(clause) {
                pop_if_several(&mut rows);
            }
            Ok(rows)
        })
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_early_signals(key).await?;
            if self.trick.breaks_clause(ContractClause::MailOrdered) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        Box::pin(async move {
            let row = self.inner.read_position(key, invocation).await?;
            let name = (key.clone(), invocation.to_string());
            let before = self.trick.lock_history().positions.insert(name, row.clone());
            Ok(before.filter(|_| self.trick.breaks_clause(ContractClause::ReadYourWrites)).unwrap_or(row))
        })
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_positions(key).await?;
            if self.trick.breaks_clause(ContractClause::PositionsOrdered) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        Box::pin(async move {
            let mut rows = self.inner.read_turn_records(key, turn).await?;
            if self.trick.breaks_clause(ContractClause::RecordsOrdered) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn read_logged_turns<'a>(
        &'a self,
        queries: &'a [LoggedTurnQuery],
    ) -> BoxFuture<'a, Result<Vec<LoggedTurn>>> {
        Box::pin(async move {
            let mut turns = self.inner.read_logged_turns(queries).await?;
            if self.trick.breaks_clause(ContractClause::LoggedTurns) {
                turns.reverse();
            }
            Ok(turns)
        })
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        Box::pin(async move {
            let more = u64::from(self.trick.breaks_clause(ContractClause::EventsFrom));
            let rows = self.inner.read_events(key, from, limit + more).await?;
            if !rows.is_empty() {
                return Ok(rows);
            }
            let (lingers, other) = {
                let memo = self.trick.lock_history();
                let is_other = |it: &&SessionKey| it.session == key.session && it.tenant != key.tenant;
                let lingers = memo.deleted.contains(key) && memo.with_events.contains(key);
                (lingers, memo.with_events.iter().find(is_other).cloned())
            };
            match other {
                Some(other) if self.trick.breaks_clause(ContractClause::TenantsApart) => {
                    self.inner.read_events(&other, from, limit).await
                }
                _ if lingers && self.trick.breaks_clause(ContractClause::DeleteRemoves) => {
                    Ok(vec![phantom_event()])
                }
                _ => Ok(rows),
            }
        })
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        Box::pin(async move {
            let rows = self.inner.read_model_usage(of).await?;
            let is_lost =
                matches!(of, UsageRowQuery::Tenant(_)) && !self.trick.lock_history().deleted.is_empty();
            Ok(if is_lost && self.trick.breaks_clause(ContractClause::UsageOfTenant) {
                Vec::new()
            } else {
                rows
            })
        })
    }
}

/// Returns an event that remains of a deleted session.
fn phantom_event() -> EventRow {
    let at = Timestamp::from_millis(0);
    EventRow { seq: 0, turn: 0, kind: "phantom".to_owned(), item: None, at, body: None }
}
