//! The queue of a session's turns: the order in which they run (INV-1).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{InvocationId, StoredTurnKind, Timestamp, TurnRow};
use singletree_graph::Item;

use super::state::SessionState;
use crate::agent::WhileSuspended;
use crate::codec::record::TurnRowExt;
use crate::turn_id::TurnId;

/// The handle by which the runtime knows the callers of a turn. The core keeps it and gives it back.
pub trait CallerHandle: Clone {
    /// Checks whether both are of the same turn.
    fn is_same_turn(&self, other: &Self) -> bool;

    /// Returns the id of the turn, once it has one.
    fn turn_id(&self) -> Option<TurnId>;

    /// Returns the idempotency key and the digest of the request.
    fn idempotency_key(&self) -> Option<&(String, String)>;
}

/// A value that callers of a turn share, by which the turn is known. A handle of it is an [`Arc`].
pub trait CallerIdentity {
    /// Returns the id of the turn, once it has one.
    fn turn_id(&self) -> Option<TurnId>;

    /// Returns the idempotency key and the digest of the request.
    fn idempotency_key(&self) -> Option<&(String, String)>;
}

impl<T: CallerIdentity> CallerHandle for Arc<T> {
    fn is_same_turn(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }

    fn turn_id(&self) -> Option<TurnId> {
        self.as_ref().turn_id()
    }

    fn idempotency_key(&self) -> Option<&(String, String)> {
        self.as_ref().idempotency_key()
    }
}

/// A turn in the queue.
#[derive(Debug, Clone)]
pub struct QueuedTurn<H> {
    /// The handle of its callers.
    pub handle: H,
    /// Its work.
    pub work: QueuedWork,
}

/// The work of a queued turn.
#[derive(Debug, Clone)]
pub enum QueuedWork {
    /// Answer a message. It may run once its row is committed; the running turn may take a message that steers.
    Message {
        /// The row of the turn.
        row: TurnRow,
        /// The message.
        message: Item,
        /// Whether its acceptance is durable.
        committed: bool,
        /// Whether the running turn may take it.
        steers: bool,
        /// The side record that its sender gave it.
        side: Option<Value>,
    },
    /// End a wait. Its row is written when it starts.
    Answer(PendingAnswer),
    /// Continue a turn whose process died; it may have run before. Also a turn that an early signal resumes, which has
    /// not run yet.
    Recover {
        /// The row of the turn.
        row: TurnRow,
        /// Whether it may have run before.
        has_run: bool,
    },
}

/// The answer or deadline that ends a wait and starts a turn.
#[derive(Debug, Clone)]
pub struct PendingAnswer {
    /// The number of the wait.
    pub wait: u64,
    /// The payload of the answer.
    pub payload: Map<String, Value>,
    /// The sender, when known.
    pub from: Option<String>,
    /// Whether the wait ends by its deadline.
    pub expired: bool,
}

/// The turn that runs.
#[derive(Debug)]
pub struct RunningTurn<H> {
    /// The handle of its callers.
    pub handle: H,
    /// The number of its row, once it has one.
    pub no: Option<u64>,
    /// The time at which its graph began to run.
    pub since: Option<Timestamp>,
    /// The wait that it ends, until this end is committed or has failed.
    pub answers: Option<u64>,
    /// Whether the lease of the session was lost while it ran: its row is another owner's.
    pub is_lost: bool,
}

/// The next step of a session's queue.
#[derive(Debug)]
pub enum QueueDecision<H> {
    /// There is nothing to run now.
    Nothing,
    /// This turn runs.
    Run(Box<QueuedTurn<H>>),
    /// A message that may not run while the session waits (D1).
    Refuse(Box<QueuedTurn<H>>),
    /// The pending wait is superseded by the message behind it.
    Supersede,
    /// A commit failed: the stored state has to be read before anything is decided.
    Load,
}

impl<H> QueuedTurn<H> {
    /// Returns the number of the turn's row; `None` while the row is not written.
    pub(crate) fn row_number(&self) -> Option<u64> {
        match &self.work {
            QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => Some(row.no),
            QueuedWork::Answer(_) => None,
        }
    }

    /// Returns the place in the order in which turns run; `None` while the row is not written.
    fn order(&self) -> Option<TurnOrder> {
        match &self.work {
            QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => Some(turn_order(row)),
            QueuedWork::Answer(_) => None,
        }
    }

    fn is_uncommitted(&self) -> bool {
        matches!(self.work, QueuedWork::Message { committed: false, .. })
    }
}

/// The place of an accepted turn in the order in which turns run.
pub(crate) type TurnOrder = (bool, u64);

/// Returns the place of a turn in the order in which turns run: one that ends a wait comes before the messages that were
/// parked behind the wait, whatever their numbers (INV-1).
pub(crate) fn turn_order(row: &TurnRow) -> TurnOrder {
    (row.kind == StoredTurnKind::Message, row.no)
}

/// A turn that was taken out of the queue to be cancelled.
#[derive(Debug)]
pub(crate) struct EndingTurn<H> {
    order: TurnOrder,
    handle: H,
}

impl<H: CallerHandle> SessionState<H> {
    /// Decides the next step of the session and starts it. `while_suspended` returns the policy of an agent for a
    /// message that arrives while the session waits.
    pub fn decide_next_turn(
        &mut self,
        while_suspended: impl Fn(&TurnRow) -> WhileSuspended,
    ) -> QueueDecision<H> {
        if self.running.is_some() {
            return QueueDecision::Nothing;
        }
        let Some(front) = self.queue.front() else { return QueueDecision::Nothing };
        let blocked = match &front.work {
            QueuedWork::Message { committed: false, .. } => return QueueDecision::Nothing,
            // If an earlier turn cannot be cancelled, it runs first. If it can, the history may be another one then.
            _ if self.ending.iter().any(|ending| Some(ending.order) < front.order()) => {
                return QueueDecision::Nothing;
            }
            _ if !self.is_known => return QueueDecision::Load,
            QueuedWork::Message { row, .. } if self.wait.is_some() => Some(while_suspended(row)),
            QueuedWork::Message { .. } | QueuedWork::Answer(_) | QueuedWork::Recover { .. } => None,
        };
        if blocked == Some(WhileSuspended::Queue) {
            return QueueDecision::Nothing;
        }
        let handle = front.handle.clone();
        self.running = Some(RunningTurn { handle, no: None, since: None, answers: None, is_lost: false });
        if blocked == Some(WhileSuspended::Supersede) {
            return QueueDecision::Supersede;
        }
        let Some(queued) = self.queue.pop_front() else { return QueueDecision::Nothing };
        if blocked == Some(WhileSuspended::Reject) {
            QueueDecision::Refuse(queued.into())
        } else {
            QueueDecision::Run(queued.into())
        }
    }

    /// Leaves the queued turns to the next process, because this one stops. Messages whose acceptance is in flight stay
    /// until its result is known.
    pub fn leave_queued_turns(&mut self) {
        let before = self.queue.len();
        self.queue.retain(QueuedTurn::is_uncommitted);
        self.has_left |= self.queue.len() < before;
    }

    /// Drops the accepted turns that wait. Those whose acceptance is in flight stay until its result is known.
    pub(super) fn drop_accepted_turns(&mut self) {
        self.queue.retain(QueuedTurn::is_uncommitted);
        self.offered.clear();
        self.taken.clear();
    }

    /// Reserves the session for work between two turns; returns false while a turn runs.
    pub fn hold_turn_slot(&mut self, handle: H) -> bool {
        if self.running.is_some() {
            return false;
        }
        self.running = Some(RunningTurn { handle, no: None, since: None, answers: None, is_lost: false });
        true
    }

    /// Records that no turn runs in the session any more. Messages that were offered to the running turn and not taken
    /// return to their places in the queue. Taken messages have ended with the turn, unless the chat shuts down.
    pub fn release_turn_slot(&mut self) {
        self.running = None;
        self.taken.clear();
        for queued in std::mem::take(&mut self.offered) {
            self.return_to_queue(queued);
        }
    }

    /// Records that the graph of the running turn begins.
    pub fn record_graph_start(&mut self, no: u64, since: Timestamp) {
        if let Some(running) = &mut self.running {
            running.no = Some(no);
            running.since = Some(since);
        }
    }

    /// Records the row number of the running turn: that of the suspended turn, until the running turn has claimed the
    /// wait.
    pub fn set_running_number(&mut self, no: u64) {
        if let Some(running) = &mut self.running {
            running.no = Some(no);
        }
    }

    /// Records which wait the running turn is about to end, and returns that wait if it is still pending.
    pub fn begin_answer(&mut self, wait: u64) -> Option<&singletree_durable::WaitRow> {
        if let Some(running) = &mut self.running {
            running.answers = Some(wait);
        }
        self.wait.as_ref().filter(|pending| pending.no == wait)
    }

    /// Returns the turn that runs.
    pub fn running_turn(&self) -> Option<&RunningTurn<H>> {
        self.running.as_ref()
    }

    /// Appends a message that is being accepted. Its place in the queue and the place of its row in the store's order
    /// are taken under one lock (INV-1).
    pub fn append_turn(&mut self, queued: QueuedTurn<H>) {
        self.queue.push_back(queued);
    }

    /// Returns the number of turns that wait, messages that were handed to the running turn included.
    pub(crate) fn count_waiting_turns(&self) -> usize {
        self.queue.len() + self.offered.len()
    }

    /// Checks whether any turn waits in the queue.
    pub fn has_queued_turns(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Checks that no turn is queued and no cancellation is in flight.
    pub fn is_queue_settled(&self) -> bool {
        self.queue.is_empty() && self.ending.is_empty()
    }

    /// Counts the turns that wait and are accepted.
    pub fn count_accepted_turns(&self) -> usize {
        self.queue.iter().filter(|queued| !queued.is_uncommitted()).count()
    }

    /// Records whether the message of a queued turn has become durable. If not, or if the session is another owner's by
    /// now, the turn leaves the queue. Returns the handle of the turn, so that its callers get the result.
    pub fn settle_message(&mut self, accepted: &TurnRow, is_durable: bool) -> Option<H> {
        let is_it = |queued: &QueuedTurn<H>| {
            matches!(&queued.work, QueuedWork::Message { row, .. }
                if (row.no, row.fence) == (accepted.no, accepted.fence))
        };
        let at = self.queue.iter().position(is_it)?;
        if !is_durable || self.held_fence() != Some(accepted.fence) {
            return self.queue.remove(at).map(|queued| queued.handle);
        }
        let queued = self.queue.get_mut(at)?;
        if let QueuedWork::Message { committed, .. } = &mut queued.work {
            *committed = true;
        }
        Some(queued.handle.clone())
    }

    /// Takes those messages out of the queue that were on their way to the store under a former lease, and are open turns
    /// there: they are taken over with the others, in the order of acceptance (INV-1). Returns their handles.
    pub fn take_messages_of_former_lease(&mut self, open: &[TurnRow]) -> Vec<H> {
        let fence = self.held_fence();
        let queue = std::mem::take(&mut self.queue);
        let (former, kept): (VecDeque<QueuedTurn<H>>, _) = queue.into_iter().partition(|queued| {
            matches!(&queued.work, QueuedWork::Message { row, committed: false, .. }
                if Some(row.fence) != fence && open.iter().any(|it| it.turn_id() == row.turn_id()))
        });
        self.queue = kept;
        former.into_iter().map(|queued| queued.handle).collect()
    }

    /// Takes a turn out of the queue by its name, to be cancelled. Its row was read, so that it counts as accepted.
    pub fn take_queued_turn(&mut self, id: &TurnId) -> Option<QueuedTurn<H>> {
        let at = self.queue.iter().position(|queued| queued.handle.turn_id().as_ref() == Some(id))?;
        if let QueuedWork::Message { committed, .. } = &mut self.queue.get_mut(at)?.work {
            *committed = true;
        }
        self.take_from_queue(at)
    }

    /// Takes the next turn out of the queue, to be cancelled, unless its acceptance is on its way.
    pub fn take_next_accepted(&mut self) -> Option<QueuedTurn<H>> {
        let is_accepted = self.queue.front().is_some_and(|queued| !queued.is_uncommitted());
        is_accepted.then(|| self.take_from_queue(0)).flatten()
    }

    /// Until the cancellation is recorded, lookups find the turn like a queued one.
    fn take_from_queue(&mut self, at: usize) -> Option<QueuedTurn<H>> {
        let queued = self.queue.remove(at)?;
        if let Some(order) = queued.order() {
            self.ending.push(EndingTurn { order, handle: queued.handle.clone() });
        }
        Some(queued)
    }

    /// Records the end of the cancellation of a turn that was taken out of the queue. If it failed, the turn returns to
    /// its place.
    pub fn record_cancel_end(&mut self, handle: &H, failed: Option<QueuedTurn<H>>) {
        self.ending.retain(|ending| !ending.handle.is_same_turn(handle));
        if let Some(queued) = failed {
            self.return_to_queue(queued);
        }
    }

    /// Puts a turn back to its place in the order in which turns run.
    pub(crate) fn return_to_queue(&mut self, queued: QueuedTurn<H>) {
        let order = queued.order();
        let at = self.queue.iter().position(|other| other.order() > order).unwrap_or(self.queue.len());
        self.queue.insert(at, queued);
    }

    /// Queues the end of a wait before the messages behind that wait (INV-1, D1).
    ///
    /// If another end of the wait is queued or running already, returns its handle; this one is not queued then.
    pub fn queue_answer(&mut self, handle: H, answer: PendingAnswer) -> Option<H> {
        if let Some(earlier) = self.find_wait_answer(answer.wait) {
            return Some(earlier);
        }
        self.put_before_messages(QueuedTurn { handle, work: QueuedWork::Answer(answer) });
        None
    }

    /// Queues a turn before the waiting messages, at the place that a new signal would get.
    pub fn put_before_messages(&mut self, queued: QueuedTurn<H>) {
        let is_message = |queued: &QueuedTurn<H>| matches!(queued.work, QueuedWork::Message { .. });
        let at = self.queue.iter().position(is_message).unwrap_or(self.queue.len());
        self.queue.insert(at, queued);
    }

    /// Returns the handle of the queued or running answer to this wait, if there is one.
    fn find_wait_answer(&self, wait: u64) -> Option<H> {
        let running = self.running.iter().filter(|running| running.answers == Some(wait));
        let queued = self
            .queue
            .iter()
            .filter(|queued| matches!(&queued.work, QueuedWork::Answer(answer) if answer.wait == wait));
        let running = running.map(|running| &running.handle);
        running.chain(queued.map(|queued| &queued.handle)).next().cloned()
    }

    /// Finds the turn with this id in the queue, or among the messages that were offered to the running turn.
    pub fn find_waiting_turn(&self, id: &TurnId) -> Option<&QueuedTurn<H>> {
        let mut waiting = self.queue.iter().chain(&self.offered);
        waiting.find(|queued| queued.handle.turn_id().as_ref() == Some(id))
    }

    /// Finds the turn with this id, queued or running.
    pub fn find_turn(&self, id: &TurnId) -> Option<H> {
        self.turn_handles().find(|handle| handle.turn_id().as_ref() == Some(id)).cloned()
    }

    /// Finds the turn to cancel in order to cancel the turn with this id: the turn itself, or the running turn if that
    /// has taken its message. A message that was only offered is cancelled by itself if it is not taken, otherwise with
    /// the turn that takes it.
    pub fn find_cancellable_turn(&self, id: &TurnId) -> Option<H> {
        let is_taken = self.taken.iter().any(|(queued, _)| queued.handle.turn_id().as_ref() == Some(id));
        match &self.running {
            Some(running) if is_taken => Some(running.handle.clone()),
            _ => self.find_turn(id),
        }
    }

    /// Finds the turn that holds an idempotency key, waiting or running.
    pub fn find_turn_by_key(&self, key: &str) -> Option<H> {
        let holds = |handle: &&H| handle.idempotency_key().is_some_and(|(held, _)| held == key);
        self.turn_handles().find(holds).cloned()
    }

    /// Finds a message's turn by its number, waiting or running.
    pub fn find_turn_by_number(&self, no: u64) -> Option<H> {
        let running = self.running.iter().filter(|running| running.no == Some(no)).map(|it| &it.handle);
        let handed = self.offered.iter().chain(self.taken.iter().map(|(queued, _)| queued));
        let queued = self.queue.iter().chain(handed).filter(|queued| queued.row_number() == Some(no));
        running.chain(queued.map(|queued| &queued.handle)).next().cloned()
    }

    /// Returns the invocations of the turns that wait or run.
    pub fn turn_invocations(&self) -> BTreeSet<InvocationId> {
        self.turn_handles().filter_map(CallerHandle::turn_id).map(|id| id.invocation).collect()
    }

    /// Checks whether this process may have turns without an outcome.
    pub fn has_unfinished_turns(&self) -> bool {
        self.has_left || self.has_turns()
    }

    /// Checks whether any turn waits or runs.
    pub fn has_turns(&self) -> bool {
        self.turn_handles().next().is_some()
    }

    /// Returns the queued messages whose acceptance is still on its way to the store.
    pub fn uncommitted_messages(&self) -> Vec<H> {
        let uncommitted = self.queue.iter().filter(|queued| queued.is_uncommitted());
        uncommitted.map(|queued| queued.handle.clone()).collect()
    }

    /// Returns the handles of the queued and running turns, and of those that were offered to the running turn.
    fn turn_handles(&self) -> impl Iterator<Item = &H> {
        let ending = self.ending.iter().map(|ending| &ending.handle);
        let running = self.running.iter().map(|running| &running.handle).chain(ending);
        let handed = self.offered.iter().chain(self.taken.iter().map(|(queued, _)| queued));
        running.chain(self.queue.iter().chain(handed).map(|queued| &queued.handle))
    }
}
