//! The simplest possible model of a chat: the effect and the answer of each operation. Pure.

use std::collections::{BTreeMap, VecDeque};

use singletree_audit::{AuditedOutcome, AuditedWaitState};
use singletree_harness::WhileSuspended;

use crate::rig::acted;

/// The behaviour of the graph that a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It says the message back.
    Plain,
    /// It says something and waits.
    Ask,
    /// The same, with a deadline.
    Timed,
    /// The same, with a deadline and values to go on with.
    Valued,
    /// It calls a tool, waits with a deadline, and answers the call when it goes on.
    Call,
    /// It calls a tool, waits, and fails when it goes on.
    Brittle,
    /// It fails, and may be tried again.
    Fail,
    /// It fails for good.
    Break,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Plain,
        Self::Ask,
        Self::Timed,
        Self::Valued,
        Self::Call,
        Self::Brittle,
        Self::Fail,
        Self::Break,
    ];

    /// Returns the word with which its messages begin.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Ask => "ask",
            Self::Timed => "timed",
            Self::Valued => "valued",
            Self::Call => "call",
            Self::Brittle => "brittle",
            Self::Fail => "fail",
            Self::Break => "break",
        }
    }

    pub(crate) fn of(text: &str) -> Self {
        let word = text.split(' ').next().unwrap();
        Self::ALL.into_iter().find(|it| it.word() == word).unwrap()
    }

    pub(crate) fn has_deadline(self) -> bool {
        matches!(self, Self::Timed | Self::Valued | Self::Call)
    }

    pub(crate) fn calls(self) -> bool {
        matches!(self, Self::Call | Self::Brittle)
    }
}

/// Which wait an answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    Nothing,
    TheWait,
    Another,
}

/// The expected result of an operation: a turn, by its place in the session's list, and its end. No end: it is
/// parked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    pub(crate) turn: Option<usize>,
    pub(crate) end: Option<AuditedOutcome>,
}

#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) text: String,
    /// The first turn of its invocation, and which of it this is.
    pub(crate) root: usize,
    pub(crate) ordinal: u32,
    pub(crate) end: Option<AuditedOutcome>,
    /// Whether a turn that runs may take its message.
    steers: bool,
}

#[derive(Debug, Clone)]
struct Wait {
    no: u64,
    turn: usize,
    state: AuditedWaitState,
    answer: Option<bool>,
    ended_by: Option<usize>,
}

/// One session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    pub(crate) exists: bool,
    pub(crate) history: Vec<String>,
    pub(crate) turns: Vec<Turn>,
    /// Whether the history ends with a tool call that is not answered.
    open: bool,
    waits: Vec<Wait>,
    parked: VecDeque<usize>,
    keys: BTreeMap<String, (String, usize)>,
    /// The number of the next wait; it outlives the session.
    next_wait: u64,
}

pub(crate) fn error(category: &str) -> AuditedOutcome {
    let retry_safe = category == "provider_unavailable";
    AuditedOutcome::Errored { category: category.to_owned(), retry_safe, recorded: true }
}

/// The message that calls a tool.
const CALL: &str = "assistant: (c1)";

pub(crate) fn refused(category: &str) -> Expected {
    Expected { turn: None, end: Some(error(category)) }
}

impl Session {
    pub(crate) fn send(&mut self, text: &str, key: Option<&str>, policy: WhileSuspended) -> Expected {
        if let Some((held, turn)) = key.and_then(|it| self.keys.get(it)) {
            return match held == text {
                true => self.expect(*turn),
                false => refused("chat_idempotency_conflict"),
            };
        }
        self.exists = true;
        let at = self.add(text, self.turns.len(), 0);
        if let Some(key) = key {
            self.keys.insert(key.to_owned(), (text.to_owned(), at));
        }
        self.parked.push_back(at);
        self.go_on(policy);
        self.expect(at)
    }

    /// Nothing runs: it is as good as sent, unless it is parked. Then the turn that goes on takes it.
    pub(crate) fn steer(&mut self, text: &str, policy: WhileSuspended) -> Expected {
        self.exists = true;
        let at = self.add(text, self.turns.len(), 0);
        self.turns[at].steers = true;
        self.parked.push_back(at);
        self.go_on(policy);
        self.expect(at)
    }

    /// Runs the turns that may run, in order.
    fn go_on(&mut self, policy: WhileSuspended) {
        while let Some(at) = self.parked.front().copied() {
            match (self.pending().is_some(), policy) {
                (true, WhileSuspended::Queue) => break,
                (true, WhileSuspended::Supersede) => {
                    self.close(AuditedWaitState::Cancelled);
                    continue;
                }
                (true, WhileSuspended::Reject) => self.end(at, error("chat_session_suspended")),
                (false, _) => self.run(at),
            }
            self.parked.pop_front();
        }
    }

    fn run(&mut self, at: usize) {
        let text = self.turns[at].text.clone();
        let kind = Kind::of(&text);
        match kind {
            Kind::Fail => return self.end(at, error("provider_unavailable")),
            Kind::Break => return self.end(at, error("provider_invalid_request")),
            Kind::Plain | Kind::Ask | Kind::Timed | Kind::Valued | Kind::Call | Kind::Brittle => {}
        }
        self.answer_open("unknown", "the turn that called this ended before it answered");
        self.history.push(format!("user:{text}"));
        let said = match kind {
            Kind::Plain => format!("assistant:{text}"),
            _ if kind.calls() => CALL.to_owned(),
            _ => "assistant:ask".to_owned(),
        };
        self.history.push(said.clone());
        if kind == Kind::Plain {
            return self.end(at, AuditedOutcome::Completed { replies: vec![said] });
        }
        self.open = kind.calls();
        let wait = self.next_wait;
        self.next_wait += 1;
        let state = AuditedWaitState::Pending;
        self.waits.push(Wait { no: wait, turn: at, state, answer: None, ended_by: None });
        self.end(at, AuditedOutcome::Suspended { signal: "ok".into(), wait, pending: vec![said] });
    }

    fn resume(&mut self, state: AuditedWaitState, approved: bool) -> usize {
        let kind = self.waiting_for().unwrap();
        let at = self.end_wait(state, Some(approved));
        if kind == Kind::Brittle {
            self.answer_open("failed", "provider_unavailable");
            self.end(at, error("provider_unavailable"));
            return at;
        }
        let answer = self.open.then(|| "tool:ok (for c1)".to_owned());
        let mut heard = Vec::new();
        while let Some(next) = self.parked.pop_front_if(|it| self.turns[*it].steers) {
            heard.push(next);
        }
        let before = usize::from(answer.is_some());
        let texts = heard.iter().map(|it| format!("user:{}", self.turns[*it].text));
        let said = format!("assistant:{}", acted(approved));
        let replies: Vec<_> = answer.into_iter().chain(texts).chain([said]).collect();
        self.open = false;
        self.history.extend(replies.iter().cloned());
        // Messages that the turn took end with this turn, each with the replies after it.
        for (place, taken) in heard.into_iter().enumerate() {
            let replies = replies[before + place + 1..].to_vec();
            self.end(taken, AuditedOutcome::Completed { replies });
        }
        self.end(at, AuditedOutcome::Completed { replies });
        at
    }

    fn close(&mut self, state: AuditedWaitState) -> usize {
        let at = self.end_wait(state, None);
        let (status, reason, category) = match state {
            // None of these is an approval, whose calls would be denied.
            AuditedWaitState::Expired => ("failed", "expired", "chat_signal_expired"),
            _ => ("cancelled", "cancelled", "chat_turn_cancelled"),
        };
        self.answer_open(status, reason);
        self.end(at, error(category));
        at
    }

    fn end_wait(&mut self, state: AuditedWaitState, answer: Option<bool>) -> usize {
        let root = self.pending().unwrap().turn;
        let at = self.add("", root, 1);
        let wait = self.waits.iter_mut().find(|it| it.state == AuditedWaitState::Pending).unwrap();
        (wait.state, wait.answer, wait.ended_by) = (state, answer, Some(at));
        at
    }

    fn answer_open(&mut self, status: &str, reason: &str) {
        if std::mem::take(&mut self.open) {
            self.history.push(format!(r#"tool:{{"reason":"{reason}","status":"{status}"}} (for c1)"#));
        }
    }

    pub(crate) fn answer(&mut self, approved: bool, names: Names, policy: WhileSuspended) -> Expected {
        // An answer that names no wait is the duplicate of the last one that it ended, whatever came after that.
        let ended = |it: &&Wait| it.state == AuditedWaitState::Consumed && it.answer == Some(approved);
        let duplicate = self.waits.iter().rev().find(ended).filter(|_| names == Names::Nothing);
        let Some(wait) = self.pending().or(duplicate).or(self.waits.last()).cloned() else {
            return refused("harness_signal_correlation_failed");
        };
        match wait.state {
            AuditedWaitState::Pending | AuditedWaitState::Consumed if names == Names::Another => {
                refused("chat_signal_mismatch")
            }
            AuditedWaitState::Pending => {
                let at = self.resume(AuditedWaitState::Consumed, approved);
                self.go_on(policy);
                self.expect(at)
            }
            AuditedWaitState::Consumed if wait.answer == Some(approved) => {
                self.expect(wait.ended_by.unwrap())
            }
            AuditedWaitState::Consumed => refused("chat_signal_conflict"),
            AuditedWaitState::Expired => refused("chat_signal_expired"),
            AuditedWaitState::Cancelled => refused("harness_signal_correlation_failed"),
        }
    }

    pub(crate) fn cancel(&mut self, at: usize, policy: WhileSuspended) -> Expected {
        if let Some(place) = self.parked.iter().position(|it| *it == at) {
            self.parked.remove(place);
            self.end(at, error("chat_turn_cancelled"));
            return self.expect(at);
        }
        if self.pending().is_none_or(|it| it.turn != self.turns[at].root) {
            return self.expect(at);
        }
        let closing = self.close(AuditedWaitState::Cancelled);
        self.go_on(policy);
        self.expect(closing)
    }

    /// All deadlines that there are pass.
    pub(crate) fn expire(&mut self, policy: WhileSuspended) {
        match self.waiting_for() {
            Some(Kind::Valued) => drop(self.resume(AuditedWaitState::Expired, false)),
            Some(kind) if kind.has_deadline() => drop(self.close(AuditedWaitState::Expired)),
            _ => return,
        }
        self.go_on(policy);
    }

    pub(crate) fn delete(&mut self) {
        *self = Self { next_wait: self.next_wait, ..Self::default() };
    }

    /// The process ends, and the next one takes over, under its policy.
    pub(crate) fn restart(&mut self, policy: WhileSuspended) {
        // That a message steers is not kept: it has its own turn, in its place.
        self.turns.iter_mut().for_each(|it| it.steers = false);
        self.go_on(policy);
    }

    /// Takes over the history of an export.
    pub(crate) fn import(&mut self, from: &Self) {
        (self.exists, self.open) = (true, from.open);
        self.history.clone_from(&from.history);
    }

    /// Begins as the beginning of another session, up to a message. Calls that are open there are closed.
    pub(crate) fn fork(&mut self, from: &Self, offset: usize) {
        self.exists = true;
        self.history = from.history[..offset].to_vec();
        self.open = self.history.last().is_some_and(|it| it == CALL);
        self.answer_open("cancelled", "the conversation was forked here");
    }

    /// Returns the place and the text of the last user's message before a place.
    pub(crate) fn asked_before(&self, past: usize) -> Option<(usize, &str)> {
        let told = self.history.iter().enumerate().take(past).rev();
        told.filter_map(|(at, it)| it.strip_prefix("user:").map(|text| (at, text))).next()
    }

    fn add(&mut self, text: &str, root: usize, ordinal: u32) -> usize {
        self.turns.push(Turn { text: text.to_owned(), root, ordinal, end: None, steers: false });
        self.turns.len() - 1
    }

    fn end(&mut self, at: usize, end: AuditedOutcome) {
        if end.frees_key() {
            self.keys.retain(|_, (_, turn)| *turn != at);
        }
        self.turns[at].end = Some(end);
    }

    fn expect(&self, at: usize) -> Expected {
        Expected { turn: Some(at), end: self.turns[at].end.clone() }
    }

    fn pending(&self) -> Option<&Wait> {
        self.waits.iter().find(|it| it.state == AuditedWaitState::Pending)
    }

    /// Returns the kind of the message that asked for the pending wait.
    pub(crate) fn waiting_for(&self) -> Option<Kind> {
        self.pending().map(|it| Kind::of(&self.turns[it.turn].text))
    }

    /// Returns the number of the wait that an answer would be for.
    pub(crate) fn addressed(&self) -> u64 {
        self.pending().or(self.waits.last()).map_or(0, |it| it.no)
    }
}
