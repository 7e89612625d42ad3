//! Random inputs in random order, with commits that land late, are refused or have an unknown result. The state is
//! compared with a plain model: the accepted messages in order, and the place of each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The place of a message, as its sender can observe it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Its acceptance is in flight.
    Sent,
    Accepted,
    Runs,
    Ended,
}

/// A commit that was sent and has not landed.
enum Sent {
    Accept(u64),
    /// The running turn suspends, ends its wait, or writes something else.
    OfTurn(WaitChange, bool),
    Cancel(Box<QueuedTurn<Caller>>),
}

struct World {
    state: SessionState<Caller>,
    seed: u64,
    places: BTreeMap<u64, Place>,
    next_message: u64,
    sent: Vec<Sent>,
    /// The wait as the store has it.
    stored_wait: Option<u64>,
    next_wait: u64,
    answered: BTreeSet<u64>,
    /// Messages that began to run, in order; each at most once.
    began: Vec<u64>,
    runs_answer: Option<u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            state: loaded(),
            seed,
            places: BTreeMap::new(),
            next_message: 0,
            sent: Vec::new(),
            stored_wait: None,
            next_wait: 0,
            answered: BTreeSet::new(),
            began: Vec::new(),
            runs_answer: None,
            counts: BTreeMap::new(),
        }
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
        match self.draw(12) {
            0..=2 => self.accept(),
            3..=5 => self.settle_one(),
            6 | 7 => self.run_next(),
            8 => self.end_turn(),
            9 => self.answer_wait(),
            10 => self.cancel_one(),
            _ => self.read_store(),
        }
        self.check();
    }

    fn accept(&mut self) {
        if !self.state.is_known() || self.state.count_waiting_turns() > 6 {
            return;
        }
        let no = self.next_message;
        self.next_message += 1;
        self.places.insert(no, Place::Sent);
        self.state.append_turn(message(no, false));
        let counters = Counters { turns: no + 1, ..self.state.next_numbers() };
        self.state.begin_commit(&batch([RowMutation::Turn(row(no))]), counters, true);
        self.sent.push(Sent::Accept(no));
        self.count("accepted");
    }

    /// Lets one commit land, be refused, or end with an unknown result that the store settles later.
    fn settle_one(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.draw(self.sent.len());
        let fails = self.draw(8) == 0;
        if fails {
            self.state.commit_failed();
            self.count("failed");
        }
        match self.sent.remove(at) {
            Sent::Accept(no) => {
                assert_eq!(self.state.settle_message(no, !fails), Some(caller(no)));
                self.places.insert(no, if fails { Place::Ended } else { Place::Accepted });
            }
            Sent::OfTurn(change, ends) => self.settle_turn(change, ends, fails),
            Sent::Cancel(queued) => {
                let no = queued.handle.number;
                self.state.record_cancel_end(&caller(no), fails.then_some(*queued));
                self.places.insert(no, if fails { Place::Accepted } else { Place::Ended });
            }
        }
    }

    fn settle_turn(&mut self, wait: WaitChange, ends: bool, fails: bool) {
        self.state.commit_settled();
        if fails {
            // Another commit ends the turn; this one had no effect.
            self.sent.push(Sent::OfTurn(WaitChange::None, true));
            self.state.begin_commit(&batch([RowMutation::Head(head(1))]), self.state.next_numbers(), true);
            return;
        }
        match &wait {
            WaitChange::Begins(wait) => self.stored_wait = Some(wait.no),
            WaitChange::Ends => {
                let ended = self.stored_wait.take().unwrap();
                assert!(self.answered.insert(ended), "wait {ended} is answered twice");
            }
            WaitChange::None => {}
        }
        let change = LandedChange { invalidates: true, wait, ..LandedChange::default() };
        assert!(self.state.commit_landed(change).ended.is_empty());
        if ends {
            if let Some(no) = self.running_message() {
                self.places.insert(no, Place::Ended);
            }
            self.runs_answer = None;
            self.state.release_turn_slot();
            self.count("ended");
        }
    }

    fn running_message(&self) -> Option<u64> {
        self.places.iter().find(|(_, place)| **place == Place::Runs).map(|(no, _)| *no)
    }

    fn run_next(&mut self) {
        match next(&mut self.state, WhileSuspended::Queue) {
            QueueDecision::Run(queued) => match queued.work {
                QueuedWork::Answer(answer) => {
                    self.runs_answer = Some(answer.wait);
                    if self.state.begin_answer(answer.wait).is_none() {
                        // The wait has ended: the answer is refused.
                        self.runs_answer = None;
                        self.state.release_turn_slot();
                        self.count("late answers");
                    }
                }
                _ => {
                    let no = queued.handle.number;
                    assert_eq!(self.places.insert(no, Place::Runs), Some(Place::Accepted));
                    self.began.push(no);
                }
            },
            QueueDecision::Load => self.read_store(),
            QueueDecision::Nothing => {}
            decided => panic!("{decided:?}"),
        }
    }

    /// Sends the commit by which the running turn ends: completed, suspended, or with its wait answered.
    fn end_turn(&mut self) {
        let is_free = !self.sent.iter().any(|sent| matches!(sent, Sent::OfTurn(..)));
        if self.state.running_turn().is_none() || !is_free {
            return;
        }
        let suspends = self.draw(3) == 0 && self.runs_answer.is_none();
        let (change, counters) = if self.runs_answer.is_some() {
            (WaitChange::Ends, self.state.next_numbers())
        } else if suspends {
            let no = self.next_wait;
            self.next_wait += 1;
            self.count("suspended");
            (WaitChange::Begins(wait(no).into()), Counters { waits: no + 1, ..self.state.next_numbers() })
        } else {
            (WaitChange::None, self.state.next_numbers())
        };
        self.state.begin_commit(&batch([RowMutation::Head(head(1))]), counters, true);
        self.sent.push(Sent::OfTurn(change, true));
    }

    fn answer_wait(&mut self) {
        let Some(wait) = self.state.pending_wait().map(|wait| wait.no) else { return };
        let number = 1_000_000 + wait;
        if self.state.queue_answer(caller(number), answer(wait)).is_none() {
            self.count("answered");
        }
    }

    fn cancel_one(&mut self) {
        let waiting: Vec<u64> = self.places.iter().rev().take(8).map(|(no, _)| *no).collect();
        if waiting.is_empty() {
            return;
        }
        let no = waiting[self.draw(waiting.len())];
        let is_open = self.places[&no] == Place::Accepted;
        if !is_open {
            return;
        }
        if let Some(queued) = self.state.take_queued_turn(&row(no).turn_id()) {
            self.sent.push(Sent::Cancel(queued.into()));
            self.count("cancelled");
        }
    }

    /// Reads the store as the runtime does: only while no commit in flight changes the state.
    fn read_store(&mut self) {
        if self.state.has_commits_in_flight() || self.state.is_known() {
            return;
        }
        let before = self.state.change_count();
        let mut snapshot = stored(self.stored_wait.map(wait));
        snapshot.numbers.waits = self.next_wait;
        assert!(self.state.load_snapshot(snapshot, before, true));
        self.count("read");
    }

    fn check(&self) {
        // INV-2, INV-8: a message that was accepted and has not ended is found by its id.
        for (no, place) in &self.places {
            let is_found = self.state.find_turn(&row(*no).turn_id()).is_some();
            assert_eq!(is_found, *place != Place::Ended, "message {no} is {place:?}");
        }
        // INV-1: at most one turn runs, and messages began in the order of acceptance.
        let running = self.places.values().filter(|place| **place == Place::Runs).count();
        assert!(running <= 1);
        assert!(self.began.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", self.began);
    }

    /// Forgets messages that have ended, so that a step costs the same however long the run is.
    fn forget_ended(&mut self) {
        self.places.retain(|_, place| *place != Place::Ended);
        self.began.drain(..self.began.len().saturating_sub(1));
    }
}

/// Drives a session with random inputs, and returns how often each kind of event has happened.
fn drive(seed: u64, inputs: usize) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(seed);
    for _ in 0..inputs {
        world.step();
        world.forget_ended();
    }
    // When no more messages arrive and all commits land, every message ends.
    for _ in 0..400 {
        world.settle_one();
        world.run_next();
        world.end_turn();
        world.answer_wait();
        world.check();
        world.forget_ended();
    }
    assert_eq!(world.places, BTreeMap::new(), "seed {seed}");
    world.counts
}

// INV-1, INV-2, INV-7, INV-8
#[test]
fn random_inputs_lose_double_and_reorder_nothing() {
    let inputs = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut counts = BTreeMap::new();
    for seed in 1..=10 {
        for (kind, count) in drive(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), inputs / 10) {
            *counts.entry(kind).or_insert(0) += count;
        }
    }
    for kind in ["accepted", "ended", "suspended", "answered", "cancelled", "failed", "read"] {
        assert!(counts.get(kind).is_some_and(|count| *count > 100), "{kind}: {counts:?}");
    }
}
