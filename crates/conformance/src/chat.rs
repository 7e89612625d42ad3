//! `chat_turns:` and `signal_arrivals:` (the harness-chat suite): the chat harness, over a journal in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Snapshot;
use singletree::harness::{Answer, Chat, ChatTurnOutcome, OutcomeSubscription, SignalAddress};
use singletree::llm::ChatMessage;
use singletree::{Agent, Graph};
use tokio::time::Instant;

use crate::adapt;
use crate::chat_expect::{StoredHistory, expect};
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::journal::CountingJournal;
use crate::schema::literals;
use crate::tape::{CaseRecorder, CaseRecording};

/// The program of a case of the harness-chat suite.
#[derive(Debug)]
pub(crate) struct ChatCaseSpec {
    turns: Vec<ChatTurnSpec>,
    arrivals: Vec<SignalArrivalSpec>,
}

#[derive(Debug)]
struct ChatTurnSpec {
    session: String,
    message: LocatedNode,
    listener: Option<String>,
    with_previous: bool,
    expected: LocatedNode,
}

#[derive(Debug)]
struct SignalArrivalSpec {
    signal: String,
    payload: Map<String, Value>,
    expected: LocatedNode,
}

/// The results of a turn.
#[derive(Debug)]
pub(crate) struct ChatTurnResult {
    /// The message, as the fixture writes it.
    pub(crate) sent: serde_json::Value,
    /// Its outcome.
    pub(crate) outcome: Arc<ChatTurnOutcome>,
    /// The runner's recording during the turn.
    pub(crate) reel: CaseRecording,
    /// The session's history before it.
    pub(crate) before: StoredHistory,
    /// The session's history after it.
    pub(crate) after: StoredHistory,
    /// How often it called the journal.
    pub(crate) calls: usize,
    /// How long it took.
    pub(crate) took: Duration,
}

/// The results of a case.
#[derive(Debug, Default)]
pub(crate) struct ChatCaseResult {
    /// Its turns.
    pub(crate) turns: Vec<ChatTurnResult>,
    /// How many signals arrived.
    pub(crate) arrivals: usize,
    /// The outcomes that listeners received, by listener name.
    pub(crate) heard: BTreeMap<String, Vec<Arc<ChatTurnOutcome>>>,
    /// The outcome of a send after everything else, and how often listeners had been called by then.
    pub(crate) next: Option<Arc<ChatTurnOutcome>>,
}

/// More messages than any fixture makes.
const HISTORY_MAX: u64 = 1 << 16;

type OutcomesByListener = Arc<Mutex<BTreeMap<String, Vec<Arc<ChatTurnOutcome>>>>>;

impl ChatCaseSpec {
    /// Takes the suite's keys out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut harness = block.need("harness")?.fields()?;
        let mode = harness.need("mode")?;
        if mode.text()? != "sessioned" {
            return Err(CaseFailure::reader(&mode.path, "a chat harness has sessions"));
        }
        adapt::coordinator(&mut harness)?;
        harness.finish()?;
        let turns = block.need("chat_turns")?.items()?.into_iter().map(turn).collect::<Outcome<Vec<_>>>()?;
        if turns.first().is_some_and(|turns| turns.with_previous) {
            return Err(CaseFailure::reader("chat_turns[0]", "there is no turn before the first"));
        }
        let arrivals = match block.take("signal_arrivals") {
            Some(list) => list.items()?.into_iter().map(arrival).collect::<Outcome<_>>()?,
            None => Vec::new(),
        };
        Ok(Self { turns, arrivals })
    }
}

fn turn(spot: LocatedNode) -> Outcome<ChatTurnSpec> {
    let mut block = spot.fields()?;
    block.text("name")?;
    let turn = ChatTurnSpec {
        session: block.need("session_id")?.text()?.to_owned(),
        message: block.need("user_message")?,
        listener: block.text("subscribe_listener")?,
        with_previous: block
            .take("dev.singletree.with_previous")
            .map(|value| value.truth())
            .transpose()?
            .unwrap_or(false),
        expected: block.need("expected")?,
    };
    block.finish()?;
    Ok(turn)
}

fn arrival(spot: LocatedNode) -> Outcome<SignalArrivalSpec> {
    let mut block = spot.fields()?;
    let arrival = SignalArrivalSpec {
        signal: block.need("signal_id")?.text()?.to_owned(),
        payload: literals(block.need("signal_payload")?)?,
        expected: block.need("expected_listener_callback")?,
    };
    block.finish()?;
    Ok(arrival)
}

/// A conversation that is going on.
struct ChatCaseRunner<'a> {
    chat: Chat,
    journal: CountingJournal,
    /// A second harness over the same journal, without injected faults, that reads the stored data.
    reader: Chat,
    tape: &'a CaseRecorder,
    heard: OutcomesByListener,
    listeners: Vec<OutcomeSubscription>,
    /// The session that each listener hears of.
    sessions: BTreeMap<String, String>,
}

/// Runs the turns and signals and asserts the expectations of each. `ask_again` sends one more message at the end.
///
/// # Errors
/// When the harness cannot be made.
pub(crate) async fn run(
    spec: ChatCaseSpec,
    graph: Graph<Snapshot>,
    (journal, tape): (CountingJournal, &CaseRecorder),
    ask_again: bool,
    checker: &mut AssertionChecker,
) -> Outcome<ChatCaseResult> {
    let refused = |it: singletree::harness::Error| CaseFailure::build("harness", it.to_string());
    let agent = Agent::new("conformance", &graph);
    let chat = Chat::builder().agent(agent.clone()).open(journal.clone()).map_err(refused)?;
    let reader = Chat::builder().agent(agent).open(journal.inner().clone()).map_err(refused)?;
    let mut room = ChatCaseRunner {
        chat,
        journal,
        reader,
        tape,
        heard: OutcomesByListener::default(),
        listeners: Vec::new(),
        sessions: BTreeMap::new(),
    };
    let mut talked = ChatCaseResult::default();
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

impl ChatCaseRunner<'_> {
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
        let listening =
            listening.map_err(|error| CaseFailure::build("subscribe_listener", error.to_string()))?;
        self.listeners.push(listening);
        Ok(())
    }

    /// Sends the messages of these turns, each without waiting for the turn before, and asserts the expectations of
    /// each when all turns have ended.
    async fn turns(
        &mut self,
        specs: Vec<ChatTurnSpec>,
        checker: &mut AssertionChecker,
    ) -> Outcome<Vec<ChatTurnResult>> {
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
            turned.push(ChatTurnResult { sent, outcome, reel: reel.clone(), before, after, calls, took });
        }
        Ok(turned)
    }

    async fn arrival(&mut self, spec: SignalArrivalSpec, checker: &mut AssertionChecker) -> Outcome<()> {
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
                None => StoredHistory::default(),
            };
            expect(checker, wanted, outcome, &after)?;
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }

    /// Reads a session's history as another process would.
    async fn history(&self, session: &str) -> StoredHistory {
        let entries = self.reader.history(session, 0, HISTORY_MAX).await.unwrap_or_default();
        StoredHistory(
            entries
                .iter()
                .map(|entry| serde_json::to_value(entry.message.as_ref()).unwrap_or_default())
                .collect(),
        )
    }
}
