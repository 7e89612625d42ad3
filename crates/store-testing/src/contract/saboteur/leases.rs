//! Leases that break one promise.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use singletree_durable::{Batch, FencingToken, Journal, Result, RowMutation, SessionKey};

use super::{ClauseFault, ContractClause, lock_unpoisoned};

/// The fences that one handle was given: as they were told, with those of the store.
#[derive(Debug, Default)]
pub(super) struct TwistedLeases {
    told: Mutex<BTreeMap<SessionKey, BTreeMap<FencingToken, FencingToken>>>,
}

impl TwistedLeases {
    /// Records a fence of the store, and returns the one that is told.
    pub(super) fn record_acquired(
        &self,
        trick: &ClauseFault,
        key: &SessionKey,
        real: FencingToken,
    ) -> FencingToken {
        let mut told = lock_unpoisoned(&self.told);
        let own = told.entry(key.clone()).or_default();
        let mut memo = trick.lock_history();
        let given = memo.fences.entry(key.clone()).or_default();
        given.push(real);
        let fence = match trick.broken {
            Some(ContractClause::FenceRises) => *given.first().unwrap_or(&real),
            Some(ContractClause::LeaseKept) => FencingToken(real.0 + 1_000 * own.len() as u64),
            _ => real,
        };
        own.insert(fence, real);
        fence
    }

    pub(super) fn has_acquired(&self, key: &SessionKey) -> bool {
        lock_unpoisoned(&self.told).contains_key(key)
    }

    /// Replaces the fences that were told by those of the store, and others as the broken clause says.
    pub(super) fn twist_fences(&self, trick: &ClauseFault, journal: &dyn Journal, batch: &mut Batch) {
        let told = lock_unpoisoned(&self.told);
        let own = told.get(&batch.key);
        let find_real = |fence: FencingToken| own.and_then(|own| own.get(&fence)).copied();
        batch.fence = find_real(batch.fence).unwrap_or(batch.fence);
        for put in &mut batch.puts {
            if let RowMutation::Turn(row) = put {
                row.fence = find_real(row.fence).unwrap_or(row.fence);
            }
        }
        let given = trick.lock_history().fences.get(&batch.key).cloned().unwrap_or_default();
        let is_given = given.contains(&batch.fence);
        let own_fence = own.and_then(|own| own.values().next_back()).copied();
        match trick.broken {
            Some(ContractClause::Fenced) if !is_given => batch.fence = own_fence.unwrap_or(batch.fence),
            Some(ContractClause::LeaseTaken) if is_given => {
                batch.fence = given.last().copied().unwrap_or(batch.fence);
            }
            Some(ContractClause::NeverAcquired) if given.is_empty() => {
                batch.fence = acquire_at_once(journal, &batch.key).unwrap_or(batch.fence);
            }
            _ => {}
        }
    }
}

/// Acquires a session of a store whose futures are ready at once.
fn acquire_at_once(journal: &dyn Journal, key: &SessionKey) -> Option<FencingToken> {
    match journal.acquire(key).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(acquired)) => Some(acquired.fence),
        Poll::Ready(Err(_)) | Poll::Pending => None,
    }
}

/// Applies all batches that wait, in the order of their calls.
pub(super) async fn land_waiting_batches(journal: &Arc<dyn Journal>, trick: &ClauseFault) {
    while let Some((no, batch)) = { trick.lock_history().waiting.pop_first() } {
        let landed = journal.apply(batch).await;
        trick.lock_history().landed.insert(no, landed);
    }
}

/// A call that lands when it is polled or dropped, or when a session is acquired; in the order of the calls.
pub(super) struct LateWrite {
    no: u64,
    journal: Arc<dyn Journal>,
    trick: ClauseFault,
}

impl LateWrite {
    pub(super) fn new(journal: Arc<dyn Journal>, trick: ClauseFault, batch: Batch) -> Self {
        let no = {
            let mut memo = trick.lock_history();
            memo.late_calls += 1;
            let no = memo.late_calls;
            memo.waiting.insert(no, batch);
            no
        };
        Self { no, journal, trick }
    }

    fn land_waiting(&self, cx: &mut Context<'_>) {
        let landing = Box::pin(land_waiting_batches(&self.journal, &self.trick)).as_mut().poll(cx);
        debug_assert!(landing.is_ready(), "only used on stores that answer at once");
    }
}

impl Future for LateWrite {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.land_waiting(cx);
        self.trick.lock_history().landed.remove(&self.no).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for LateWrite {
    fn drop(&mut self) {
        self.land_waiting(&mut Context::from_waker(Waker::noop()));
    }
}
