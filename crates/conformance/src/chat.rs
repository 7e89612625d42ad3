//! `chat_turns:` and `signal_arrivals:` (the harness-chat suite): the chat harness, over a journal in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Snapshot;
use singletree::harness::{Answer, Chat, ChatTurnOutcome, OutcomeSubscription, SignalAddress};
use singletree::llm::ChatMessage;
use singletree::{Graph, GraphAgent};
use tokio::time::Instant;

use crate::adapt;
use crate::chat_expect::{StoredHistory, check_turn_outcome};
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::journal::CountingJournal;
use crate::schema::parse_literals;
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
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut harness = block.take_required("harness")?.into_map_reader()?;
        let mode = harness.take_required("mode")?;
        if mode.as_text()? != "sessioned" {
            return Err(CaseFailure::reader_error(&mode.path, "a chat harness has sessions"));
        }
        adapt::take_signal_coordinator(&mut harness)?;
        harness.reject_remaining_keys()?;
        let turns = block
            .take_required("chat_turns")?
            .into_items()?
            .into_iter()
            .map(parse_chat_turn)
            .collect::<Outcome<Vec<_>>>()?;
        if turns.first().is_some_and(|turns| turns.with_previous) {
            return Err(CaseFailure::reader_error("chat_turns[0]", "there is no turn before the first"));
        }
        let arrivals = match block.take_value("signal_arrivals") {
            Some(list) => list.into_items()?.into_iter().map(parse_signal_arrival).collect::<Outcome<_>>()?,
            None => Vec::new(),
        };
        Ok(Self { turns, arrivals })
    }
}

fn parse_chat_turn(spot: LocatedNode) -> Outcome<ChatTurnSpec> {
    let mut block = spot.into_map_reader()?;
    block.take_text("name")?;
    let turn = ChatTurnSpec {
        session: block.take_required("session_id")?.as_text()?.to_owned(),
        message: block.take_required("user_message")?,
        listener: block.take_text("subscribe_listener")?,
        with_previous: block
            .take_value("dev.singletree.with_previous")
            .map(|value| value.as_bool())
            .transpose()?
            .unwrap_or(false),
        expected: block.take_required("expected")?,
    };
    block.reject_remaining_keys()?;
    Ok(turn)
}

fn parse_signal_arrival(spot: LocatedNode) -> Outcome<SignalArrivalSpec> {
    let mut block = spot.into_map_reader()?;
    let arrival = SignalArrivalSpec {
        signal: block.take_required("signal_id")?.as_text()?.to_owned(),
        payload: parse_literals(block.take_required("signal_payload")?)?,
        expected: block.take_required("expected_listener_callback")?,
    };
    block.reject_remaining_keys()?;
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
pub(crate) async fn run_chat_case(
    spec: ChatCaseSpec,
    graph: Graph<Snapshot>,
    (journal, tape): (CountingJournal, &CaseRecorder),
    ask_again: bool,
    checker: &mut AssertionChecker,
) -> Outcome<ChatCaseResult> {
    let refused = |it: singletree::harness::Error| CaseFailure::build_error("harness", it.to_string());
    let agent = GraphAgent::new("conformance", &graph);
    let chat = Chat::builder().agent(agent.clone()).open(journal.clone()).map_err(refused)?;
    let reader = Chat::builder().agent(agent).open(journal.inner_store().clone()).map_err(refused)?;
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
        talked.turns.extend(room.run_turns(together, checker).await?);
    }
    for arrival in spec.arrivals {
        room.deliver_signal(arrival, checker).await?;
        talked.arrivals += 1;
    }
    if let (true, Some(session)) = (ask_again, last) {
        let outcome = room.chat.session(&session).send(ChatMessage::user("And now?")).await;
        talked.next = Some(Arc::new(outcome));
    }
    talked.heard.clone_from(&room.heard.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(talked)
}

impl ChatCaseRunner<'_> {
    fn subscribe_listener(&mut self, name: String, session: &str) -> Outcome<()> {
        let heard = self.heard.clone();
        heard.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default();
        self.sessions.insert(name.clone(), session.to_owned());
        let listening = self.chat.session(session).subscribe(move |outcome| {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(name.clone())
                .or_default()
                .push(outcome);
        });
        let listening =
            listening.map_err(|error| CaseFailure::build_error("subscribe_listener", error.to_string()))?;
        self.listeners.push(listening);
        Ok(())
    }

    /// Sends the messages of these turns, each without waiting for the turn before, and asserts the expectations of
    /// each when all turns have ended.
    async fn run_turns(
        &mut self,
        specs: Vec<ChatTurnSpec>,
        checker: &mut AssertionChecker,
    ) -> Outcome<Vec<ChatTurnResult>> {
        let mut sends = Vec::new();
        let mut befores = Vec::new();
        for spec in &specs {
            if let Some(name) = &spec.listener {
                self.subscribe_listener(name.clone(), &spec.session)?;
            }
            sends.push((&spec.session, adapt::parse_chat_message(&spec.message)?));
            befores.push(self.load_history(&spec.session).await);
        }
        let (calls, began) = (self.journal.session_call_count(), Instant::now());
        let chat = &self.chat;
        let sends = sends.into_iter().map(|(session, message)| async move {
            let outcome = chat.session(session).send(message).await;
            (Arc::new(outcome), began.elapsed())
        });
        let ended = futures_util::future::join_all(sends).await;
        let (calls, reel) = (self.journal.session_call_count() - calls, self.tape.take_recording());
        let mut turned = Vec::new();
        for ((spec, before), (outcome, took)) in specs.into_iter().zip(befores).zip(ended) {
            let after = self.load_history(&spec.session).await;
            let mut wanted = spec.expected.into_map_reader()?;
            if let Some(it) = wanted.take_value("dev.singletree.took_ms") {
                checker.check_exact(&it, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            }
            let checked = check_turn_outcome(checker, wanted, &outcome, &after);
            checker.unwrap_or_record(checked);
            let sent = spec.message.node.to_json();
            turned.push(ChatTurnResult { sent, outcome, reel: reel.clone(), before, after, calls, took });
        }
        Ok(turned)
    }

    async fn deliver_signal(
        &mut self,
        spec: SignalArrivalSpec,
        checker: &mut AssertionChecker,
    ) -> Outcome<()> {
        let path = spec.expected.path.clone();
        let before = self.listener_call_count();
        let answer = Answer::new(spec.payload);
        match self.chat.answer(SignalAddress::Signal(spec.signal), answer).await {
            Ok(turn) => drop(turn.outcome().await),
            Err(errored) => {
                checker.check_result(&path, Err(format!("the signal was refused: {}", errored.category())));
                return Ok(());
            }
        }
        let mut wanted = spec.expected.into_map_reader()?;
        let listener = wanted.take_required("listener")?;
        let name = listener.as_text()?.to_owned();
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let calls = heard.get(&name);
        checker
            .check_result(&listener.path, ensure(calls.is_some(), || format!("nobody listens as '{name}'")));
        let told = self.listener_call_count() - before;
        checker.check_result(&path, ensure(told == 1, || format!("listeners were called {told} times")));
        if let Some(outcome) = calls.and_then(|it| it.last()) {
            let after = match self.sessions.get(&name) {
                Some(session) => self.load_history(session).await,
                None => StoredHistory::default(),
            };
            check_turn_outcome(checker, wanted, outcome, &after)?;
        }
        Ok(())
    }

    fn listener_call_count(&self) -> usize {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }

    /// Reads a session's history as another process would.
    async fn load_history(&self, session: &str) -> StoredHistory {
        let entries = self.reader.session(session).history(0..HISTORY_MAX).await.unwrap_or_default();
        StoredHistory(
            entries
                .iter()
                .map(|entry| serde_json::to_value(entry.message.as_ref()).unwrap_or_default())
                .collect(),
        )
    }
}
