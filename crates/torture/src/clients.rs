//! The clients: what they ask for next, and their own log of what they were told.

use std::collections::BTreeMap;

use serde_json::json;
use singletree_audit::{Deed, End, Record, Recorder, What};

use crate::dice::Dice;
use crate::phase::Phase;
use crate::wire::{Ask, Line};

/// All clients and their log.
pub(crate) struct Clients {
    dice: Dice,
    log: Recorder,
    clients: Vec<Client>,
    sessions: Vec<String>,
    /// What was sent under a key, to be sent again.
    keyed: Vec<(String, String, String)>,
    /// In which session a text was sent; each text is sent in one only.
    texts: BTreeMap<String, String>,
    sent: u64,
    /// Nothing new is asked for any more.
    ending: bool,
}

/// One client: it waits for one answer at a time.
#[derive(Default)]
struct Client {
    open: Option<Open>,
    /// What it asks for next, when that follows from what it was told.
    next: Option<Next>,
}

/// A call without its answer.
struct Open {
    call: u64,
    session: String,
    deed: Deed,
    to: Option<(u64, String)>,
    turn: Option<String>,
}

/// What follows.
#[derive(Clone)]
enum Next {
    /// A new call.
    New { session: String, deed: Deed, to: Option<(u64, String)> },
    /// The outcome of a turn that was given before the child died.
    Outcome { call: u64, turn: String },
}

impl Clients {
    pub(crate) fn new(seed: u64, clients: usize, sessions: usize) -> Self {
        Self {
            dice: Dice::new(seed),
            log: Recorder::new(),
            clients: (0..clients).map(|_| Client::default()).collect(),
            sessions: (0..sessions).map(|it| format!("s{it}")).collect(),
            keyed: Vec::new(),
            texts: BTreeMap::new(),
            sent: 0,
            ending: false,
        }
    }

    pub(crate) fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.log.records()
    }

    pub(crate) fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// Asks for nothing new from here on.
    pub(crate) fn end(&mut self) {
        self.ending = true;
    }

    /// Tells whether every call was answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clients.iter().all(|it| it.open.is_none() && (it.next.is_none() || self.ending))
    }

    /// Returns what the clients that wait for nothing ask for now; more of what leads to a wanted phase.
    pub(crate) fn asks(&mut self, wanted: Option<Phase>) -> Vec<Ask> {
        (0..self.clients.len()).filter_map(|at| self.ask(at, wanted)).collect()
    }

    fn ask(&mut self, at: usize, wanted: Option<Phase>) -> Option<Ask> {
        match (self.clients.get(at)?.open.as_ref(), self.clients.get(at)?.next.clone()) {
            (Some(_), Some(Next::Outcome { call, turn })) => {
                self.clients.get_mut(at)?.next = None;
                Some(Ask::Outcome { call, turn })
            }
            (Some(_), _) => None,
            (None, _) if self.ending => None,
            (None, Some(Next::New { session, deed, to })) => {
                self.clients.get_mut(at)?.next = None;
                Some(self.call(at, session, deed, to))
            }
            (None, _) => {
                let (session, deed) = self.choose(at, wanted);
                Some(self.call(at, session, deed, None))
            }
        }
    }

    fn call(&mut self, at: usize, session: String, deed: Deed, to: Option<(u64, String)>) -> Ask {
        let call = self.log.call(&session, deed.clone());
        if let Deed::Send { text, key } = &deed {
            self.texts.insert(text.clone(), session.clone());
            if let Some(key) = key {
                self.keyed.push((session.clone(), text.clone(), key.clone()));
            }
        }
        let ask = Ask::Do { call, session: session.clone(), deed: deed.clone(), to: to.clone() };
        if let Some(client) = self.clients.get_mut(at) {
            client.open = Some(Open { call, session, deed, to, turn: None });
        }
        ask
    }

    fn choose(&mut self, at: usize, wanted: Option<Phase>) -> (String, Deed) {
        let session = self.sessions.get(self.dice.index(self.sessions.len())).cloned().unwrap_or_default();
        let cancels = if wanted == Some(Phase::Cancel) { 40 } else { 8 };
        if self.dice.percent(cancels)
            && let Some((session, turn)) = self.somebodys_turn(at)
        {
            return (session, Deed::Cancel { turn });
        }
        if self.dice.percent(5) && !self.keyed.is_empty() {
            let past = self.dice.index(self.keyed.len());
            if let Some((session, text, key)) = self.keyed.get(past).cloned() {
                return (session, Deed::Send { text, key: Some(key) });
            }
        }
        // In a session that is deleted now and then little can be judged, so that it is one only.
        if self.sessions.last() == Some(&session) && self.dice.percent(8) {
            return (session, Deed::Delete);
        }
        let word = match (wanted, self.dice.below(100)) {
            (Some(Phase::Suspend | Phase::Resume), 0..40) | (_, 0..8) => "risky",
            (Some(Phase::Cancel), 20..80) | (_, 8..20) => "slow",
            (_, 20..50) => "effect",
            (_, 50..60) => "pair",
            (_, 60..70) => "look",
            (_, 70..82) => "aside",
            _ => "plain",
        };
        // What steers is said where something runs.
        let running = if word == "aside" { self.somebodys_turn(at) } else { None };
        let session = running.map_or(session, |(running, _)| running);
        let text = format!("{word} c{at}-{}", self.sent);
        self.sent += 1;
        let key = self.dice.percent(70).then(|| format!("key of {text}"));
        (session, Deed::Send { text, key })
    }

    /// Returns a turn that another client waits for.
    fn somebodys_turn(&mut self, not: usize) -> Option<(String, String)> {
        let others = self.clients.iter().enumerate().filter(|(at, _)| *at != not);
        let open: Vec<&Open> = others.filter_map(|(_, it)| it.open.as_ref()).collect();
        let running = open.iter().filter_map(|it| Some((it.session.clone(), it.turn.clone()?)));
        let running: Vec<_> = running.collect();
        running.get(self.dice.index(running.len())).cloned()
    }

    /// Takes a line down, and lets the client that it is for go on.
    pub(crate) fn hear(&mut self, line: &Line) {
        match line {
            Line::Event { session, seq, turn, kind } => {
                let what = What::Event { seq: *seq, turn: turn.clone(), kind: kind.clone() };
                self.log.note(session, what);
            }
            Line::Given { call, turn } => {
                let Some(open) = self.open(*call) else { return };
                open.turn = Some(turn.clone());
                let session = open.session.clone();
                self.log.note(&session, What::Given { call: *call, turn: turn.clone() });
            }
            Line::Told { call, turn, end, action } => {
                let Some((at, open)) = self.close(*call) else { return };
                let told = What::Told { call: *call, turn: turn.clone(), end: end.clone() };
                self.log.note(&open.session, told);
                self.follow(at, open, turn.as_deref(), (end, action.as_deref()));
            }
            Line::Done { call } => {
                let Some((_, open)) = self.close(*call) else { return };
                self.log.note(&open.session, What::Done { call: *call });
            }
            Line::Failed { call, .. } => {
                let Some((_, open)) = self.close(*call) else { return };
                self.log.note(&open.session, What::Gone { call: *call });
            }
            Line::Ready { .. } | Line::Commit { .. } => {}
        }
    }

    /// Chooses what a client does that was told this.
    fn follow(&mut self, at: usize, open: Open, turn: Option<&str>, (end, action): (&End, Option<&str>)) {
        let (End::Suspended { signal, wait, .. }, Deed::Send { .. } | Deed::Answer { .. }) =
            (end, &open.deed)
        else {
            return;
        };
        let session = open.session;
        if self.dice.percent(12)
            && let Some(turn) = turn
        {
            let deed = Deed::Cancel { turn: turn.to_owned() };
            self.then(at, Next::New { session, deed, to: None });
            return;
        }
        let payload = json!({ "approved": self.dice.percent(75) });
        let deed = Deed::Answer { signal: signal.clone(), payload };
        let to = action.map(|it| (*wait, it.to_owned()));
        let next = Next::New { session, deed, to };
        if self.dice.percent(20) {
            // Somebody else presses the same button at the same time.
            let other = self.dice.index(self.clients.len());
            if self.clients.get(other).is_some_and(|it| it.open.is_none() && it.next.is_none()) {
                self.then(other, next.clone());
            }
        }
        self.then(at, next);
    }

    fn then(&mut self, at: usize, next: Next) {
        if let Some(client) = self.clients.get_mut(at) {
            client.next = Some(next);
        }
    }

    fn open(&mut self, call: u64) -> Option<&mut Open> {
        self.clients.iter_mut().filter_map(|it| it.open.as_mut()).find(|it| it.call == call)
    }

    fn close(&mut self, call: u64) -> Option<(usize, Open)> {
        let at = self.clients.iter().position(|it| it.open.as_ref().is_some_and(|it| it.call == call))?;
        self.clients.get_mut(at)?.open.take().map(|open| (at, open))
    }

    /// Notes effects that were found in their log, by the text of the message that asked for them.
    pub(crate) fn happened(&mut self, text: &str, key: &str) {
        let session = self.texts.get(text).cloned().unwrap_or_default();
        self.log.note(&session, What::Effect { key: key.to_owned() });
    }

    /// Returns in which session a text was sent.
    pub(crate) fn session_of(&self, text: &str) -> Option<&str> {
        self.texts.get(text).map(String::as_str)
    }

    /// The child has died: what was not answered will not be. Who has the name of a turn asks for its outcome; who has not
    /// asks again for the same, or gives up.
    pub(crate) fn died(&mut self) {
        self.log.note("", What::Died);
        for at in 0..self.clients.len() {
            let Some(open) = self.clients.get_mut(at).and_then(|it| it.open.take()) else { continue };
            if let Some(turn) = open.turn.clone().filter(|_| !matches!(open.deed, Deed::Cancel { .. })) {
                let next = Next::Outcome { call: open.call, turn };
                if let Some(client) = self.clients.get_mut(at) {
                    (client.open, client.next) = (Some(open), Some(next));
                }
                continue;
            }
            self.log.note(&open.session, What::Gone { call: open.call });
            let again = match &open.deed {
                Deed::Send { key, .. } => key.is_some() && self.dice.percent(80),
                Deed::Answer { .. } | Deed::Delete => self.dice.percent(60),
                Deed::Cancel { .. } => self.dice.percent(30),
            };
            if again {
                self.then(at, Next::New { session: open.session, deed: open.deed, to: open.to });
            }
        }
    }
}
