//! The in-memory state of a session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use singletree_durable::{
    AcquiredSession, Batch, Counters, EarlySignalRow, FencingToken, FieldRow, PausedInvocation, RowMutation,
    SessionHead, SessionSnapshot, TurnRow, WaitRow,
};

use super::held_bytes::{HeldBytes, count_field_bytes, count_paused_bytes, count_row_bytes};
use super::queue::{CallerHandle, EndingTurn, QueuedTurn, RunningTurn};
use crate::codec::stored::StoredFields;
use crate::early_signals::apply_mail_mutation;

/// The fence of no owner: no session is held under it.
const NO_OWNER: FencingToken = FencingToken(0);

/// The in-memory state of a session: head, counters and wait as they will be once all commits in flight have landed,
/// and the queued and running turns. All of it can be lost and read again from the store; the order of the queue is
/// the order of the queued turns' rows (INV-1). `H` is the runtime's handle of the callers of a turn.
#[derive(Debug)]
pub struct SessionState<H> {
    /// Whether head, counters and wait match the store. False at first, and after a commit that failed.
    pub(crate) is_known: bool,
    /// Counts the changes of this state by commits: each commit when it is sent and when it has landed. A read is stale
    /// if the number rises while it runs.
    changes: u64,
    /// The number of commits in flight that change this state. While there are any, the store must not be read.
    commits_in_flight: usize,
    /// The fence under which this process holds the session; none while it only reads it.
    fence: Option<FencingToken>,
    /// Whether unfinished turns of former owners were taken over.
    is_taken_over: bool,
    head: Option<SessionHead>,
    counters: Counters,
    /// The session's fields at the head's version, once they were read.
    fields: Option<StoredFields>,
    /// How much memory `fields` and `prefetched` take.
    bytes: HeldBytes,
    /// The wait that the session's last invocation is in.
    pub(crate) wait: Option<WaitRow>,
    /// The number of waits whose commits have landed; lower than the counter while a suspension is in flight.
    landed_waits: u64,
    prefetched: PrefetchedRows,
    /// The early signals that the session keeps, also those on their way to the store.
    early_signals: Vec<EarlySignalRow>,
    /// The queued turns, the next one first.
    pub(crate) queue: VecDeque<QueuedTurn<H>>,
    /// Turns that were taken out of the queue to be cancelled, until that is recorded.
    pub(crate) ending: Vec<EndingTurn<H>>,
    pub(crate) running: Option<RunningTurn<H>>,
    /// Messages that were offered to the running turn and are not yet taken by a commit.
    pub(crate) offered: Vec<QueuedTurn<H>>,
    /// Messages that the running turn has taken, with their positions in the history: they end with it.
    pub(crate) taken: Vec<(QueuedTurn<H>, u64)>,
    /// The counters at the last retention pass over the session.
    retained: Counters,
    /// Whether queued turns were left to the next process, because this one stops.
    pub(crate) has_left: bool,
}

/// Rows that are read together with head and wait because most readers of these need them next. Each part is taken once
/// and dropped at the next change of head or wait; a later caller reads it from the store.
#[derive(Debug, Default)]
struct PrefetchedRows {
    fields: Option<Vec<FieldRow>>,
    open: Option<Vec<TurnRow>>,
    paused: Option<PausedInvocation>,
}

impl<H: CallerHandle> SessionState<H> {
    /// Makes a state that was not read from the store yet. Its bytes are added to the sum over all sessions.
    pub fn new(held_bytes: &Arc<AtomicU64>) -> Self {
        Self {
            is_known: false,
            changes: 0,
            commits_in_flight: 0,
            fence: None,
            is_taken_over: false,
            head: None,
            counters: Counters::default(),
            fields: None,
            bytes: HeldBytes::with_total(held_bytes),
            wait: None,
            landed_waits: 0,
            prefetched: PrefetchedRows::default(),
            early_signals: Vec::new(),
            queue: VecDeque::new(),
            ending: Vec::new(),
            running: None,
            offered: Vec::new(),
            taken: Vec::new(),
            retained: Counters::default(),
            has_left: false,
        }
    }

    /// Checks whether head, counters and wait match the store.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the head of the session, if the session exists.
    pub fn session_head(&self) -> Option<&SessionHead> {
        self.head.as_ref()
    }

    /// Returns the next free numbers.
    pub fn next_numbers(&self) -> Counters {
        self.counters
    }

    /// Returns the wait that the session's last invocation is in.
    pub fn pending_wait(&self) -> Option<&WaitRow> {
        self.wait.as_ref()
    }

    /// Returns the early signals that the session keeps.
    pub fn early_signals(&self) -> &[EarlySignalRow] {
        &self.early_signals
    }

    /// Returns the number of waits whose commits have landed.
    pub fn landed_waits(&self) -> u64 {
        self.landed_waits
    }

    /// Checks whether a suspension is in flight: the pending wait is known only after it has landed.
    pub(crate) fn is_suspending(&self) -> bool {
        self.is_known && self.counters.waits != self.landed_waits
    }

    /// Returns the number of changes so far.
    pub fn change_count(&self) -> u64 {
        self.changes
    }

    /// Checks whether a commit in flight changes this state.
    pub fn has_commits_in_flight(&self) -> bool {
        self.commits_in_flight > 0
    }

    /// Returns the session's fields, if they are held.
    pub fn held_fields(&self) -> Option<&StoredFields> {
        self.fields.as_ref()
    }

    /// Holds the fields that were read, unless a commit was sent or landed since then.
    pub fn hold_fields_read(&mut self, fields: StoredFields, changes_before: u64) -> bool {
        let is_current = self.changes == changes_before;
        if is_current {
            self.hold_fields(Some(fields));
        }
        is_current
    }

    fn hold_fields(&mut self, fields: Option<StoredFields>) {
        self.fields = fields;
        self.update_held_bytes();
    }

    /// Frees the fields and rows that can be read again, unless a turn waits or runs in the session.
    pub fn free_cached_rows(&mut self) {
        if self.bytes.own_bytes() > 0 && !self.has_turns() {
            self.fields = None;
            // A later takeover still needs to know that no turn is open.
            self.prefetched.fields = None;
            self.prefetched.paused = None;
            self.update_held_bytes();
        }
    }

    fn update_held_bytes(&mut self) {
        let held = self.fields.as_deref().map_or(0, count_field_bytes);
        let ahead = self.prefetched.fields.as_deref().map_or(0, count_row_bytes);
        self.bytes.update_bytes(held + ahead + self.prefetched.paused.as_ref().map_or(0, count_paused_bytes));
    }

    /// Takes over the stored state, unless a commit was sent or landed since the read began. Numbers that were assigned
    /// to batches on their way are higher than the stored ones.
    pub fn load_snapshot(&mut self, stored: SessionSnapshot, changes_before: u64, keeps_mail: bool) -> bool {
        if self.changes != changes_before {
            return false;
        }
        self.counters = self.counters.max(stored.numbers);
        let (head, fields) = stored.session.map(|session| (session.head, session.fields)).unzip();
        if self.head.as_ref().map(|head| head.version) != head.as_ref().map(|head| head.version) {
            self.fields = None;
        }
        self.head = head;
        self.wait = stored.pending.into_iter().next();
        self.landed_waits = self.counters.waits;
        self.early_signals = if keeps_mail { stored.mail } else { Vec::new() };
        self.prefetched = PrefetchedRows {
            fields: Some(fields.unwrap_or_default()),
            open: Some(stored.open),
            paused: stored.paused,
        };
        self.is_known = true;
        self.update_held_bytes();
        true
    }

    /// Records that the session was acquired, and takes over the stored state. If a commit was sent or landed since the
    /// call began, the state has to be read again.
    pub fn hold_session(&mut self, acquired: AcquiredSession, changes_before: u64, keeps_mail: bool) {
        self.fence = Some(acquired.fence);
        if !self.load_snapshot(acquired.snapshot, changes_before, keeps_mail) {
            self.commit_failed();
        }
    }

    /// Returns the fence under which this process holds the session.
    pub fn held_fence(&self) -> Option<FencingToken> {
        self.fence
    }

    /// Returns the fence of the next batch. Without a lease it is one under which no session is held, so that the store
    /// refuses the batch.
    pub fn batch_fence(&self) -> FencingToken {
        self.fence.unwrap_or(NO_OWNER)
    }

    /// Records that a batch under this fence was refused because another owner holds the session. The accepted turns are
    /// the other owner's now: they leave the queue. Returns the turn that runs, which has to stop.
    pub fn lose_lease(&mut self, fence: FencingToken) -> Option<H> {
        if self.fence != Some(fence) {
            return None;
        }
        (self.fence, self.is_taken_over) = (None, false);
        self.drop_accepted_turns();
        self.running.as_mut().map(|running| {
            running.is_lost = true;
            running.handle.clone()
        })
    }

    /// Records that the session is given back. Returns whether it was held.
    pub fn end_lease(&mut self) -> bool {
        self.is_taken_over = false;
        self.fence.take().is_some()
    }

    /// Checks whether a turn still holds the slot that ran when the lease was lost.
    pub fn has_lost_running_turn(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_lost)
    }

    /// Takes the rows of the session's fields, if they were read ahead and nothing has changed.
    pub fn take_prefetched_fields(&mut self) -> Option<Vec<FieldRow>> {
        self.prefetched.fields.take()
    }

    /// Takes the turns without an outcome, if they were read ahead. They are current, because no turn is added before
    /// the takeover.
    pub fn take_prefetched_turns(&mut self) -> Option<Vec<TurnRow>> {
        self.prefetched.open.take()
    }

    /// Takes the paused run of the turn with this number, if it was read ahead and nothing has changed.
    pub fn take_prefetched_run(&mut self, turn: u64) -> Option<PausedInvocation> {
        self.prefetched.paused.take().filter(|paused| paused.turn.no == turn)
    }

    /// Checks whether unfinished turns of former owners were taken over. Also true if the rows that were read ahead
    /// contain no open turn; a takeover that has begun has taken these rows.
    pub fn is_taken_over(&mut self) -> bool {
        self.is_taken_over |=
            self.fence.is_some() && self.prefetched.open.as_ref().is_some_and(Vec::is_empty);
        self.is_taken_over
    }

    /// Checks that messages may be accepted: the state is known, and turns of former owners were taken over.
    pub(crate) fn can_accept_messages(&self) -> bool {
        self.is_known && self.is_taken_over
    }

    /// Records that a takeover has ended that began under this fence. One of a lease that was lost meanwhile has taken over
    /// nothing for the present one.
    pub fn record_takeover_end(&mut self, fence: FencingToken, is_complete: bool) {
        if self.fence == Some(fence) {
            self.is_taken_over = is_complete;
        }
    }

    /// Checks whether there is work beside the running turn: a queued turn, or a turn of a former owner.
    pub(crate) fn has_more_work(&self) -> bool {
        !self.queue.is_empty() || !self.offered.is_empty() || !self.is_taken_over
    }

    /// Records that a batch is sent, with its counters and its early signals. Returns whether the batch changes this
    /// state; if so, the store must not be read until it has landed.
    pub fn begin_commit(&mut self, batch: &Batch, counters: Counters, keeps_mail: bool) -> bool {
        self.counters = counters;
        if keeps_mail {
            batch.puts.iter().for_each(|put| apply_mail_mutation(&mut self.early_signals, put));
        }
        let changes_state = changes_session_data(batch);
        if changes_state {
            self.changes += 1;
            self.commits_in_flight += 1;
        }
        changes_state
    }

    /// Records that a commit that changes this state is no longer in flight.
    pub fn commit_settled(&mut self) {
        self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
    }

    /// Returns the early signals that a batch removes. To be called before [`Self::begin_commit`].
    pub fn early_signals_removed_by(&self, batch: &Batch) -> Vec<EarlySignalRow> {
        let removes = |row: &&EarlySignalRow| {
            let drops =
                |put: &RowMutation| matches!(put, RowMutation::DropMail(signal) if *signal == row.signal);
            batch.puts.iter().any(drops)
        };
        self.early_signals.iter().filter(removes).cloned().collect()
    }

    /// Puts back the early signals that a failed batch was to remove, unless the session was read again meanwhile.
    pub fn restore_early_signals(&mut self, signals: Vec<EarlySignalRow>) {
        if self.is_known {
            return;
        }
        for row in signals {
            if self.early_signals.iter().all(|kept| kept.signal != row.signal) {
                self.early_signals.push(row);
            }
        }
    }

    /// Marks the state as unknown after a failed commit; the next caller that needs it reads it again.
    pub fn commit_failed(&mut self) {
        self.is_known = false;
        self.fields = None;
        self.prefetched = PrefetchedRows::default();
        self.update_held_bytes();
    }

    /// Marks data that was read before as stale.
    pub(crate) fn invalidate_reads(&mut self) {
        self.changes += 1;
        self.prefetched = PrefetchedRows::default();
        self.update_held_bytes();
    }

    /// Sets the head with which the session begins. Messages that are accepted from now on are committed after that
    /// commit, so that the session exists for them.
    pub fn begin_session(&mut self, head: Option<SessionHead>) {
        self.head = head;
        self.invalidate_reads();
    }

    /// Sets the head that the first message of a session creates.
    pub(crate) fn begin_session_by_message(&mut self, head: Option<SessionHead>) {
        if self.head.is_none() {
            self.head = head;
        }
    }

    /// Records that the session is being deleted. Messages that are accepted from now on are committed after the
    /// deletion, in a new session. The counters continue, so that no event number is used twice. The store is not read
    /// until the deletion has landed.
    pub(crate) fn begin_deletion(&mut self) {
        self.invalidate_reads();
        (self.head, self.wait) = (None, None);
        self.hold_fields(None);
    }

    pub(crate) fn set_head_and_fields(&mut self, head: SessionHead, fields: Option<StoredFields>) {
        self.head = Some(head);
        self.hold_fields(fields);
    }

    pub(crate) fn set_pending_wait(&mut self, wait: Option<WaitRow>) {
        self.wait = wait;
        self.landed_waits = self.counters.waits;
    }

    /// Checks whether enough was written since the last retention pass for another one. If so, this state counts the
    /// new pass as made.
    pub fn begin_retention(&mut self, is_worthwhile: impl Fn(Counters, Counters) -> bool) -> bool {
        let is_due = is_worthwhile(self.retained, self.counters);
        if is_due {
            self.retained = self.counters;
        }
        is_due
    }
}

/// Checks whether a batch changes the session data in memory: head, fields, wait or early signals. Turns that are
/// accepted in an existing session do not, so that reading it never waits for callers that keep sending.
fn changes_session_data(batch: &Batch) -> bool {
    batch.puts.iter().any(|put| {
        matches!(
            put,
            RowMutation::Head(_)
                | RowMutation::Field(_)
                | RowMutation::DropField(_)
                | RowMutation::Inherit { .. }
                | RowMutation::Wait(_)
                | RowMutation::Mail(_)
                | RowMutation::DropMail(_)
                | RowMutation::Delete
        )
    })
}
