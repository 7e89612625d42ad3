//! Several processes over one store: whose session it is, and who is alive. The protocol is that of
//! `singletree-store-postgres`, on the tables of the simulated store (docs/decisions/0020).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use singletree_durable::{
    AcquiredSession, Batch, Error, FencingToken, Journal, MemoryStore, Result, ServedGraphs, SessionKey,
    SessionSnapshot, TurnRow, TurnRowQuery,
};

use super::{LeaseFault, SimulatedStore};
use crate::executor::TaskGroup;
use crate::fault::FaultKind;

/// How many heartbeats a lease has.
const BEATS: u32 = 5;

/// The part of a lease, as a divisor, in which nothing is answered from memory any more before it was renewed.
const MARGIN: u32 = 4;

/// How often a session is asked for while this process is replaced among the owners.
const ATTEMPTS: u32 = 3;

/// How long a release waits before it looks again whether the writes of its session have landed.
const RELEASE_PAUSE: Duration = Duration::from_millis(1);

/// A number of an owner: each process has a new one when it starts, and when its lease has ended.
pub(super) type Incarnation = u64;

/// The tables of owners, in a store that several processes share.
#[derive(Debug)]
pub(super) struct NodeTable {
    /// How long a process is alive after a heartbeat.
    pub(super) lease: Duration,
    pub(super) planted: Option<LeaseFault>,
    rows: BTreeMap<Incarnation, NodeRow>,
    pub(super) sessions: BTreeMap<SessionKey, SessionLease>,
    next: Incarnation,
    /// By how much the store's clock is ahead of the simulated time. Nothing depends on it, but for a planted fault.
    pub(super) clock_ahead: Duration,
    /// How many owners counted as dead or have lost their lease, and had no session any more from then on.
    pub(super) takeovers: u64,
}

#[derive(Debug)]
struct NodeRow {
    /// By the clock of the store, for people.
    alive_until: Duration,
    beat: u64,
    /// The work that it can go on with, if it has said so.
    served: Option<ServedGraphs>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLease {
    /// None when nobody holds it.
    pub(super) owner: Option<Incarnation>,
    fence: FencingToken,
}

/// Whether a session may be acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseAnswer {
    /// It is the asking process's from now on.
    Granted,
    /// A living process holds it.
    Held(Incarnation),
    /// Nobody who lives holds it, and another process can go on with it, as the asking one cannot.
    Left(Incarnation),
    /// The lease of the asking process has ended.
    Ended,
}

impl NodeTable {
    pub(super) fn new(lease: Duration, planted: Option<LeaseFault>) -> Self {
        Self {
            lease,
            planted,
            rows: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next: 1,
            clock_ahead: Duration::ZERO,
            takeovers: 0,
        }
    }

    fn register(&mut self, now: Duration) -> Incarnation {
        let incarnation = self.next;
        self.next += 1;
        let row = NodeRow { alive_until: now + self.clock_ahead + self.lease, beat: 0, served: None };
        self.rows.insert(incarnation, row);
        incarnation
    }

    /// Tells whether a process is an owner. Who counts as dead is none from then on.
    fn is_owner(&self, incarnation: Incarnation) -> bool {
        self.rows.contains_key(&incarnation)
    }

    /// Renews a lease; tells whether the process is an owner still.
    fn renew(&mut self, incarnation: Incarnation, now: Duration) -> bool {
        let alive_until = now + self.clock_ahead + self.lease;
        if self.planted == Some(LeaseFault::EndedLeaseRenewed) {
            self.rows.entry(incarnation).or_insert(NodeRow { alive_until, beat: 0, served: None });
        }
        let Some(row) = self.rows.get_mut(&incarnation) else {
            return false;
        };
        (row.beat, row.alive_until) = (row.beat + 1, alive_until);
        true
    }

    /// Tells whether an owner counts as dead for a process that has seen these heartbeats: it was silent for a whole lease,
    /// by the clock of that process.
    fn is_dead(&self, owner: Incarnation, seen: &SeenBeats, now: Duration) -> bool {
        let Some(row) = self.rows.get(&owner) else { return true };
        match self.planted {
            Some(LeaseFault::LivingOwnerReplaced) => true,
            Some(LeaseFault::DeadOwnerKept) => false,
            Some(LeaseFault::StoreClockTrusted) => row.alive_until <= now + self.clock_ahead,
            // The time since the last look does not count.
            _ => seen.beats.get(&owner).is_some_and(|(beat, since)| {
                *beat == row.beat && seen.last_look.saturating_sub(*since) >= self.lease
            }),
        }
    }

    /// Records the work that a process can go on with.
    pub(super) fn set_served(&mut self, incarnation: Incarnation, served: Option<ServedGraphs>) {
        if let Some(row) = self.rows.get_mut(&incarnation) {
            row.served = served;
        }
    }

    /// Returns the first other process that does not count as dead for this one and serves such work.
    pub(super) fn find_server(
        &self,
        (node, now): (&NodeState, Duration),
        serves: impl Fn(&ServedGraphs) -> bool,
    ) -> Option<Incarnation> {
        let others = self.rows.iter().filter(|(owner, _)| **owner != node.incarnation);
        let mut fit = others.filter(|(owner, row)| {
            row.served.as_ref().is_some_and(&serves) && !self.is_dead(**owner, &node.seen, now)
        });
        fit.next().map(|(owner, _)| *owner)
    }

    fn ask_for(&mut self, key: &SessionKey, node: &NodeState, now: Duration) -> Result<LeaseAnswer> {
        if !self.is_owner(node.incarnation) {
            return Ok(LeaseAnswer::Ended);
        }
        let owner = self.sessions.get(key).and_then(|lease| lease.owner);
        let owner = owner.filter(|owner| *owner != node.incarnation);
        if let Some(owner) = owner.filter(|owner| !self.is_dead(*owner, &node.seen, now)) {
            return Ok(LeaseAnswer::Held(owner));
        }
        if let Some(better) = node.find_better_owner(self, key, now)? {
            return Ok(LeaseAnswer::Left(better));
        }
        if owner.is_some_and(|owner| self.rows.remove(&owner).is_some()) {
            self.takeovers += 1;
        }
        Ok(LeaseAnswer::Granted)
    }
}

/// The heartbeats of the other processes: the last one of each, and since when it was seen unchanged.
#[derive(Debug, Default)]
struct SeenBeats {
    beats: BTreeMap<Incarnation, (u64, Duration)>,
    last_look: Duration,
}

impl SeenBeats {
    fn look(&mut self, table: &NodeTable, now: Duration) {
        // Who could not look for a while does not know who was silent: the store may have been away for all.
        let is_blind = now.saturating_sub(self.last_look) >= table.lease / 2;
        let before = if is_blind { BTreeMap::new() } else { std::mem::take(&mut self.beats) };
        let seen = |(owner, row): (&Incarnation, &NodeRow)| {
            let same = before.get(owner).filter(|(beat, _)| *beat == row.beat);
            (*owner, *same.unwrap_or(&(row.beat, now)))
        };
        self.beats = table.rows.iter().map(seen).collect();
        self.last_look = now;
    }
}

/// A process among the owners.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedNode(Arc<Mutex<NodeState>>);

#[derive(Debug)]
pub(super) struct NodeState {
    /// The place of the process.
    slot: usize,
    pub(super) incarnation: Incarnation,
    /// The data, under the number of this incarnation.
    pub(super) data: MemoryStore,
    /// The sessions that are held, with their fences, and how often each was acquired and not released.
    pub(super) held: BTreeMap<SessionKey, (FencingToken, u64)>,
    seen: SeenBeats,
    /// When the last renewal that succeeded was sent.
    renewed: Duration,
    /// Whether the lease ends at the next heartbeat.
    is_ending: bool,
    /// The work that this process can go on with, once it has said so.
    pub(super) served: Option<ServedGraphs>,
}

impl SimulatedNode {
    /// Registers a process; none in a store that one process at a time has.
    pub(super) fn register(store: &SimulatedStore, slot: usize) -> Option<Self> {
        let renewed = store.0.executor.now();
        let incarnation = store.lock_nodes()?.register(renewed);
        let data = store.data().open_beside();
        let (held, seen) = (BTreeMap::new(), SeenBeats::default());
        let node = NodeState { slot, incarnation, data, held, seen, renewed, is_ending: false, served: None };
        Some(Self(Arc::new(Mutex::new(node))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self) -> usize {
        self.lock().slot
    }

    /// Returns the data, if a session is held under this fence.
    pub(super) fn data_for_batch(&self, key: &SessionKey, fence: FencingToken) -> Result<MemoryStore> {
        let node = self.lock();
        match node.held.get(key) {
            Some((held, _)) if *held == fence => Ok(node.data.clone()),
            _ => Err(Error::LeaseLost { key: key.clone(), fence }),
        }
    }

    /// Drops all sessions, and goes on as another owner.
    fn replace(&self, store: &SimulatedStore) {
        let Some(mut table) = store.lock_nodes() else { return };
        let mut node = self.lock();
        table.takeovers += u64::from(table.rows.remove(&node.incarnation).is_some());
        node.renewed = store.0.executor.now();
        node.incarnation = table.register(node.renewed);
        table.set_served(node.incarnation, node.served.clone());
        node.data = node.data.open_beside();
        node.held.clear();
        drop((table, node));
        store.0.coverage.note("the lease of a process that lives ended");
        store.0.executor.trace_event(format_args!("a lease ended"));
    }

    /// Renews the lease again and again, as long as the process lives.
    pub(crate) async fn keep_alive(self, store: SimulatedStore) {
        let Some(pause) = store.lock_nodes().map(|table| table.lease / BEATS) else { return };
        loop {
            store.0.executor.sleep_for(pause).await;
            if !store.is_cut_off(self.slot()) && std::mem::take(&mut self.lock().is_ending) {
                self.replace(&store);
                continue;
            }
            if store.0.swarm.is_due(FaultKind::HeartbeatLost) {
                continue;
            }
            // One that fails is left to the next.
            drop(self.renew(&store).await);
        }
    }

    /// Renews the lease; where it has ended, goes on as another owner.
    async fn renew(&self, store: &SimulatedStore) -> Result<()> {
        let sent = store.0.executor.now();
        store.reach(self.slot(), "renew the lease").await?;
        store.0.executor.sleep_for(store.draw_micros(50, 20_000)).await;
        let now = store.0.executor.now();
        let is_renewed = {
            let Some(mut table) = store.lock_nodes() else { return Ok(()) };
            let mut node = self.lock();
            let is_renewed = table.renew(node.incarnation, now);
            if is_renewed {
                node.renewed = sent;
            }
            node.seen.look(&table, now);
            is_renewed
        };
        if !is_renewed {
            self.replace(store);
        }
        Ok(())
    }

    /// Checks that a session is held. Close to the end of the lease, or behind it, the lease is renewed first.
    pub(super) async fn check_lease(
        &self,
        store: &SimulatedStore,
        (key, fence): (&SessionKey, FencingToken),
    ) -> Result<()> {
        let Some((lease, planted)) = store.lock_nodes().map(|table| (table.lease, table.planted)) else {
            return Ok(());
        };
        let age = store.0.executor.now().saturating_sub(self.lock().renewed);
        if age >= lease - lease / MARGIN && planted != Some(LeaseFault::OverdueLeaseTrusted) {
            store.0.coverage.note("a lease was renewed before an answer from memory");
            self.renew(store).await?;
        }
        if self.lock().held.get(key).is_none_or(|(held, _)| *held != fence) {
            return Err(Error::LeaseLost { key: key.clone(), fence });
        }
        let owner = store.lock_nodes().and_then(|table| table.sessions.get(key).copied());
        if owner.is_some_and(|lease| lease.owner != Some(self.lock().incarnation)) {
            store.note_violation(format!(
                "lease in {}/{}: a process answers from memory, and another one has taken the session",
                key.tenant, key.session
            ));
        }
        Ok(())
    }

    /// Ends this process among the owners: its sessions are free.
    pub(crate) fn leave(&self, store: &SimulatedStore) {
        if let Some(mut table) = store.lock_nodes().filter(|_| !store.is_cut_off(self.slot())) {
            table.rows.remove(&self.lock().incarnation);
        }
    }

    /// Acquires a session: its fence is raised by one statement, and it is read by a second one.
    pub(super) async fn acquire_session(
        &self,
        store: &SimulatedStore,
        key: &SessionKey,
    ) -> Result<AcquiredSession> {
        let reads_first = store.planted_lease_fault() == Some(LeaseFault::ReadBeforeFence);
        let early = reads_first.then(|| self.read_session(key)).transpose()?;
        store.0.executor.sleep_for(store.draw_statement_time()).await;
        store.reach(self.slot(), "acquire a session").await?;
        let fence = self.raise_fence(store, key)?;
        if store.0.swarm.is_due(FaultKind::LeaseEnds) {
            self.lock().is_ending = true;
        }
        store.0.executor.sleep_for(store.draw_statement_time()).await;
        if let Err(error) = store.reach(self.slot(), "read a session").await {
            self.release_sessions(store, vec![key.clone()]);
            return Err(error);
        }
        let snapshot = match early {
            Some(early) => early,
            None => self.read_session(key)?,
        };
        Ok(AcquiredSession { fence, snapshot })
    }

    fn read_session(&self, key: &SessionKey) -> Result<SessionSnapshot> {
        let data = self.lock().data.clone();
        // The memory store has its answer at once.
        data.read_session_snapshot(key).now_or_never().unwrap_or(Err(Error::Closed))
    }

    fn raise_fence(&self, store: &SimulatedStore, key: &SessionKey) -> Result<FencingToken> {
        let now = store.0.executor.now();
        for _ in 0..ATTEMPTS {
            let answer = {
                let Some(mut table) = store.lock_nodes() else { return Err(Error::Closed) };
                let mut node = self.lock();
                if let Some((fence, count)) = node.held.get_mut(key) {
                    *count += 1;
                    return Ok(*fence);
                }
                let answer = table.ask_for(key, &node, now)?;
                if answer == LeaseAnswer::Granted {
                    // The memory store has its answer at once.
                    let acquired = node.data.acquire(key).now_or_never().unwrap_or(Err(Error::Closed))?;
                    let lease = SessionLease { owner: Some(node.incarnation), fence: acquired.fence };
                    table.sessions.insert(key.clone(), lease);
                    node.held.insert(key.clone(), (acquired.fence, 1));
                    return Ok(acquired.fence);
                }
                answer
            };
            match answer {
                LeaseAnswer::Held(owner) | LeaseAnswer::Left(owner) => {
                    let is_left = matches!(answer, LeaseAnswer::Left(_));
                    store.0.coverage.note_if(!is_left, "a session was another process's");
                    store.0.coverage.note_if(is_left, "a session was left to a process that has its graph");
                    let node = format!("n{owner}");
                    return Err(Error::HeldElsewhere { key: key.clone(), node, address: None });
                }
                LeaseAnswer::Ended => self.replace(store),
                LeaseAnswer::Granted => {}
            }
        }
        Err(Error::Unavailable { doing: "acquire a session", source: "the lease ends at once".into() })
    }

    /// Releases sessions. Those that are not held any more are free behind their writes in flight.
    pub(super) fn release_sessions(&self, store: &SimulatedStore, keys: Vec<SessionKey>) {
        let mut node = self.lock();
        let slot = node.slot;
        let mut freed = Vec::new();
        for key in keys {
            let Some(held) = node.held.get_mut(&key) else { continue };
            held.1 -= 1;
            if held.1 == 0 {
                let fence = held.0;
                node.held.remove(&key);
                freed.push((key, fence));
            }
        }
        let (incarnation, data) = (node.incarnation, node.data.clone());
        drop(node);
        for (key, fence) in freed {
            let (node, store, data) = (self.clone(), store.clone(), data.clone());
            let executor = store.0.executor.clone();
            let releasing = async move {
                while store.has_writes(slot, &key) || store.is_cut_off(slot) {
                    store.0.executor.sleep_for(RELEASE_PAUSE).await;
                }
                // The memory store has its answer at once.
                drop(data.release(vec![key.clone()]).now_or_never());
                let Some(mut table) = store.lock_nodes() else { return };
                // It may have been acquired again meanwhile.
                if node.lock().held.contains_key(&key) {
                    return;
                }
                let lease = table.sessions.get_mut(&key);
                if let Some(lease) = lease.filter(|it| it.owner == Some(incarnation) && it.fence == fence) {
                    lease.owner = None;
                }
            };
            executor.spawn_in_group(TaskGroup::STORE, Box::pin(releasing));
        }
    }
}

impl SimulatedStore {
    pub(super) fn lock_nodes(&self) -> Option<MutexGuard<'_, NodeTable>> {
        self.0.nodes.as_ref().map(|nodes| nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Draws how long a statement takes, which may wait for a lock that another one holds.
    fn draw_statement_time(&self) -> Duration {
        let waits = self.0.random.draw_percent(20);
        self.draw_micros(50, if waits { 2_000_000 } else { 5_000 })
    }

    /// Returns the fault in the protocol that is planted, if there is one.
    pub(super) fn planted_lease_fault(&self) -> Option<LeaseFault> {
        self.lock_nodes().and_then(|table| table.planted)
    }

    /// Moves the clock of the store ahead, as a promoted standby does whose clock differs.
    pub(crate) fn move_clock_ahead(&self, by: Duration) {
        if let Some(mut table) = self.lock_nodes() {
            table.clock_ahead += by;
        }
    }

    /// Puts the fence of the owner into a batch, when that fault is planted.
    pub(super) fn plant_in_fence(&self, batch: Batch) -> Batch {
        let table = self.lock_nodes().filter(|it| it.planted == Some(LeaseFault::FenceNotChecked));
        let fence = table.and_then(|table| table.sessions.get(&batch.key).map(|lease| lease.fence));
        Batch { fence: fence.unwrap_or(batch.fence), ..batch }
    }

    /// Returns how many owners counted as dead or have lost their lease.
    pub(crate) fn takeovers(&self) -> u64 {
        self.lock_nodes().map_or(0, |table| table.takeovers)
    }

    /// Returns open turns that no living process owns.
    pub(super) fn find_ownerless_turns(
        &self,
        node: &SimulatedNode,
        past: Option<&(SessionKey, u64)>,
        limit: u64,
    ) -> Result<Vec<(SessionKey, TurnRow)>> {
        let (now, data) = (self.0.executor.now(), self.data());
        let Some(table) = self.lock_nodes() else { return Ok(Vec::new()) };
        let node = node.lock();
        let mut found = Vec::new();
        for (key, lease) in &table.sessions {
            let open = data.read_turns(key, &TurnRowQuery::Open).now_or_never();
            let mut open = open.unwrap_or(Err(Error::Closed))?;
            open.sort_by_key(|turn| turn.no);
            let is_owned = lease.owner.is_some_and(|owner| !table.is_dead(owner, &node.seen, now));
            let ownerless = open.into_iter().filter(|turn| !is_owned || turn.fence < lease.fence);
            let rest = ownerless.map(|turn| (key.clone(), turn));
            found.extend(rest.filter(|(key, turn)| past.is_none_or(|(k, no)| (key, turn.no) > (k, *no))));
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(found)
    }
}
