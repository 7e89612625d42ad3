//! Sessions in memory: queued turns, the running turn and the committed head. Everything here can be lost and read
//! again, except the order of the queue, which is the order of the queued turns' rows (INV-1).

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Map, Value};
use singletree_durable::{
    Counters, EarlySignalRow, FieldRow, InvocationId, PausedInvocation, SessionHead, SessionKey,
    SessionSnapshot, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::Item;
use tokio::sync::{Notify, oneshot, watch};

use crate::Error;
use crate::admission::{Admission, TurnPermit};
use crate::feed::EventBroadcast;
use crate::in_flight::{CommitInFlight, CommitsInFlight};
use crate::loaded::{HeldBytes, fields_bytes, paused_bytes, rows_bytes};
use crate::outcome::ChatTurnOutcome;
use crate::readers::LogReaders;
use crate::stored::StoredFields;
use crate::stream::TurnStream;
use crate::turn_id::TurnId;

/// Tells those who wait how a turn ended.
pub(crate) type OutcomeReceiver = watch::Receiver<Option<Arc<ChatTurnOutcome>>>;

/// Called with the outcome of each turn that resumed (harness-chat §8.2).
pub(crate) type OutcomeListener = Arc<dyn Fn(Arc<ChatTurnOutcome>) + Send + Sync>;

/// One session in memory.
pub(crate) struct LoadedSession {
    pub(crate) key: SessionKey,
    pub(crate) feed: EventBroadcast,
    /// How far those who listen have read.
    pub(crate) readers: LogReaders,
    /// Cloned by each call that waits for the outcome of a turn: its strong count is their number, plus one.
    pub(crate) waiting: Arc<()>,
    /// Held for writing while parts of the log are removed. A new listener holds the read lock while it finds where the
    /// log begins.
    pub(crate) forgetting: tokio::sync::RwLock<()>,
    /// Guards the fields that change together; held briefly, never across an await. The contents of a batch and its
    /// place in the store's order are determined under one lock (INV-1).
    desk: Mutex<LoadedState>,
    /// Held while the desk is read from the store, so that it is read once.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// Held while former owners' turns are taken over, so that it happens once.
    pub(crate) adopting: tokio::sync::Mutex<()>,
    /// Rung whenever the session stops running something, a turn that waits has been cancelled, or it is known whether
    /// a message is accepted.
    pub(crate) freed: Notify,
    /// When it was last asked for, in uses of the chat.
    pub(crate) last_used: AtomicU64,
}

/// The in-memory state of a session.
#[derive(Default)]
pub(crate) struct LoadedState {
    /// Whether head, counters and wait match the store. False at first, and after a commit that failed.
    pub(crate) known: bool,
    /// The number of changes of this state by commits, counted when one is sent and when it has landed. A read during
    /// which it rises is stale.
    pub(crate) changes: u64,
    /// Such commits that were sent and have not landed: nothing may be read meanwhile.
    pub(crate) in_flight: CommitsInFlight,
    /// Whether unfinished turns of former owners were taken over.
    pub(crate) adopted: bool,
    pub(crate) head: Option<SessionHead>,
    pub(crate) counters: Counters,
    /// The state as of the head's version, once it was read.
    fields: Option<StoredFields>,
    /// How much memory `fields` and `ahead` take.
    bytes: HeldBytes,
    /// The wait that the session's last invocation is in.
    pub(crate) wait: Option<WaitRow>,
    /// How many waits had been made when last all of them had landed; fewer than the counter while a suspension is on
    /// its way.
    pub(crate) landed_waits: u64,
    /// Rows that were read ahead together with head and wait.
    ahead: PrefetchedRows,
    /// The early signals that the session keeps, also those on their way to the store.
    pub(crate) mail: Vec<EarlySignalRow>,
    /// Turns that wait their place, the next one first.
    pub(crate) queue: VecDeque<QueuedTurn>,
    /// Turns that were taken out of the queue to be cancelled, until that is recorded.
    pub(crate) ending: Vec<Arc<TurnHandle>>,
    pub(crate) running: Option<RunningTurn>,
    /// Messages that the turn that runs was handed, and that no commit has said yet to be taken.
    pub(crate) offered: Vec<QueuedTurn>,
    /// Messages that the turn that runs has taken, with their positions in the history: they end with it.
    pub(crate) taken: Vec<(QueuedTurn, u64)>,
    /// The counters at the last retention pass over the session.
    pub(crate) retained: Counters,
    /// Whether turns that waited were left to the next process, because this one stops.
    pub(crate) has_left: bool,
    pub(crate) listeners: Vec<(u64, OutcomeListener)>,
    pub(crate) next_listener: u64,
}

/// Rows that are read together with head and wait because most readers of these need them next. Each part is taken once
/// and dropped at the next change of head or wait; a later caller reads it from the store.
#[derive(Default)]
pub(crate) struct PrefetchedRows {
    fields: Option<Vec<FieldRow>>,
    open: Option<Vec<TurnRow>>,
    paused: Option<PausedInvocation>,
}

/// A turn that waits its place.
pub(crate) struct QueuedTurn {
    pub(crate) ticket: Arc<TurnHandle>,
    pub(crate) work: QueuedWork,
}

impl QueuedTurn {
    /// Returns the number of the turn's row; none has one that is about to be written.
    pub(crate) fn no(&self) -> Option<u64> {
        match &self.work {
            QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => Some(row.no),
            QueuedWork::Answer(_) => None,
        }
    }
}

/// The work of a queued turn.
pub(crate) enum QueuedWork {
    /// Answer a message. It may run once its row is committed; one that steers may be taken by the turn that runs.
    Message { row: TurnRow, message: Item, committed: bool, steers: bool, side: Option<Value> },
    /// End a wait. Its row is written when it starts.
    Answer(PendingAnswer),
    /// Go on with a turn whose process died. It may have run before, unless it is about to for the first time: a signal
    /// that came early has started it.
    Recover { row: TurnRow, has_run: bool },
}

/// An end of a wait that is about to start a turn.
pub(crate) struct PendingAnswer {
    pub(crate) wait: u64,
    pub(crate) payload: Map<String, Value>,
    pub(crate) from: Option<String>,
    /// Whether the deadline ends it.
    pub(crate) expired: bool,
    /// Who waits for the turn that it starts.
    pub(crate) ticket: Arc<TurnHandle>,
    /// Told when the wait is consumed, or why it was not.
    pub(crate) taken: Option<oneshot::Sender<Result<TurnId, Error>>>,
}

/// The turn that runs.
pub(crate) struct RunningTurn {
    pub(crate) ticket: Arc<TurnHandle>,
    pub(crate) no: Option<u64>,
    pub(crate) stream: Option<TurnStream>,
    /// Since when its graph runs.
    pub(crate) since: Option<Timestamp>,
    /// Which wait it ends, until that is settled.
    pub(crate) answers: Option<u64>,
}

/// The handle of a turn that callers hold: its id, its outcome, and the way to cancel it.
pub(crate) struct TurnHandle {
    id: Mutex<Option<TurnId>>,
    pub(crate) key: Option<(String, String)>,
    told: watch::Sender<Option<Arc<ChatTurnOutcome>>>,
    /// Whether the turn came to be: its acceptance is durable, or has failed.
    settled: watch::Sender<Option<bool>>,
    pub(crate) cancel: Notify,
    /// The place of the turn among those that run, until it has ended.
    permit: Mutex<Option<TurnPermit>>,
    /// Decides about the blobs that the turn keeps.
    admission: OnceLock<Arc<dyn Admission>>,
}

impl TurnHandle {
    pub(crate) fn new(id: Option<TurnId>, key: Option<(String, String)>) -> Arc<Self> {
        let (told, settled) = (watch::Sender::new(None), watch::Sender::new(None));
        let (id, cancel, permit) = (Mutex::new(id), Notify::new(), Mutex::default());
        Arc::new(Self { id, key, told, settled, cancel, permit, admission: OnceLock::new() })
    }

    /// Sets who decides about the blobs that the turn keeps; once.
    pub(crate) fn admitted_by(&self, admission: Option<&Arc<dyn Admission>>) {
        if let Some(admission) = admission {
            self.admission.get_or_init(|| admission.clone());
        }
    }

    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.get().cloned()
    }

    /// Keeps the place of the turn among those that run.
    pub(crate) fn keep_permit(&self, permit: Option<TurnPermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// Notes whether the turn came to be.
    pub(crate) fn settle(&self, accepted: bool) {
        self.settled.send_replace(Some(accepted));
    }

    /// Waits until it is known whether the turn came to be.
    pub(crate) async fn settled(self: Arc<Self>) -> bool {
        let mut settled = self.settled.subscribe();
        // Who would have settled it may be gone: then it did not come to be here.
        drop(self);
        settled.wait_for(Option::is_some).await.is_ok_and(|wait_for| *wait_for == Some(true))
    }

    pub(crate) fn id(&self) -> Option<TurnId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn name(&self, id: TurnId) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    }

    pub(crate) fn told(&self) -> OutcomeReceiver {
        self.told.subscribe()
    }

    pub(crate) fn tell(&self, outcome: Arc<ChatTurnOutcome>) {
        self.keep_permit(None);
        self.told.send_replace(Some(outcome));
    }
}

impl LoadedSession {
    pub(crate) fn new(key: SessionKey, backlog: usize, held: &Arc<AtomicU64>) -> Arc<Self> {
        let desk = LoadedState { bytes: HeldBytes::of(held), ..LoadedState::default() };
        let (feed, desk) = (EventBroadcast::new(backlog), Mutex::new(desk));
        let (readers, waiting, forgetting, reading, adopting, freed, last_used) = Default::default();
        Arc::new(Self { key, feed, readers, waiting, forgetting, desk, reading, adopting, freed, last_used })
    }

    /// Nothing runs in the session any more.
    pub(crate) fn release(&self) {
        {
            let mut desk = self.desk();
            desk.running = None;
            desk.take_back();
        }
        self.freed.notify_waiters();
    }

    /// Takes the session's turn to do something between turns; none when one runs.
    pub(crate) fn take_turn(self: &Arc<Self>) -> Option<HeldTurn> {
        let mut desk = self.desk();
        if desk.running.is_some() {
            return None;
        }
        let ticket = TurnHandle::new(None, None);
        desk.running = Some(RunningTurn { ticket, no: None, stream: None, since: None, answers: None });
        Some(HeldTurn(self.clone()))
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, LoadedState> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session's turn, held to do something between turns; given back when it is dropped.
pub(crate) struct HeldTurn(Arc<LoadedSession>);

impl Drop for HeldTurn {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl LoadedState {
    /// Notes that a commit which changes this state is about to be sent.
    pub(crate) fn begin_commit(&mut self) -> CommitInFlight {
        self.changes += 1;
        self.in_flight.begin()
    }

    /// Marks the state as unknown after a failed commit; the next caller that needs it reads it again.
    pub(crate) fn doubt(&mut self) {
        self.known = false;
        self.fields = None;
        self.ahead = PrefetchedRows::default();
        self.count_bytes();
    }

    /// Returns the state, if it is held.
    pub(crate) fn fields(&self) -> Option<&StoredFields> {
        self.fields.as_ref()
    }

    /// Holds the state as it is committed; none is read again when it is needed.
    pub(crate) fn hold_fields(&mut self, fields: Option<StoredFields>) {
        self.fields = fields;
        self.count_bytes();
    }

    /// Frees the fields and rows that can be read again, unless a turn is queued or running in the session.
    pub(crate) fn let_go(&mut self) {
        if self.bytes.get() > 0 && self.tickets().next().is_none() {
            self.fields = None;
            // That no turn is open is still known to whoever takes turns over.
            self.ahead.fields = None;
            self.ahead.paused = None;
            self.count_bytes();
        }
    }

    fn count_bytes(&mut self) {
        let held = self.fields.as_deref().map_or(0, fields_bytes);
        let ahead = self.ahead.fields.as_deref().map_or(0, rows_bytes);
        self.bytes.set(held + ahead + self.ahead.paused.as_ref().map_or(0, paused_bytes));
    }

    /// Notes that a commit changes head or wait: data that was read before is stale.
    pub(crate) fn changed(&mut self) {
        self.changes += 1;
        self.ahead = PrefetchedRows::default();
        self.count_bytes();
    }

    /// Takes over the stored state. Numbers that were assigned to batches in flight are higher than the stored ones.
    pub(crate) fn learn(&mut self, stored: SessionSnapshot, keeps_mail: bool) {
        self.counters = self.counters.max(stored.numbers);
        let (head, fields) = stored.session.map(|session| (session.head, session.fields)).unzip();
        if self.head.as_ref().map(|head| head.version) != head.as_ref().map(|head| head.version) {
            self.fields = None;
        }
        self.head = head;
        self.wait = stored.pending.into_iter().next();
        self.landed_waits = self.counters.waits;
        self.mail = if keeps_mail { stored.mail } else { Vec::new() };
        self.ahead = PrefetchedRows {
            fields: Some(fields.unwrap_or_default()),
            open: Some(stored.open),
            paused: stored.paused,
        };
        self.known = true;
        self.count_bytes();
    }

    /// Takes the rows of the session's fields, if they were read ahead and nothing has changed.
    pub(crate) fn fields_ahead(&mut self) -> Option<Vec<FieldRow>> {
        self.ahead.fields.take()
    }

    /// Tells whether it was read ahead that no turn is without an outcome.
    pub(crate) fn none_open(&self) -> bool {
        self.ahead.open.as_ref().is_some_and(Vec::is_empty)
    }

    /// Takes the turns without an outcome, if they were read ahead. Nobody adds one before they are taken over.
    pub(crate) fn open_ahead(&mut self) -> Option<Vec<TurnRow>> {
        self.ahead.open.take()
    }

    /// Takes the paused run of the turn with this number, if it was read ahead and nothing has changed.
    pub(crate) fn paused_ahead(&mut self, turn: u64) -> Option<PausedInvocation> {
        self.ahead.paused.take().filter(|it| it.turn.no == turn)
    }

    /// Notes whether the message of a turn that waits has become durable; one that has not leaves the queue.
    pub(crate) fn settle(&mut self, no: u64, accepted: bool) {
        let at = self
            .queue
            .iter()
            .position(|item| matches!(&item.work, QueuedWork::Message { row, .. } if row.no == no));
        let Some(at) = at else { return };
        if let Some(queued) = self.queue.get(at) {
            queued.ticket.settle(accepted);
        }
        if !accepted {
            self.queue.remove(at);
        } else if let Some(QueuedWork::Message { committed, .. }) =
            self.queue.get_mut(at).map(|item| &mut item.work)
        {
            *committed = true;
        }
    }

    /// Takes a turn out of the queue to be cancelled. Until that is recorded, it is found as one that waits is.
    pub(crate) fn take_at(&mut self, at: usize) -> Option<QueuedTurn> {
        let queued = self.queue.remove(at)?;
        if !matches!(queued.work, QueuedWork::Answer(_)) {
            self.ending.push(queued.ticket.clone());
        }
        Some(queued)
    }

    /// Puts a turn that was taken out of the queue back to its place in the order of acceptance.
    pub(crate) fn put_back(&mut self, queued: QueuedTurn) {
        let no = queued.no();
        let at = self.queue.iter().position(|item| item.no() > no).unwrap_or(self.queue.len());
        self.queue.insert(at, queued);
    }

    /// Tells whether an answer to this wait is on its way, and returns who waits for it.
    pub(crate) fn answering(&self, wait: u64) -> Option<Arc<TurnHandle>> {
        let running = self.running.iter().filter(|it| it.answers == Some(wait)).map(|it| &it.ticket);
        let queued = self
            .queue
            .iter()
            .filter(|item| matches!(&item.work, QueuedWork::Answer(item) if item.wait == wait));
        running.chain(queued.map(|queued| &queued.ticket)).next().cloned()
    }

    /// Tells whether turns may be without an outcome that are this process's.
    pub(crate) fn leaves_turns(&self) -> bool {
        self.has_left || self.tickets().next().is_some()
    }

    /// Tells whether nothing is lost when the session leaves memory.
    pub(crate) fn is_idle(&self) -> bool {
        self.tickets().next().is_none() && self.listeners.is_empty()
    }

    /// Finds the turn of this name, waiting or running.
    pub(crate) fn ticket(&self, id: &TurnId) -> Option<Arc<TurnHandle>> {
        self.tickets().find(|ticket| ticket.id().as_ref() == Some(id)).cloned()
    }

    /// Finds the turn whose cancelling cancels the one of this name: itself, or the one that runs, where that has taken
    /// its message. A message that was only handed to it is cancelled when it is not taken, else with the turn that
    /// takes it.
    pub(crate) fn carrier(&self, id: &TurnId) -> Option<Arc<TurnHandle>> {
        let taken = self.taken.iter().any(|(it, _)| it.ticket.id().as_ref() == Some(id));
        match &self.running {
            Some(running) if taken => Some(running.ticket.clone()),
            _ => self.ticket(id),
        }
    }

    /// Returns who waits for the turns that wait or run, or were handed to the one that runs.
    fn tickets(&self) -> impl Iterator<Item = &Arc<TurnHandle>> {
        let running = self.running.iter().map(|it| &it.ticket).chain(&self.ending);
        let handed = self.offered.iter().chain(self.taken.iter().map(|(it, _)| it));
        running.chain(self.queue.iter().chain(handed).map(|item| &item.ticket))
    }

    /// Returns the invocations of the turns that wait or run.
    pub(crate) fn invocations(&self) -> BTreeSet<InvocationId> {
        self.tickets().filter_map(|ticket| ticket.id()).map(|ticket| ticket.invocation).collect()
    }

    /// Finds the turn that holds an idempotency key, waiting or running.
    pub(crate) fn keyed(&self, key: &str) -> Option<Arc<TurnHandle>> {
        self.tickets().find(|ticket| ticket.key.as_ref().is_some_and(|(held, _)| held == key)).cloned()
    }
}

impl std::fmt::Debug for LoadedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedSession({:?})", self.key)
    }
}
