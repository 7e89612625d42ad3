//! `chat_turns:` and `signal_arrivals:` (the harness-chat suite): the chat harness, over a journal in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Snapshot;
use singletree::harness::{Answer, Chat, ChatTurnOutcome, SignalAddress, Subscribed};
use singletree::llm::ChatMessage;
use singletree::{Agent, Graph};
use tokio::time::Instant;

use crate::adapt;
use crate::chat_expect::{History, expect};
use crate::check::{Checker, ensure};
use crate::failure::{Failure, Outcome};
use crate::fields::{Fields, Spot};
use crate::journal::WatchedJournal;
use crate::schema::literals;
use crate::tape::{Reel, Tape};

/// The program of a case of the harness-chat suite.
#[derive(Debug)]
pub(crate) struct ChatSpec {
    turns: Vec<TurnSpec>,
    arrivals: Vec<ArrivalSpec>,
}

#[derive(Debug)]
struct TurnSpec {
    session: String,
    message: Spot,
    listener: Option<String>,
    with_previous: bool,
    expected: Spot,
}

#[derive(Debug)]
struct ArrivalSpec {
    signal: String,
    payload: Map<String, Value>,
    expected: Spot,
}

/// The results of a turn.
#[derive(Debug)]
pub(crate) struct Turned {
    /// The message, as the fixture writes it.
    pub(crate) sent: serde_json::Value,
    /// Its outcome.
    pub(crate) outcome: Arc<ChatTurnOutcome>,
    /// The runner's recording during the turn.
    pub(crate) reel: Reel,
    /// The session's history before it.
    pub(crate) before: History,
    /// The session's history after it.
    pub(crate) after: History,
    /// How often it called the journal.
    pub(crate) calls: usize,
    /// How long it took.
    pub(crate) took: Duration,
}

/// The results of a case.
#[derive(Debug, Default)]
pub(crate) struct Talked {
    /// Its turns.
    pub(crate) turns: Vec<Turned>,
    /// How many signals arrived.
    pub(crate) arrivals: usize,
    /// The outcomes that listeners received, by listener name.
    pub(crate) heard: BTreeMap<String, Vec<Arc<ChatTurnOutcome>>>,
    /// The outcome of a send after everything else, and how often listeners had been called by then.
    pub(crate) next: Option<Arc<ChatTurnOutcome>>,
}

/// More messages than any fixture makes.
const HISTORY_MAX: u64 = 1 << 16;

type Heard = Arc<Mutex<BTreeMap<String, Vec<Arc<ChatTurnOutcome>>>>>;

impl ChatSpec {
    /// Takes the suite's keys out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take(block: &mut Fields) -> Outcome<Self> {
        let mut harness = block.need("harness")?.fields()?;
        let mode = harness.need("mode")?;
        if mode.text()? != "sessioned" {
            return Err(Failure::reader(&mode.path, "a chat harness has sessions"));
        }
        adapt::coordinator(&mut harness)?;
        harness.finish()?;
        let turns = block.need("chat_turns")?.items()?.into_iter().map(turn).collect::<Outcome<Vec<_>>>()?;
        if turns.first().is_some_and(|turns| turns.with_previous) {
            return Err(Failure::reader("chat_turns[0]", "there is no turn before the first"));
        }
        let arrivals = match block.take("signal_arrivals") {
            Some(list) => list.items()?.into_iter().map(arrival).collect::<Outcome<_>>()?,
            None => Vec::new(),
        };
        Ok(Self { turns, arrivals })
    }
}

fn turn(spot: Spot) -> Outcome<TurnSpec> {
    let mut block = spot.fields()?;
    block.text("name")?;
    let turn = TurnSpec {
        session: block.need("session_id")?.text()?.to_owned(),
        message: block.need("user_message")?,
        listener: block.text("subscribe_listener")?,
        with_previous: block
            .take("dev.singletree.with_previous")
            .map(|it| it.truth())
            .transpose()?
            .unwrap_or(false),
        expected: block.need("expected")?,
    };
    block.finish()?;
    Ok(turn)
}

fn arrival(spot: Spot) -> Outcome<ArrivalSpec> {
    let mut block = spot.fields()?;
    let arrival = ArrivalSpec {
        signal: block.need("signal_id")?.text()?.to_owned(),
        payload: literals(block.need("signal_payload")?)?,
        expected: block.need("expected_listener_callback")?,
    };
    block.finish()?;
    Ok(arrival)
}

/// A conversation that is going on.
struct Room<'a> {
    chat: Chat,
    journal: WatchedJournal,
    /// A second harness over the same journal, without injected faults, that reads the stored data.
    reader: Chat,
    tape: &'a Tape,
    heard: Heard,
    listeners: Vec<Subscribed>,
    /// The session that each listener hears of.
    sessions: BTreeMap<String, String>,
}

/// Runs the turns and signals and asserts the expectations of each. `ask_again` sends one more message at the end.
///
/// # Errors
/// When the harness cannot be made.
pub(crate) async fn run(
    spec: ChatSpec,
    graph: Graph<Snapshot>,
    (journal, tape): (WatchedJournal, &Tape),
    ask_again: bool,
    checker: &mut Checker,
) -> Outcome<Talked> {
    let refused = |it: singletree::harness::Error| Failure::build("harness", it.to_string());
    let agent = Agent::new("conformance", &graph);
    let chat = Chat::builder().agent(agent.clone()).open(journal.clone()).map_err(refused)?;
    let reader = Chat::builder().agent(agent).open(journal.inner().clone()).map_err(refused)?;
    let mut room = Room {
        chat,
        journal,
        reader,
        tape,
        heard: Heard::default(),
        listeners: Vec::new(),
        sessions: BTreeMap::new(),
    };
    let mut talked = Talked::default();
    let last = spec.turns.last().map(|turn| turn.session.clone());
    let mut turns = spec.turns.into_iter().peekable();
    while let Some(first) = turns.next() {
        let mut together = vec![first];
        while let Some(next) = turns.next_if(|turns| turns.with_previous) {
            together.push(next);
        }
        talked.turns.extend(room.turns(together, checker).await?);
    }
    for arrival in spec.arrivals {
        room.arrival(arrival, checker).await?;
        talked.arrivals += 1;
    }
    if let (true, Some(session)) = (ask_again, last) {
        let outcome = room.chat.send(&session, ChatMessage::user("And now?")).await;
        talked.next = Some(Arc::new(outcome));
    }
    talked.heard.clone_from(&room.heard.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(talked)
}

impl Room<'_> {
    fn listen(&mut self, name: String, session: &str) -> Outcome<()> {
        let heard = self.heard.clone();
        heard.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default();
        self.sessions.insert(name.clone(), session.to_owned());
        let listening = self.chat.subscribe(session, move |outcome| {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(name.clone())
                .or_default()
                .push(outcome);
        });
        let listening = listening.map_err(|error| Failure::build("subscribe_listener", error.to_string()))?;
        self.listeners.push(listening);
        Ok(())
    }

    /// Sends the messages of these turns, each without waiting for the turn before, and asserts the expectations of
    /// each when all turns have ended.
    async fn turns(&mut self, specs: Vec<TurnSpec>, checker: &mut Checker) -> Outcome<Vec<Turned>> {
        let mut sends = Vec::new();
        let mut befores = Vec::new();
        for spec in &specs {
            if let Some(name) = &spec.listener {
                self.listen(name.clone(), &spec.session)?;
            }
            sends.push((&spec.session, adapt::message(&spec.message)?));
            befores.push(self.history(&spec.session).await);
        }
        let (calls, began) = (self.journal.calls(), Instant::now());
        let chat = &self.chat;
        let sends = sends.into_iter().map(|(session, message)| async move {
            let outcome = chat.send(session, message).await;
            (Arc::new(outcome), began.elapsed())
        });
        let ended = futures_util::future::join_all(sends).await;
        let (calls, reel) = (self.journal.calls() - calls, self.tape.cut());
        let mut turned = Vec::new();
        for ((spec, before), (outcome, took)) in specs.into_iter().zip(befores).zip(ended) {
            let after = self.history(&spec.session).await;
            let mut wanted = spec.expected.fields()?;
            if let Some(it) = wanted.take("dev.singletree.took_ms") {
                checker.exactly(&it, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            }
            let checked = expect(checker, wanted, &outcome, &after);
            checker.take(checked);
            let sent = spec.message.node.to_json();
            turned.push(Turned { sent, outcome, reel: reel.clone(), before, after, calls, took });
        }
        Ok(turned)
    }

    async fn arrival(&mut self, spec: ArrivalSpec, checker: &mut Checker) -> Outcome<()> {
        let path = spec.expected.path.clone();
        let before = self.count();
        let answer = Answer::new(spec.payload);
        match self.chat.answer(SignalAddress::Signal(spec.signal), answer).await {
            Ok(turn) => drop(turn.outcome().await),
            Err(errored) => {
                checker.holds(&path, Err(format!("the signal was refused: {}", errored.error_category)));
                return Ok(());
            }
        }
        let mut wanted = spec.expected.fields()?;
        let listener = wanted.need("listener")?;
        let name = listener.text()?.to_owned();
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let calls = heard.get(&name);
        checker.holds(&listener.path, ensure(calls.is_some(), || format!("nobody listens as '{name}'")));
        let told = self.count() - before;
        checker.holds(&path, ensure(told == 1, || format!("listeners were called {told} times")));
        if let Some(outcome) = calls.and_then(|it| it.last()) {
            let after = match self.sessions.get(&name) {
                Some(session) => self.history(session).await,
                None => History::default(),
            };
            expect(checker, wanted, outcome, &after)?;
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }

    /// Reads a session's history as another process would.
    async fn history(&self, session: &str) -> History {
        let entries = self.reader.history(session, 0, HISTORY_MAX).await.unwrap_or_default();
        History(
            entries
                .iter()
                .map(|entry| serde_json::to_value(entry.message.as_ref()).unwrap_or_default())
                .collect(),
        )
    }
}
