//! A process's handle to the simulated store.

use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt;
use singletree_durable::{
    AcquiredSession, Batch, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Error, FencingToken,
    Journal, JournalLayer, JournalMaintenance, JournalRead, MaintenanceLayer, MemoryStore, Result,
    RowMutation, ServedGraphs, SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
    TurnRow,
};

use super::commit_rules::{find_broken_rules, find_malformed_batch};
use super::turn_ends::{TurnEnds, UnrecordedEnds};
use super::{SimulatedNode, SimulatedStore};
use crate::fault::FaultKind;
use crate::plant::{BatchRequirements, PassedBatch};

/// A handle to the simulated store, with the fence that it was opened with.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedJournal {
    store: SimulatedStore,
    /// The place of the process.
    slot: usize,
    data: MemoryStore,
    /// The process among the owners of sessions, when several share the store.
    node: Option<SimulatedNode>,
    unrecorded: Arc<UnrecordedEnds>,
}

impl SimulatedJournal {
    pub(super) fn new(
        (store, slot): (SimulatedStore, usize),
        data: MemoryStore,
        node: Option<SimulatedNode>,
    ) -> Self {
        Self { store, slot, data, node, unrecorded: Arc::default() }
    }

    /// Returns the heartbeat of the process, when several share the store.
    pub(crate) fn heartbeat(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        self.node.clone().map(|node| node.keep_alive(self.store.clone()))
    }

    /// Notes that the process begins to stop.
    pub(crate) fn note_stop(&self) {
        self.unrecorded.note_stop();
    }

    /// Ends the process among the owners of sessions.
    pub(crate) fn leave(&self) {
        if let Some(node) = &self.node {
            node.leave(&self.store);
        }
    }

    /// Delays a read, which has its result already: a slow answer is an old one.
    fn delay_read<'a, T: Send + 'a>(&'a self, answer: BoxFuture<'a, Result<T>>) -> BoxFuture<'a, Result<T>> {
        let store = &self.store;
        let is_early = store.lock_state().last_answer_at > store.0.executor.now();
        store.0.coverage.note_if(is_early, "a read saw a commit before its acknowledgement");
        let hangs = store.0.swarm.is_due(FaultKind::ReadHangs);
        let fails = store.0.swarm.is_due(FaultKind::ReadFails);
        let span = match hangs {
            true => store.draw_micros(1_000_000, 60_000_000),
            false => store.draw_micros(1, 300),
        };
        let waiting = store.0.executor.sleep_for(span);
        Box::pin(async move {
            waiting.await;
            store.reach(self.slot, "read").await?;
            match fails {
                true => Err(Error::Unavailable { doing: "read", source: "the read failed".into() }),
                false => answer.await,
            }
        })
    }
}

/// Describes a batch for the trace.
fn label_batch(batch: &Batch) -> String {
    let kinds = batch.puts.iter().map(|put| match put {
        RowMutation::Turn(row) => format!("turn {} {:?}", row.no, row.status),
        RowMutation::Delete => "delete".to_owned(),
        RowMutation::Wait(row) => format!("wait {} {:?}", row.no, row.status),
        RowMutation::Event(row) => format!("event {} {}", row.seq, row.kind),
        RowMutation::Inherit { from, len, .. } => format!("inherit {len} of {from}"),
        RowMutation::Position(row) => format!("position of turn {}", row.turn),
        RowMutation::Record(row) => format!("record {} of turn {}", row.name, row.turn),
        _ => String::new(),
    });
    let kinds: Vec<String> = kinds.filter(|kind| !kind.is_empty()).collect();
    format!("{}/{} [{}]", batch.key.tenant, batch.key.session, kinds.join(", "))
}

/// Applies a batch: the memory store has its answer at once.
fn apply_at_once(data: &MemoryStore, batch: Batch) -> Result<()> {
    Journal::apply(data, batch).now_or_never().unwrap_or(Err(Error::Closed))
}

impl JournalLayer for SimulatedJournal {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &MemoryStore {
        &self.data
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let PassedBatch { batch, intended } = self.store.0.planting.pass_batch(batch);
        let data = match &self.node {
            None => self.data.clone(),
            Some(node) => match node.data_for_batch(&batch.key, batch.fence) {
                Ok(data) => data,
                Err(lost) => return Box::pin(ready(Err(lost))),
            },
        };
        let (session, label) = (batch.key.clone(), label_batch(&batch));
        self.store.0.executor.trace_event(format_args!("apply {label} {batch:?}"));
        let (landings, planting) = (self.store.0.landings.clone(), self.store.0.planting.clone());
        let store = self.store.clone();
        let (ends, unrecorded) = (Arc::new(TurnEnds::of_batch(&batch)), self.unrecorded.clone());
        let landing_ends = (ends.clone(), unrecorded.clone());
        let written = self.store.enqueue_write(self.slot, Some(session), label, move || {
            let batch = store.plant_in_fence(batch);
            let kept = landings.is_kept().then(|| batch.clone());
            let requirements = BatchRequirements::of_batch(&batch);
            let without_fault = intended.and_then(|intended| {
                let copy = planting.copy_for_comparison(&data)?;
                let answer = apply_at_once(&copy, store.plant_in_fence(intended));
                Some((copy, answer))
            });
            let mut broken = find_broken_rules(&batch, &data);
            let answer = apply_at_once(&data, batch);
            if let Some((copy, expected)) = &without_fault {
                planting.compare_with_intended((&data, &answer), (copy, expected));
            }
            // One that is refused does no harm: the commit before it failed, and the program has the old numbers.
            if answer.is_ok() {
                let (ends, unrecorded) = landing_ends;
                broken.extend(unrecorded.find_replaced_ends(&ends));
                broken.into_iter().for_each(|broken| store.note_violation(broken));
            }
            if let Some(why) = find_malformed_batch(&requirements, &answer) {
                store.note_violation(why);
            }
            if let Some(batch) = kept {
                landings.note_landing(batch, &answer);
            }
            Box::pin(ready(answer))
        });
        Box::pin(async move {
            let answer = written.await;
            unrecorded.note_answer(&ends, &answer);
            answer
        })
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        match &self.node {
            None => self.delay_read(self.data.acquire(key)),
            Some(node) => self.delay_read(Box::pin(node.acquire_session(&self.store, key))),
        }
    }

    fn announce_served_graphs(&self, served: ServedGraphs) {
        if let Some(node) = &self.node {
            node.announce_graphs(&self.store, served);
        }
    }

    fn check_session_lease<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: FencingToken,
    ) -> BoxFuture<'a, Result<()>> {
        match &self.node {
            None => Box::pin(ready(Ok(()))),
            Some(node) => Box::pin(node.check_lease(&self.store, (key, fence))),
        }
    }

    fn is_shared(&self) -> bool {
        self.node.is_some()
    }

    fn release_sessions(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        match &self.node {
            None => self.data.release(keys),
            Some(node) => {
                node.release_sessions(&self.store, keys);
                Box::pin(ready(Ok(())))
            }
        }
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.delay_read(answer)
    }
}

impl MaintenanceLayer for SimulatedJournal {
    type Maintenance = MemoryStore;

    fn inner_maintenance(&self) -> &MemoryStore {
        &self.data
    }

    fn find_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        match &self.node {
            None => self.data.read_ownerless_turns(past, limit),
            Some(node) => Box::pin(async move {
                self.store.reach(self.slot, "look for turns").await?;
                self.store.find_ownerless_turns(node, past, limit)
            }),
        }
    }
}

impl DocumentStore for SimulatedJournal {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        self.delay_read(self.data.read_document(key))
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        self.delay_read(self.data.read_documents(tenant, kind, past, limit))
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let (data, label) = (self.data.clone(), format!("{} documents", changes.len()));
        self.store.enqueue_write(self.slot, None, label, move || data.change_documents(changes))
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let data = self.data.clone();
        let label = "expired documents".to_owned();
        self.store.enqueue_write(self.slot, None, label, move || data.expire_documents(before, limit))
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        let (data, key, holder) = (self.data.clone(), key.clone(), holder.map(str::to_owned));
        let (session, label) = (key.clone(), format!("blob {}", blob.digest));
        self.store.enqueue_write(self.slot, Some(session), label, move || {
            data.keep_blob_for(&key, blob, holder.as_deref())
        })
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        self.delay_read(self.data.read_blob_totals(tenant, holder))
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        self.delay_read(self.data.read_blob(key, digest))
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.delay_read(self.data.count_blob_bytes(key))
    }
}
