//! Sessions in memory: the state of a session under its lock, and the means by which the runtime's tasks wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use singletree_durable::SessionKey;
use singletree_engine::TraceHeaders;
use singletree_session::{CallerIdentity, ChatTurnOutcome, SessionState, TurnId};
use tokio::sync::{Notify, oneshot, watch};

use crate::Error;
use crate::agents::admission::{Admission, TurnPermit};
use crate::runtime::feed::EventBroadcast;
use crate::runtime::narrate::NarratedCalls;
use crate::runtime::readers::LogReaders;
use crate::turn::stream::TurnStream;

/// Receives the outcome of a turn, once it has ended.
pub(crate) type OutcomeReceiver = watch::Receiver<Option<Arc<ChatTurnOutcome>>>;

/// Called with the outcome of each turn that resumed (harness-chat §8.2).
pub(crate) type OutcomeListener = Arc<dyn Fn(Arc<ChatTurnOutcome>) + Send + Sync>;

/// The session state with the handles that callers hold.
pub(crate) type LoadedState = SessionState<Arc<TurnHandle>>;

/// One session in memory.
pub(crate) struct LoadedSession {
    pub(crate) key: SessionKey,
    pub(crate) feed: EventBroadcast,
    /// The positions of the listeners in the log.
    pub(crate) readers: LogReaders,
    /// Cloned by each call that waits for the outcome of a turn: its strong count is their number, plus one.
    pub(crate) waiting: Arc<()>,
    /// Held for writing while parts of the log are removed. A new listener holds the read lock while it finds where the
    /// log begins.
    pub(crate) forgetting: tokio::sync::RwLock<()>,
    /// Held briefly, never across an await. The contents of a batch and its place in the store's order are determined
    /// under one lock (INV-1).
    state: Mutex<LoadedState>,
    /// The callbacks for the outcomes of resumed turns, by number.
    listeners: Mutex<OutcomeListeners>,
    /// The calls whose results are narrated next; held for a moment.
    pub(crate) narrated_calls: Mutex<NarratedCalls>,
    /// Notified when a commit that changes the state is no longer on its way.
    pub(crate) landed: Notify,
    /// Held while the state is read from the store, so that it is read once.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// Held while former owners' turns are taken over, so that it happens once.
    pub(crate) adopting: tokio::sync::Mutex<()>,
    /// Whether a takeover that has failed is tried again soon.
    pub(crate) retries_takeover: AtomicBool,
    /// Notified when the session stops running a turn, when a queued turn has been cancelled, and when it is known
    /// whether a message is accepted.
    pub(crate) freed: Notify,
    /// The time of its last use, as the number of uses of all sessions of the chat until then.
    pub(crate) last_used: AtomicU64,
}

/// The handle of a turn that callers hold: its id, its outcome, and the way to cancel it.
pub(crate) struct TurnHandle {
    id: Mutex<Option<TurnId>>,
    pub(crate) key: Option<(String, String)>,
    told: watch::Sender<Option<Arc<ChatTurnOutcome>>>,
    /// `true` when the acceptance of the turn is durable, `false` when it has failed.
    settled: watch::Sender<Option<bool>>,
    pub(crate) cancel: Notify,
    /// The turn's permit to run, until it has ended.
    permit: Mutex<Option<TurnPermit>>,
    /// Decides about the blobs that the turn keeps.
    admission: OnceLock<Arc<dyn Admission>>,
    /// Receives the turn's id when the wait that the turn answers is consumed, or the error if it was not.
    answered: Mutex<Option<AnswerSender>>,
    /// The live events of the turn, once its graph runs.
    stream: Mutex<Option<TurnStream>>,
    /// The trace in which its message was sent, where this process has accepted it.
    trace: OnceLock<Option<Arc<TraceHeaders>>>,
}

/// Sends the id of the started turn to the sender of an answer.
type AnswerSender = oneshot::Sender<Result<TurnId, Error>>;

impl TurnHandle {
    pub(crate) fn new(id: Option<TurnId>, key: Option<(String, String)>) -> Arc<Self> {
        let (told, settled) = (watch::Sender::new(None), watch::Sender::new(None));
        let (id, cancel) = (Mutex::new(id), Notify::new());
        let (permit, admission, answered, stream, trace) = Default::default();
        Arc::new(Self { id, key, told, settled, cancel, permit, admission, answered, stream, trace })
    }

    /// Sets the trace in which the message of the turn was sent, or that there is none; only the first call has an effect.
    pub(crate) fn set_caller_trace(&self, trace: Option<Arc<TraceHeaders>>) {
        self.trace.get_or_init(|| trace);
    }

    /// Returns the trace in which the message of the turn was sent; nothing where this process has not accepted it.
    pub(crate) fn caller_trace(&self) -> Option<Option<Arc<TraceHeaders>>> {
        self.trace.get().cloned()
    }

    /// Sets the admission that decides about the blobs that the turn keeps; only the first call has an effect.
    pub(crate) fn set_admission(&self, admission: Option<&Arc<dyn Admission>>) {
        if let Some(admission) = admission {
            self.admission.get_or_init(|| admission.clone());
        }
    }

    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.get().cloned()
    }

    /// Holds the turn's permit to run; `None` releases it.
    pub(crate) fn set_run_permit(&self, permit: Option<TurnPermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// Records whether the turn was accepted.
    pub(crate) fn settle_acceptance(&self, accepted: bool) {
        self.settled.send_replace(Some(accepted));
    }

    /// Waits until it is known whether the turn was accepted.
    pub(crate) async fn wait_for_acceptance(self: Arc<Self>) -> bool {
        let mut settled = self.settled.subscribe();
        // If the sender was dropped, acceptance failed.
        drop(self);
        settled.wait_for(Option::is_some).await.is_ok_and(|wait_for| *wait_for == Some(true))
    }

    pub(crate) fn assigned_turn_id(&self) -> Option<TurnId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn assign_turn_id(&self, id: TurnId) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    }

    pub(crate) fn subscribe_outcome(&self) -> OutcomeReceiver {
        self.told.subscribe()
    }

    /// Makes the handle of an answer, and a receiver of the turn that it starts.
    pub(crate) fn for_pending_answer() -> (Arc<Self>, oneshot::Receiver<Result<TurnId, Error>>) {
        let (sender, receiver) = oneshot::channel();
        let handle = Self::new(None, None);
        *handle.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        (handle, receiver)
    }

    /// Sends the id of the started turn to the sender of an answer, or the error if the answer was not taken.
    pub(crate) fn settle_answer(&self, taken: Result<TurnId, Error>) {
        self.settle_acceptance(taken.is_ok());
        let sender = self.answered.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The sender may have been dropped; the answer is valid nevertheless.
            drop(sender.send(taken));
        }
    }

    /// Tells the sender of an answer that it is not known yet whether it was taken. The same answer again finds out.
    pub(crate) fn report_doubtful_answer(&self, error: &Error) {
        let sender = self.answered.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            let cause = singletree_engine::format_error_chain(error);
            let source =
                singletree_durable::Error::Unavailable { doing: "look up the answer", source: cause.into() };
            // The sender may have been dropped.
            drop(sender.send(Err(Error::Store { source })));
        }
    }

    /// Sets the live events of the turn, while its graph runs.
    pub(crate) fn set_turn_stream(&self, stream: Option<TurnStream>) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// Returns the live events of the turn, once its graph runs.
    pub(crate) fn turn_stream(&self) -> Option<TurnStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn publish_outcome(&self, outcome: Arc<ChatTurnOutcome>) {
        self.set_run_permit(None);
        self.told.send_replace(Some(outcome));
    }
}

impl CallerIdentity for TurnHandle {
    fn turn_id(&self) -> Option<TurnId> {
        self.assigned_turn_id()
    }

    fn idempotency_key(&self) -> Option<&(String, String)> {
        self.key.as_ref()
    }
}

/// The listeners to the outcomes of a session's resumed turns.
#[derive(Default)]
pub(crate) struct OutcomeListeners {
    pub(crate) all: Vec<(u64, OutcomeListener)>,
    pub(crate) next: u64,
}

impl LoadedSession {
    pub(crate) fn new(key: SessionKey, backlog: usize, held: &Arc<AtomicU64>) -> Arc<Self> {
        let (feed, state) = (EventBroadcast::new(backlog), Mutex::new(SessionState::new(held)));
        let (readers, waiting, forgetting, listeners) = Default::default();
        let (narrated_calls, landed, reading, adopting, retries_takeover) = Default::default();
        let (freed, last_used) = Default::default();
        Arc::new(Self {
            key,
            feed,
            readers,
            waiting,
            forgetting,
            state,
            listeners,
            narrated_calls,
            landed,
            reading,
            adopting,
            retries_takeover,
            freed,
            last_used,
        })
    }

    /// Records that no turn runs in the session any more, and wakes the tasks that wait for this.
    pub(crate) fn release_turn(&self) {
        {
            let mut state = self.lock_state();
            if let Some(running) = state.running_turn() {
                running.handle.set_turn_stream(None);
            }
            state.release_turn_slot();
        }
        self.freed.notify_waiters();
    }

    /// Reserves the session for work between two turns; `None` while a turn runs.
    pub(crate) fn try_hold_turn(self: &Arc<Self>) -> Option<HeldTurn> {
        self.lock_state().hold_turn_slot(TurnHandle::new(None, None)).then(|| HeldTurn(self.clone()))
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, LoadedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the listeners to the outcomes of resumed turns.
    pub(crate) fn lock_outcome_listeners(&self) -> MutexGuard<'_, OutcomeListeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the live events of the running turn.
    pub(crate) fn running_stream(&self) -> Option<TurnStream> {
        self.lock_state().running_turn().and_then(|running| running.handle.turn_stream())
    }

    /// Checks whether former owners' turns are being taken over: one of them may be this process's, and not be queued yet.
    pub(crate) fn is_taking_over(&self) -> bool {
        self.adopting.try_lock().is_err()
    }

    /// Checks whether the session can be released from memory without loss.
    pub(crate) fn is_idle(&self) -> bool {
        !self.lock_state().has_unfinished_turns() && self.lock_outcome_listeners().all.is_empty()
    }
}

/// Reserves the session for work between two turns, until it is dropped.
pub(crate) struct HeldTurn(Arc<LoadedSession>);

impl Drop for HeldTurn {
    fn drop(&mut self) {
        self.0.release_turn();
    }
}

impl std::fmt::Debug for LoadedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedSession({:?})", self.key)
    }
}

/// Counts one commit in flight that changes the session's state, until it is dropped.
#[derive(Debug)]
pub(crate) struct CommitInFlight(pub(crate) Arc<LoadedSession>);

impl Drop for CommitInFlight {
    fn drop(&mut self) {
        self.0.lock_state().commit_settled();
        self.0.landed.notify_waiters();
    }
}
