//! A session between its callers, its turns and a model of a store.

use std::collections::BTreeMap;

use super::super::inputs::accepted_message;
use super::super::store_model::StoreModel;
use super::super::turns::*;
use super::super::*;
use crate::apply::accept::{AcceptedMessage, accept_message};
use crate::apply::delete::delete_session;
use crate::apply::keep_signal::{KeepRefusal, SignalToKeep, keep_signal};
use crate::apply::{claim, close, fail, finish, suspend, take_over};
use crate::batch::BatchBuilder;
use crate::limit::Limits;
use crate::stopped_run::KeptPart;
use crate::turn::TurnState;

/// The decision of a commit in flight.
enum Purpose {
    Accept(u64),
    /// The running turn writes its end.
    End,
    /// The running answer takes its wait, and starts this turn.
    Claim(Box<TurnRow>),
    /// A message that may not run while the session waits is refused, or a wait is closed for the message behind it.
    BetweenTurns,
    Cancel(Box<QueuedTurn<Caller>>),
    Delete,
    Keep,
}

/// A commit whose result is not known yet.
struct Sent {
    purpose: Purpose,
    change: LandedChange,
    /// Whether the store has taken the batch.
    is_applied: bool,
    /// Whether the reply of the store is lost: the result is known when the store is asked.
    is_reply_lost: bool,
    /// Whether the commit counts as in flight.
    is_in_flight: bool,
}

/// The work that holds the session's turn.
enum Running {
    /// A turn whose graph runs, or whose end is on its way; a refused one can only fail.
    Turn { turn: Box<TurnState>, is_ending: bool, is_refused: bool },
    /// A commit between two turns is on its way.
    Between,
}

struct World {
    state: SessionState<Caller>,
    store: StoreModel,
    seed: u64,
    now: i64,
    sent: Vec<Sent>,
    running: Option<Running>,
    /// A read of the store that has begun: the changes before it, and the rows that it saw.
    reading: Option<(u64, SessionSnapshot)>,
    /// The message that began last, and whether it may begin again after a crash.
    began: Option<(u64, bool)>,
    /// Callers by the number of their turn; answers have none.
    next_caller: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            state: SessionState::new(&Arc::default()),
            store: StoreModel::default(),
            seed,
            now: NOW,
            sent: Vec::new(),
            running: None,
            reading: None,
            began: None,
            next_caller: 1 << 40,
            counts: BTreeMap::new(),
        };
        world.load_all();
        world
    }

    /// Draws a number below `bound` (xorshift).
    fn draw(&mut self, bound: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from(self.seed % bound as u64).unwrap()
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        self.now += 1;
        match self.draw(28) {
            // Now and then nobody sends for a while, so that the queue empties.
            0..=4 if self.now % 128 < 64 => self.accept(),
            5..=11 => self.settle_one(),
            12..=15 => self.run_next(),
            16..=18 => self.end_turn(),
            19 | 20 => self.answer_wait(),
            21..=23 => self.begin_or_end_read(),
            24 if self.draw(4) == 0 => self.cancel_one(),
            25 if self.draw(8) == 0 => self.keep_signal(),
            26 => self.delete(),
            27 if self.draw(40) == 0 => self.crash(),
            _ => {}
        }
        self.check();
    }

    fn begin(&self) -> BatchBuilder {
        begin_batch_at(&self.state, self.now)
    }

    /// Hands a batch to the store. The store takes it, refuses it, or its reply is lost.
    fn send(&mut self, purpose: Purpose, writing: BatchBuilder) {
        let writing = writing.finish_batch();
        let is_in_flight = self.state.begin_commit(&writing.batch, writing.counters, true);
        let (fate, coin) = (self.draw(16), self.draw(2) == 0);
        let is_applied = match fate {
            0 => false,
            1 => coin && self.store.apply(&writing.batch),
            _ => self.store.apply(&writing.batch),
        };
        let is_reply_lost = fate == 1;
        self.sent.push(Sent { purpose, change: writing.landed, is_applied, is_reply_lost, is_in_flight });
    }

    fn accept(&mut self) {
        if !self.state.can_accept_messages() || self.state.count_waiting_turns() > 6 {
            return;
        }
        let mut writing = self.begin();
        let exists = self.state.session_head().is_some();
        let no = writing.counters.turns;
        let row = accept_message(&mut writing, AcceptedMessage { exists, ..accepted_message(no) });
        self.state.begin_session_by_message(writing.find_written_head());
        let QueuedTurn { work: QueuedWork::Message { message, .. }, handle } = message(no, false) else {
            unreachable!()
        };
        let work = QueuedWork::Message { row, message, committed: false, steers: false, side: None };
        self.state.append_turn(QueuedTurn { handle, work });
        self.send(Purpose::Accept(no), writing);
        self.count("accepted");
    }

    /// Takes the result of one commit, in any order.
    fn settle_one(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.draw(self.sent.len());
        if self.sent[at].is_reply_lost {
            // Frozen until the store is asked. Only an acceptance lets the state be read meanwhile.
            self.state.commit_failed();
            let sent = &mut self.sent[at];
            sent.is_reply_lost = false;
            if matches!(sent.purpose, Purpose::Accept(_)) && std::mem::take(&mut sent.is_in_flight) {
                self.state.commit_settled();
            }
            self.count("unknown");
            return;
        }
        let Sent { purpose, change, is_applied, is_in_flight, .. } = self.sent.remove(at);
        if is_applied {
            self.land(change);
        } else {
            self.state.commit_failed();
            self.count("refused");
        }
        if is_in_flight {
            self.state.commit_settled();
        }
        self.settle(purpose, is_applied);
    }

    fn land(&mut self, change: LandedChange) {
        let effects = self.state.commit_landed(change);
        assert!(effects.ended.is_empty());
        if let Some(row) = effects.resumes {
            let handle = Caller { number: row.no, turn: Some(row.turn_id()), key: None };
            let work = QueuedWork::Recover { row, has_run: false };
            self.state.put_before_messages(QueuedTurn { handle, work });
            self.count("resumed early");
        }
    }

    fn settle(&mut self, purpose: Purpose, is_applied: bool) {
        match purpose {
            Purpose::Accept(no) => {
                assert!(self.state.settle_message(&super::super::row(no), is_applied).is_some());
            }
            Purpose::End if is_applied => self.release(),
            Purpose::End => {
                // Another commit ends the turn; this one had no effect.
                if let Some(Running::Turn { is_ending, .. }) = &mut self.running {
                    *is_ending = false;
                }
            }
            Purpose::Claim(row) if is_applied => {
                self.state.set_running_number(row.no);
                self.running =
                    Some(Running::Turn { turn: self.turn_of(*row), is_ending: false, is_refused: false });
            }
            Purpose::Cancel(queued) => {
                let handle = queued.handle.clone();
                self.state.record_cancel_end(&handle, (!is_applied).then_some(*queued));
            }
            Purpose::Claim(_) | Purpose::BetweenTurns | Purpose::Delete => self.release(),
            Purpose::Keep => {}
        }
    }

    fn release(&mut self) {
        self.running = None;
        self.state.release_turn_slot();
        self.count("released");
    }

    /// A turn on the session as this process knows it. The history stays empty.
    fn turn_of(&self, row: TurnRow) -> Box<TurnState> {
        let head = self.state.session_head().cloned().unwrap_or_else(|| head(0));
        Box::new(TurnState { row, head, stored: Vec::new(), ..turn_on(0, &history([])) })
    }

    fn run_next(&mut self) {
        let policy = [WhileSuspended::Queue, WhileSuspended::Reject, WhileSuspended::Supersede][self.draw(3)];
        match next(&mut self.state, policy) {
            QueueDecision::Nothing => {}
            QueueDecision::Load => self.begin_or_end_read(),
            QueueDecision::Run(queued) => match queued.work {
                QueuedWork::Answer(answer) => self.claim(&answer),
                QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => self.run(row),
            },
            QueueDecision::Refuse(queued) => {
                let (QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. }) = queued.work else {
                    panic!("an answer is refused")
                };
                self.refused_runs(row);
            }
            QueueDecision::Supersede => {
                let wait = self.state.pending_wait().cloned().unwrap();
                let mut writing = self.begin();
                let suspended = TurnRow { invocation: wait.invocation.clone(), ..row(wait.turn) };
                let closing = claim::next_turn_row(&mut writing, &suspended, &wait, StoredTurnKind::Close);
                let mut turn = self.turn_of(closing);
                let ended = WaitRow { status: StoredWaitStatus::Cancelled, ..wait };
                let stopped = stopped_at(&history([]));
                close::close_wait(&mut writing, &mut turn, (ended, &stopped), errored()).unwrap();
                self.running = Some(Running::Between);
                self.send(Purpose::BetweenTurns, writing);
                self.count("superseded");
            }
        }
    }

    /// INV-1: messages begin in the order of acceptance; the one that ran when the process died may begin again.
    fn run(&mut self, row: TurnRow) {
        if row.kind == StoredTurnKind::Message {
            if let Some((last, again)) = self.began {
                assert!(row.no > last || (again && row.no == last), "{} runs after {last}", row.no);
            }
            self.began = Some((row.no, false));
        }
        assert!(self.running.is_none(), "two turns run");
        self.state.record_graph_start(row.no, Timestamp::from_millis(self.now));
        self.running = Some(Running::Turn { turn: self.turn_of(row), is_ending: false, is_refused: false });
        self.count("ran");
    }

    /// Writes the end of a message that may not run.
    fn refused_runs(&mut self, row: TurnRow) {
        let (mut writing, mut turn) = (self.begin(), self.turn_of(row));
        fail::fail_turn(&mut writing, &mut turn, (None, KeptPart::Nothing), errored()).unwrap();
        // Until this is recorded the turn holds the session; when it cannot be, it is tried again.
        self.running = Some(Running::Turn { turn, is_ending: true, is_refused: true });
        self.send(Purpose::End, writing);
        self.count("rejected");
    }

    fn claim(&mut self, answer: &PendingAnswer) {
        assert!(self.running.is_none(), "two turns run");
        let Some(wait) = self.state.begin_answer(answer.wait).cloned() else {
            // The wait has ended: the answer is refused.
            self.release();
            return self.count("late answers");
        };
        let mut writing = self.begin();
        let suspended = TurnRow { invocation: wait.invocation.clone(), ..row(wait.turn) };
        let resumed = claim::next_turn_row(&mut writing, &suspended, &wait, StoredTurnKind::Resume);
        match claim::claim_wait(&mut writing, &resumed, &wait, answer, None) {
            Ok(_) => {
                self.running = Some(Running::Between);
                self.send(Purpose::Claim(Box::new(resumed)), writing);
                self.count("claimed");
            }
            Err(error) => {
                assert_eq!(error.category(), "chat_signal_expired");
                assert!(wait.deadline.is_some_and(|due| due.as_millis() <= self.now) && !answer.expired);
                self.release();
                self.count("expired answers");
            }
        }
    }

    /// Sends the commit by which the running turn ends: completed, suspended, or failed.
    fn end_turn(&mut self) {
        let Some(Running::Turn { turn, is_ending: false, is_refused }) = &self.running else { return };
        let is_refused = *is_refused;
        let (mut attempt, mut writing, empty) = (turn.clone(), self.begin(), history([]));
        writing.landed.invalidates = true;
        match self.draw(8) {
            _ if is_refused => {
                fail::fail_turn(&mut writing, &mut attempt, (None, KeptPart::Nothing), errored()).unwrap();
            }
            0 => {
                fail::fail_turn(&mut writing, &mut attempt, (None, KeptPart::Nothing), errored()).unwrap();
            }
            1 => {
                let deadline = (self.draw(2) == 0).then_some(self.now + 20);
                let paused = paused_on(&empty, deadline);
                suspend::suspend_turn(&mut writing, &mut attempt, &paused, Some(&slice_of(&empty))).unwrap();
                self.count("suspended");
            }
            _ => {
                let slice = slice_of(&empty);
                finish::complete_turn(&mut writing, &mut attempt, &state_of(&empty), Some(&slice)).unwrap();
            }
        }
        if let Some(Running::Turn { is_ending, .. }) = &mut self.running {
            *is_ending = true;
        }
        self.send(Purpose::End, writing);
    }

    fn answer_wait(&mut self) {
        let Some(wait) = self.state.pending_wait().cloned() else { return };
        let expired = wait.deadline.is_some_and(|due| due.as_millis() <= self.now) && self.draw(2) == 0;
        self.next_caller += 1;
        let handle = Caller { number: self.next_caller, turn: None, key: None };
        let earlier = self.state.queue_answer(handle, PendingAnswer { expired, ..answer(wait.no) });
        self.count(if earlier.is_none() { "answered" } else { "answered twice" });
    }

    fn cancel_one(&mut self) {
        let Some(queued) = self.state.take_next_accepted() else { return };
        let row = match &queued.work {
            QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => row.clone(),
            // An answer has no row: it is gone.
            QueuedWork::Answer(_) => return,
        };
        let (mut writing, mut turn) = (self.begin(), self.turn_of(row));
        fail::fail_turn(&mut writing, &mut turn, (None, KeptPart::Nothing), errored()).unwrap();
        self.send(Purpose::Cancel(queued.into()), writing);
        self.count("cancelled");
    }

    fn keep_signal(&mut self) {
        if self.state.session_head().is_none() {
            return;
        }
        let (payload, mut writing) = (serde_json::Map::new(), self.begin());
        let waits_seen = self.state.next_numbers().waits;
        let early =
            SignalToKeep { signal: "signal", payload: &payload, from: None, names_action: false, waits_seen };
        match keep_signal(&self.state, &mut writing, early, &Limits::default()) {
            Ok(_) => {
                self.send(Purpose::Keep, writing);
                self.count("kept");
            }
            Err(KeepRefusal::Again | KeepRefusal::Later) => {}
            Err(KeepRefusal::Refused(error)) => panic!("{error}"),
        }
    }

    fn delete(&mut self) {
        self.next_caller += 1;
        if !self.state.hold_turn_slot(Caller { number: self.next_caller, turn: None, key: None }) {
            return;
        }
        let mut writing = self.begin();
        if delete_session(&mut self.state, &mut writing, false, None).is_err() {
            return self.state.release_turn_slot();
        }
        self.running = Some(Running::Between);
        self.send(Purpose::Delete, writing);
        self.count("deleted");
    }

    /// Reads the store as the runtime does: it begins while no commit in flight changes the state, and may end late.
    fn begin_or_end_read(&mut self) {
        if let Some((before, rows)) = self.reading.take() {
            let version = rows.session.as_ref().map(|row| row.head.version);
            let wait = rows.pending.first().map(|wait| wait.no);
            if self.state.load_snapshot(rows, before, true) {
                let held = self.state.session_head().map(|head| head.version);
                assert_eq!((held, self.state.pending_wait().map(|wait| wait.no)), (version, wait));
                self.count("read");
            } else {
                self.count("stale");
            }
        } else if !self.state.has_commits_in_flight() && !self.state.is_known() {
            self.reading = Some((self.state.change_count(), self.store.snapshot()));
        }
    }

    /// The process dies: of the commits on their way the store has what it has. The next process loads the session and
    /// takes the open turns over.
    fn crash(&mut self) {
        self.sent.clear();
        self.reading = None;
        self.running = None;
        self.state = SessionState::new(&Arc::default());
        self.load_all();
        self.began = self.began.map(|(last, _)| (last, true));
        self.count("crashed");
    }

    fn load_all(&mut self) {
        self.state.hold_session(acquired(self.store.snapshot()), 0, true);
        let mut open = self.state.take_prefetched_turns().unwrap();
        take_over::order_open_turns(&mut open);
        for (at, row) in open.into_iter().enumerate() {
            let parked = row.kind == StoredTurnKind::Message && self.state.pending_wait().is_some();
            let may_have_run = at == 0 && !parked;
            let mut writing = self.begin();
            let row = take_over::take_over_turn(&mut writing, &row, may_have_run);
            let writing = writing.finish_batch();
            assert!(self.store.apply(&writing.batch));
            assert!(!self.state.begin_commit(&writing.batch, writing.counters, true));
            let handle = Caller { number: row.no, turn: Some(row.turn_id()), key: None };
            let message = Item::from_json(serde_json::Value::Null);
            let work = match row.kind {
                StoredTurnKind::Message if !may_have_run => {
                    QueuedWork::Message { row, message, committed: true, steers: false, side: None }
                }
                _ => QueuedWork::Recover { row, has_run: may_have_run },
            };
            self.state.append_turn(QueuedTurn { handle, work });
        }
        self.state.record_takeover_end(self.state.batch_fence(), true);
    }

    fn check(&self) {
        // INV-2, INV-8: a turn without an outcome is queued, runs, or is being ended.
        for row in self.store.open.values() {
            let running = match &self.running {
                Some(Running::Turn { turn, .. }) => turn.row.no == row.no,
                _ => false,
            };
            let is_claimed = self.sent.iter().any(|sent| match &sent.purpose {
                Purpose::Claim(claimed) => claimed.no == row.no,
                Purpose::End => sent.change.resumes.as_ref().is_some_and(|resumes| resumes.no == row.no),
                _ => false,
            });
            let found = self.state.find_turn_by_number(row.no).is_some()
                || self.state.find_turn(&row.turn_id()).is_some();
            assert!(running || is_claimed || found, "{row:?} is in limbo");
        }
        // INV-7: while the state is known, its wait is the store's, or the commit that changes it is on its way.
        if self.state.is_known() && self.sent.is_empty() {
            let waits = |wait: Option<&WaitRow>| wait.map(|wait| wait.no);
            assert_eq!(waits(self.state.pending_wait()), waits(self.store.pending.as_ref()));
        }
    }
}

/// Drives a session with random inputs, and returns how often each kind of event has happened.
pub(super) fn drive(seed: u64, inputs: usize) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(seed);
    for _ in 0..inputs {
        world.step();
    }
    // When no more messages arrive, every turn ends.
    for _ in 0..4_000 {
        world.now += 1;
        world.settle_one();
        world.begin_or_end_read();
        world.run_next();
        world.end_turn();
        world.answer_wait();
        world.check();
        if world.store.open.is_empty() && world.store.pending.is_none() && world.sent.is_empty() {
            break;
        }
    }
    assert_eq!((world.store.open.len(), &world.store.pending), (0, &None), "seed {seed}");
    world.counts
}
