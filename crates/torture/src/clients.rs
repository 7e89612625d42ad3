//! The clients: their next calls, and their own log of the answers that they received.

mod choice;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use singletree_audit::{AuditedOutcome, ClientOperation, HistoryEvent, HistoryRecord, HistoryRecorder};

use crate::dice::TortureRandom;
use crate::mix::{LoadComposition, SUSPENDED};
use crate::phase::BatchPurpose;
use crate::wire::{ChildReport, ChildRequest};

/// All clients and their log.
pub(crate) struct LoadClients {
    dice: TortureRandom,
    log: HistoryRecorder,
    pub(crate) mix: LoadComposition,
    clients: Vec<LoadClient>,
    sessions: Vec<String>,
    /// The forks that were asked for.
    forks: BTreeSet<String>,
    /// Messages that were sent under a key, to be sent again.
    keyed: Vec<(String, String, String)>,
    /// The keys under which something was sent to earlier processes.
    keys_of_earlier: BTreeSet<String>,
    /// In which session a text was sent; each text is sent in one only.
    texts: BTreeMap<String, String>,
    /// The pending waits of sessions, as far as clients were told of them.
    waiting: BTreeMap<String, AwaitedSignal>,
    /// Until when nothing is said in a session that was found waiting.
    blocked: BTreeMap<String, i64>,
    sent: u64,
    /// The number of the next call.
    next_call: u64,
    /// The number of the first call that this process was asked.
    first_call: u64,
    /// The answers to calls of this process that a working store must not give.
    unexpected: Vec<(String, String)>,
    /// Nothing new is asked for any more.
    ending: bool,
}

/// The pending wait of a session.
#[derive(Debug, Clone)]
struct AwaitedSignal {
    signal: String,
    to: Option<(u64, String)>,
}

/// One client: it waits for one answer at a time.
#[derive(Default)]
struct LoadClient {
    open: Option<OpenClientCall>,
    /// The next step that follows from the last answer, and the earliest time for it.
    next: Option<(i64, FollowUpStep)>,
}

/// A call without its answer.
#[derive(Debug)]
struct OpenClientCall {
    call: u64,
    session: String,
    deed: ClientOperation,
    to: Option<(u64, String)>,
    turn: Option<String>,
}

/// A step that follows from an answer.
#[derive(Clone)]
enum FollowUpStep {
    /// A new call.
    New { session: String, deed: ClientOperation, to: Option<(u64, String)> },
    /// The outcome of a turn that was given before the child died.
    Outcome { call: u64, turn: String },
}

/// The call that a client has decided on.
enum ClientChoice {
    Do { session: String, deed: ClientOperation, to: Option<(u64, String)> },
    Branch { from: String, to: String, text: String, edits: Option<u64> },
}

/// The session that is deleted now and then. Little can be judged in it, so that it is one only.
const DELETED: &str = "d0";

/// For how many milliseconds nothing is said in a session that was found waiting.
const BLOCKED: i64 = 250;

/// Error categories that no call may return that began while the store worked.
const UNEXPECTED: [&str; 7] = [
    "session_load_failed",
    "session_save_failed",
    "checkpoint_save_failed",
    "suspension_persistence_failed",
    "store_corrupt",
    "store_refused",
    "chat_accept_failed",
];

impl LoadClients {
    pub(crate) fn new(seed: u64, clients: usize, sessions: usize) -> Self {
        // Beside them those of the second agent, and one that is deleted now and then.
        let names = (0..sessions).map(|it| format!("s{it}"));
        let others = ["o0", "o1", DELETED].map(str::to_owned);
        Self {
            dice: TortureRandom::new(seed),
            log: HistoryRecorder::new(),
            mix: LoadComposition::default(),
            clients: (0..clients).map(|_| LoadClient::default()).collect(),
            sessions: names.chain(others).collect(),
            forks: BTreeSet::new(),
            keyed: Vec::new(),
            keys_of_earlier: BTreeSet::new(),
            texts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            blocked: BTreeMap::new(),
            sent: 0,
            next_call: 0,
            first_call: 0,
            unexpected: Vec::new(),
            ending: false,
        }
    }

    pub(crate) fn random_source(&mut self) -> &mut TortureRandom {
        &mut self.dice
    }

    pub(crate) fn records(&self) -> Vec<HistoryRecord> {
        self.log.records()
    }

    /// Returns all sessions that may be there.
    pub(crate) fn possible_sessions(&self) -> impl Iterator<Item = &String> {
        self.sessions.iter().chain(&self.forks)
    }

    /// Asks for nothing new from here on.
    pub(crate) fn stop_new_calls(&mut self) {
        self.ending = true;
    }

    /// Describes the calls that have no answer.
    pub(crate) fn unanswered_calls(&self) -> Vec<(String, String)> {
        let open = self.clients.iter().filter_map(|client| client.open.as_ref());
        open.map(|open| {
            (open.session.clone(), format!("call {} ({:?}, turn {:?})", open.call, open.deed, open.turn))
        })
        .collect()
    }

    /// A process begins.
    pub(crate) fn begin_process(&mut self) {
        self.first_call = self.next_call;
        self.keys_of_earlier.extend(self.keyed.iter().map(|(_, _, key)| key.clone()));
        self.unexpected.clear();
    }

    /// Returns the answers to calls of this process that a working store must not give.
    pub(crate) fn take_unexpected_answers(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.unexpected)
    }

    /// Returns the next requests of the idle clients, with more of those that lead to a wanted phase. While the
    /// clients settle, they ask only for outcomes of turns that they were given.
    pub(crate) fn next_requests(
        &mut self,
        wanted: Option<BatchPurpose>,
        now: i64,
        settle: bool,
    ) -> Vec<ChildRequest> {
        (0..self.clients.len()).filter_map(|at| self.next_client_request(at, wanted, (now, settle))).collect()
    }

    fn next_client_request(
        &mut self,
        at: usize,
        wanted: Option<BatchPurpose>,
        (now, settle): (i64, bool),
    ) -> Option<ChildRequest> {
        let client = self.clients.get(at)?;
        let due = client.next.as_ref().filter(|(from, _)| *from <= now).map(|(_, next)| next.clone());
        match (client.open.is_some(), due) {
            (true, Some(FollowUpStep::Outcome { call, turn })) => {
                self.clients.get_mut(at)?.next = None;
                Some(ChildRequest::Outcome { call, turn })
            }
            (true, _) => None,
            (false, _) if self.ending || settle => None,
            (false, Some(FollowUpStep::New { session, deed, to })) => {
                self.clients.get_mut(at)?.next = None;
                Some(self.begin_call(at, ClientChoice::Do { session, deed, to }))
            }
            (false, _) => {
                let choice = self.choose_call(at, wanted, now);
                Some(self.begin_call(at, choice))
            }
        }
    }

    fn begin_call(&mut self, at: usize, choice: ClientChoice) -> ChildRequest {
        let (session, deed, to) = match &choice {
            ClientChoice::Do { session, deed, to } => (session.clone(), deed.clone(), to.clone()),
            ClientChoice::Branch { to, text, .. } => {
                (to.clone(), ClientOperation::Send { text: text.clone(), key: None }, None)
            }
        };
        let call = self.log.record_call(&session, deed.clone());
        self.next_call = call + 1;
        if let ClientOperation::Send { text, key } = &deed {
            self.texts.insert(text.clone(), session.clone());
            if let Some(key) = key {
                self.keyed.push((session.clone(), text.clone(), key.clone()));
            }
        }
        let ask = match choice {
            ClientChoice::Do { session, deed, to } => ChildRequest::Do { call, session, deed, to },
            ClientChoice::Branch { from, to, text, edits } => {
                ChildRequest::Branch { call, from, to, text, edits }
            }
        };
        let goes = self.draw_disconnect(&session, &deed);
        if let Some(client) = self.clients.get_mut(at) {
            client.open = Some(OpenClientCall { call, session, deed, to, turn: None });
        }
        match goes {
            Some(after) => ChildRequest::Disconnect { after, asked: Box::new(ask) },
            None => ask,
        }
    }

    /// Takes a line down, and lets the client that it is for go on.
    pub(crate) fn receive_report(&mut self, line: &ChildReport, now: i64) {
        match line {
            ChildReport::Event { session, seq, turn, kind } => {
                let what = HistoryEvent::Event { seq: *seq, turn: turn.clone(), kind: kind.clone() };
                self.log.record_event(session, what);
            }
            ChildReport::Given { call, turn } => {
                let Some(open) = self.find_open_call(*call) else { return };
                open.turn = Some(turn.clone());
                let session = open.session.clone();
                self.log.record_event(&session, HistoryEvent::Given { call: *call, turn: turn.clone() });
            }
            ChildReport::Told { call, turn, end, action } => {
                let Some((at, open)) = self.close_call(*call) else { return };
                let told = HistoryEvent::Told { call: *call, turn: turn.clone(), end: end.clone() };
                self.log.record_event(&open.session, told);
                self.mix.count_outcome(end);
                self.note_session_wait(&open, end, now);
                self.choose_next_step(at, open, turn.as_deref(), (end, action.as_deref(), now));
            }
            ChildReport::Done { call } => {
                let Some((_, open)) = self.close_call(*call) else { return };
                self.waiting.remove(&open.session);
                self.log.record_event(&open.session, HistoryEvent::Done { call: *call });
            }
            ChildReport::Failed { call, category } => {
                let Some((_, open)) = self.close_call(*call) else { return };
                self.note_unexpected(&open, category);
                self.log.record_event(&open.session, HistoryEvent::Gone { call: *call });
            }
            ChildReport::Ready { .. }
            | ChildReport::Commit { .. }
            | ChildReport::Acquired { .. }
            | ChildReport::Refused { .. }
            | ChildReport::Alive { .. } => {}
        }
    }

    /// Notes whether a session waits, as far as an outcome says so.
    fn note_session_wait(&mut self, open: &OpenClientCall, end: &AuditedOutcome, now: i64) {
        match end {
            AuditedOutcome::Errored { category, .. } if category == SUSPENDED => {
                self.blocked.insert(open.session.clone(), now + BLOCKED);
            }
            AuditedOutcome::Completed { .. } | AuditedOutcome::Errored { .. } => {
                drop(self.waiting.remove(&open.session))
            }
            AuditedOutcome::Suspended { .. } => {}
        }
        if let AuditedOutcome::Errored { category, .. } = end {
            self.note_unexpected(open, category);
        }
    }

    fn note_unexpected(&mut self, open: &OpenClientCall, category: &str) {
        // A key that an earlier process was given names the turn of then, and that turn may have met a store that
        // failed.
        let is_of_earlier = match &open.deed {
            ClientOperation::Send { key: Some(key), .. } => self.keys_of_earlier.contains(key),
            _ => false,
        };
        if open.call >= self.first_call && !is_of_earlier && UNEXPECTED.contains(&category) {
            let why =
                format!("call {} ({:?}) was told {category}, and the store worked", open.call, open.deed);
            self.unexpected.push((open.session.clone(), why));
        }
    }

    /// Chooses the next step of a client after this answer.
    fn choose_next_step(
        &mut self,
        at: usize,
        open: OpenClientCall,
        turn: Option<&str>,
        (end, action, now): (&AuditedOutcome, Option<&str>, i64),
    ) {
        let (
            AuditedOutcome::Suspended { signal, wait, .. },
            ClientOperation::Send { .. } | ClientOperation::Answer { .. },
        ) = (end, &open.deed)
        else {
            return;
        };
        let session = open.session;
        let to = action.map(|action| (*wait, action.to_owned()));
        self.waiting.insert(session.clone(), AwaitedSignal { signal: signal.clone(), to: to.clone() });
        if self.dice.draw_percent(8)
            && let Some(turn) = turn
        {
            let deed = ClientOperation::Cancel { turn: turn.to_owned() };
            self.schedule_step(at, now, FollowUpStep::New { session, deed, to: None });
            return;
        }
        let payload = json!({ "approved": self.dice.draw_percent(75) });
        let deed = ClientOperation::Answer { signal: signal.clone(), payload };
        let next = FollowUpStep::New { session, deed, to };
        let late = self.dice.draw_percent(15);
        let from = if late { now + self.draw_delay_millis() } else { now };
        self.mix.late_answers += u64::from(late);
        if self.dice.draw_percent(20) {
            // Somebody else presses the same button at the same time.
            let other = self.dice.draw_index(self.clients.len());
            if other != at
                && self
                    .clients
                    .get(other)
                    .is_some_and(|clients| clients.open.is_none() && clients.next.is_none())
            {
                self.mix.double_answers += 1;
                self.schedule_step(other, from, next.clone());
            }
        }
        self.schedule_step(at, from, next);
    }

    /// Draws for how many milliseconds an answer is put off: some come in time, some do not.
    fn draw_delay_millis(&mut self) -> i64 {
        i64::try_from(self.dice.draw_below(1_800)).unwrap_or(0)
    }

    fn schedule_step(&mut self, at: usize, from: i64, next: FollowUpStep) {
        if let Some(client) = self.clients.get_mut(at) {
            client.next = Some((from, next));
        }
    }

    fn find_open_call(&mut self, call: u64) -> Option<&mut OpenClientCall> {
        self.clients.iter_mut().filter_map(|client| client.open.as_mut()).find(|client| client.call == call)
    }

    fn close_call(&mut self, call: u64) -> Option<(usize, OpenClientCall)> {
        let at = self
            .clients
            .iter()
            .position(|client| client.open.as_ref().is_some_and(|open| open.call == call))?;
        self.clients.get_mut(at)?.open.take().map(|open| (at, open))
    }

    /// Notes effects that were found in their log, by the text of the message that asked for them.
    pub(crate) fn record_effect(&mut self, text: &str, key: &str) {
        let session = self.texts.get(text).cloned().unwrap_or_default();
        self.log.record_event(&session, HistoryEvent::Effect { key: key.to_owned() });
    }

    /// Returns in which session a text was sent.
    pub(crate) fn session_of_text(&self, text: &str) -> Option<&str> {
        self.texts.get(text).map(String::as_str)
    }

    /// A child has died: the open calls that it had will not be answered any more. A client that has the name of a turn
    /// asks for its outcome; another client makes the same call again, or gives up.
    pub(crate) fn handle_child_death(&mut self, is_lost: impl Fn(u64) -> bool) {
        self.log.record_event("", HistoryEvent::Died);
        for at in 0..self.clients.len() {
            let open = self.clients.get_mut(at).and_then(|client| client.open.take_if(|it| is_lost(it.call)));
            let Some(open) = open else { continue };
            if let Some(turn) =
                open.turn.clone().filter(|_| !matches!(open.deed, ClientOperation::Cancel { .. }))
            {
                let next = FollowUpStep::Outcome { call: open.call, turn };
                if let Some(client) = self.clients.get_mut(at) {
                    (client.open, client.next) = (Some(open), Some((i64::MIN, next)));
                }
                continue;
            }
            self.log.record_event(&open.session, HistoryEvent::Gone { call: open.call });
            let again = match &open.deed {
                ClientOperation::Send { key, .. } => key.is_some() && self.dice.draw_percent(80),
                ClientOperation::Answer { .. } | ClientOperation::Delete => self.dice.draw_percent(60),
                ClientOperation::Cancel { .. } => self.dice.draw_percent(30),
            };
            if again {
                self.schedule_step(
                    at,
                    i64::MIN,
                    FollowUpStep::New { session: open.session, deed: open.deed, to: open.to },
                );
            }
        }
    }
}
