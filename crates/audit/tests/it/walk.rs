//! Random operations on a chat over each store, step by step beside the model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use singletree_audit::{AuditedClient, AuditedOutcome, HistoryRecorder, StoredSession, audit_sessions};
use singletree_durable::{Journal, MemoryStore};
use singletree_engine::{Ctx, END, Graph, NodeError, Signal, Target};
use singletree_harness::{
    Chat, Durability, Error, ErroredTurn, ForkOptions, GraphAgent, Result, Turn, TurnContext, TurnId,
    WhileSuspended,
};
use singletree_llm::{ChatMessage, Role, ToolCall};
use singletree_store_sqlite::SqliteStore;

use crate::meet::{PATIENCE, is_deep};
use crate::model::{Expected, Kind, Names, Session, refused};
use crate::ops::{Op, SESSIONS, level, op, policy};
use crate::rig::{HandClock, Talk, TalkUpdate, acted, approve, key_of, says};

/// A graph that behaves as the message's first word asks.
fn obedient() -> Graph<Talk> {
    let asked = |talk: &Talk| {
        let user = talk.messages.iter().rev().find(|it| it.role == Role::User).unwrap();
        Kind::of(&user.text())
    };
    Graph::<Talk>::builder()
        .node("hear", |cx: Ctx<Talk>| async move {
            let text = cx.state().messages.last().unwrap().text().into_owned();
            Ok(match Kind::of(&text) {
                Kind::Plain => says(text),
                kind if kind.calls() => called(),
                _ => says("ask"),
            })
        })
        .node("fall", move |cx: Ctx<Talk>| async move {
            let good = asked(cx.state()) == Kind::Fail;
            let category = if good { "provider_unavailable" } else { "provider_invalid_request" };
            Err(NodeError::new("it fell").with_category(category))
        })
        .node("gate", move |cx: Ctx<Talk>| async move {
            let kind = asked(cx.state());
            let signal = Signal::new("ok");
            let signal =
                if kind.has_deadline() { signal.expires_in(Duration::from_secs(60)) } else { signal };
            let values = kind == Kind::Valued;
            cx.suspend(if values { signal.on_deadline(approve(false)) } else { signal }).await
        })
        .node("act", move |cx: Ctx<Talk>| async move {
            let (kind, said) = (asked(cx.state()), ChatMessage::assistant(acted(cx.state().approved)));
            if kind == Kind::Brittle {
                return Err(NodeError::new("it broke").with_category("provider_unavailable"));
            }
            // Steering messages are taken here, and nowhere else.
            let heard = TurnContext::of(&cx).unwrap().steering().unwrap().take_messages(&cx.state().messages);
            let result = (kind == Kind::Call).then(|| ChatMessage::tool("c1", "ok"));
            let messages = result.into_iter().chain(heard).chain([said]);
            Ok(Talk::update().approved(false).messages(messages))
        })
        .conditional_edge("hear", move |talk: &Talk| match asked(talk) {
            Kind::Plain => Target::from(END),
            Kind::Fail | Kind::Break => "fall".into(),
            Kind::Ask | Kind::Timed | Kind::Valued | Kind::Call | Kind::Brittle => "gate".into(),
        })
        .edge("fall", Target::from(END))
        .edge("gate", "act")
        .edge("act", Target::from(END))
        .entry("hear")
        .compile()
        .unwrap()
}

fn called() -> TalkUpdate {
    let call = ToolCall::new("c1", "send", serde_json::Map::new());
    Talk::update().messages([ChatMessage::assistant("").with_tool_calls([call])])
}

/// A store that the next process can open.
enum Ground {
    Memory(MemoryStore),
    File(tempfile::TempDir, SqliteStore),
}

impl Ground {
    async fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open_file(&folder).await;
        Self::File(folder, store)
    }

    async fn reopen(self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.reopen()),
            Self::File(folder, store) => {
                store.close().await;
                let store = open_file(&folder).await;
                Self::File(folder, store)
            }
        }
    }

    fn journal(&self) -> Arc<dyn Journal> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::File(_, store) => Arc::new(store.clone()),
        }
    }
}

async fn open_file(folder: &tempfile::TempDir) -> SqliteStore {
    let options = SqliteStore::options(folder.path().join("walk.db"));
    options.durability(singletree_store_sqlite::CommitDurability::Normal).open().await.unwrap()
}

/// The chat and the model, side by side.
struct Walk {
    ground: Ground,
    graph: Graph<Talk>,
    clock: Arc<HandClock>,
    log: Arc<HistoryRecorder>,
    policy: WhileSuspended,
    level: Durability,
    client: AuditedClient,
    model: [Session; SESSIONS.len()],
    /// The names of the sessions' turns, by their place in the model.
    ids: [BTreeMap<usize, TurnId>; SESSIONS.len()],
    /// Who waits for a parked turn.
    parked: Vec<tokio::task::JoinHandle<()>>,
    texts: usize,
}

fn open(
    ground: &Ground,
    graph: &Graph<Talk>,
    (policy, level): (WhileSuspended, Durability),
    clock: &Arc<HandClock>,
) -> Chat {
    let agent = GraphAgent::new("a", graph).durability(level).while_suspended(policy);
    let builder = Chat::builder().agent(agent).clock(clock.clone());
    match ground {
        Ground::Memory(store) => builder.open(store.clone()).unwrap(),
        Ground::File(_, store) => builder.open(store.clone()).unwrap(),
    }
}

impl Walk {
    async fn begin(ground: Ground, policy: WhileSuspended, level: Durability) -> Self {
        let (graph, clock, log) = (obedient(), HandClock::new(), Arc::<HistoryRecorder>::default());
        let chat = open(&ground, &graph, (policy, level), &clock);
        chat.sweep().await.unwrap();
        let client = AuditedClient::new(chat, log.clone());
        let (model, ids, parked) = Default::default();
        Self { ground, graph, clock, log, policy, level, client, model, ids, parked, texts: 0 }
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Send { session, kind, key } => self.send(session, kind, key).await,
            Op::Steer { session, kind } => self.steer(session, kind).await,
            Op::Answer { session, approved, names } => self.answer(session, approved, names).await,
            Op::Cancel { session, back } => self.cancel(session, back).await,
            Op::DeadlinesPass => self.deadlines_pass().await,
            Op::Delete { session } => {
                self.client.delete_session(SESSIONS[session]).await.unwrap();
                self.model[session].delete();
                self.ids[session].clear();
            }
            Op::Restart { policy, level } => self.restart(policy, level).await,
            Op::Copy { from, to } => self.copy(from, to).await,
            Op::Fork { from, to, at } => self.fork(from, to, at).await,
            Op::Edit { from, to, at, kind } => self.edit(from, to, at, kind).await,
            Op::Regenerate { from, to, reply } => self.regenerate(from, to, reply).await,
        }
        self.compare().await;
    }

    async fn send(&mut self, session: usize, kind: Kind, key: Option<(u8, bool)>) {
        self.texts += 1;
        // The same key comes with the same text again, or with another.
        let (text, key) = match key {
            Some((key, other)) => (format!("{} k{key}{other}", kind.word()), Some(format!("k{key}"))),
            None => (format!("{} {}", kind.word(), self.texts), None),
        };
        let expected = self.model[session].send(&text, key.as_deref(), self.policy);
        let sent = self.client.submit_message(SESSIONS[session], &text, key.as_deref()).await;
        self.sent(session, expected, sent).await;
    }

    async fn steer(&mut self, session: usize, kind: Kind) {
        self.texts += 1;
        let text = format!("{} {}", kind.word(), self.texts);
        let expected = self.model[session].steer(&text, self.policy);
        let sent = self.client.send_steering_message(SESSIONS[session], &text).await;
        self.sent(session, expected, sent).await;
    }

    /// Compares how a message was accepted, and how its turn ends unless it is parked.
    async fn sent(
        &mut self,
        session: usize,
        expected: Expected,
        (call, sent): (u64, Result<Turn, Box<ErroredTurn>>),
    ) {
        match sent {
            Err(errored) => assert_eq!((None, Some(errored.as_ref().into())), (expected.turn, expected.end)),
            Ok(turn) if expected.end.is_none() => {
                self.named(session, expected.turn.unwrap(), turn.id());
                let client = self.client.clone();
                self.parked.push(tokio::spawn(async move { drop(client.await_outcome(call, &turn).await) }));
            }
            Ok(turn) => {
                let told = self.client.await_outcome(call, &turn).await;
                self.told(session, expected, (turn.id().clone(), told.as_ref().into()));
            }
        }
    }

    async fn answer(&mut self, session: usize, approved: bool, names: Names) {
        let no = self.model[session].addressed();
        let expected = self.model[session].answer(approved, names, self.policy);
        let to = match names {
            Names::Nothing => None,
            Names::TheWait => Some((no, "")),
            Names::Another => Some((no + 1, "")),
        };
        let (call, answered) =
            self.client.answer_signal((SESSIONS[session], "ok"), approve(approved), to).await;
        match answered {
            Err(errored) => assert_eq!((None, Some(errored.as_ref().into())), (expected.turn, expected.end)),
            Ok(turn) => {
                let told = self.client.await_outcome(call, &turn).await;
                self.told(session, expected, (turn.id().clone(), told.as_ref().into()));
            }
        }
    }

    async fn cancel(&mut self, session: usize, back: usize) {
        let turns = self.model[session].turns.len();
        let Some(at) = turns.checked_sub(back + 1) else { return };
        let id = self.id(session, at);
        let expected = self.model[session].cancel(at, self.policy);
        let (id, outcome) = self.client.cancel_turn(SESSIONS[session], &id).await.unwrap();
        self.told(session, expected, (id, outcome.as_ref().into()));
    }

    async fn deadlines_pass(&mut self) {
        self.clock.advance(60_001);
        // A wait with a deadline that begins makes the chat look at the clock.
        self.texts += 1;
        self.client
            .chat()
            .session(format!("bell-{}", self.texts))
            .send(ChatMessage::user("timed bell"))
            .await;
        for session in &mut self.model {
            session.expire(self.policy);
        }
    }

    async fn restart(&mut self, policy: WhileSuspended, level: Durability) {
        assert!(self.client.chat().shutdown(PATIENCE).await, "something runs still");
        for waiter in self.parked.drain(..) {
            waiter.await.unwrap();
        }
        let ground = std::mem::replace(&mut self.ground, Ground::Memory(MemoryStore::new()));
        self.ground = ground.reopen().await;
        (self.policy, self.level) = (policy, level);
        let chat = open(&self.ground, &self.graph, (policy, level), &self.clock);
        chat.sweep().await.unwrap();
        self.client = AuditedClient::new(chat, self.log.clone());
        for session in &mut self.model {
            session.restart(policy);
        }
    }

    async fn copy(&mut self, from: usize, to: usize) {
        let copied = self.try_copy(from, to).await.map_err(|it| it.category().to_owned());
        let expected = match (self.model[from].exists, self.model[to].exists) {
            (false, _) => Err("chat_session_unknown".to_owned()),
            (true, true) => Err("chat_session_exists".to_owned()),
            (true, false) => Ok(()),
        };
        assert_eq!(copied, expected);
        if copied.is_ok() {
            let source = self.model[from].clone();
            self.model[to].import(&source);
        }
    }

    async fn try_copy(&self, from: usize, to: usize) -> Result<(), Error> {
        let export = self.client.chat().session(SESSIONS[from]).export().await?;
        self.client.chat().import_session(export, Some(SESSIONS[to])).await
    }

    /// Returns the result of a branch from a session's history to another session: its error, or the place.
    fn place(&self, from: usize, to: usize, found: Option<usize>) -> Result<usize, &'static str> {
        if !self.model[from].exists {
            return Err("chat_session_unknown");
        }
        let place = found.ok_or("chat_message_unknown")?;
        if self.model[to].exists { Err("chat_session_exists") } else { Ok(place) }
    }

    /// Takes a drawn number for a place of a history, or the one after its end.
    fn drawn(&self, from: usize, at: usize) -> usize {
        at % (self.model[from].history.len() + 2)
    }

    async fn fork(&mut self, from: usize, to: usize, at: Option<usize>) {
        let at = at.map(|it| self.drawn(from, it));
        let len = self.model[from].history.len();
        let expected = self.place(from, to, Some(at.unwrap_or(len)).filter(|it| *it <= len));
        let options = ForkOptions::new().session(SESSIONS[to]);
        let options = at.into_iter().fold(options, |it, at| it.at(at as u64));
        let forked = self.client.chat().session(SESSIONS[from]).fork(options).await;
        let told = match forked {
            Ok(fork) => Ok(fork.info().await.unwrap().messages),
            Err(error) => Err(error.category().to_owned()),
        };
        let expected = expected.map_err(str::to_owned).map(|place| {
            let source = self.model[from].clone();
            self.model[to].fork(&source, place);
            self.model[to].history.len() as u64
        });
        assert_eq!(told, expected);
    }

    async fn edit(&mut self, from: usize, to: usize, at: usize, kind: Kind) {
        self.texts += 1;
        let text = format!("{} {}", kind.word(), self.texts);
        let at = self.drawn(from, at);
        let asked = self.model[from].asked_before(at + 1).filter(|(place, _)| *place == at);
        let place = self.place(from, to, asked.map(|(place, _)| place));
        let expected = self.branch((from, to), place, &text);
        let sent = self.client.edit_message(SESSIONS[from], at as u64, (SESSIONS[to], &text)).await;
        self.sent(to, expected, sent).await;
    }

    async fn regenerate(&mut self, from: usize, to: usize, reply: Option<usize>) {
        let reply = reply.map(|it| self.drawn(from, it));
        let len = self.model[from].history.len();
        let past = reply.map_or(Some(len), |it| (it < len).then_some(it + 1));
        let asked = past.and_then(|it| self.model[from].asked_before(it));
        let text = asked.map_or_else(String::new, |(_, text)| text.to_owned());
        let place = self.place(from, to, asked.map(|(place, _)| place));
        let expected = self.branch((from, to), place, &text);
        let reply = reply.map(|it| it as u64);
        let sent = self.client.regenerate_reply(SESSIONS[from], reply, (SESSIONS[to], &text)).await;
        self.sent(to, expected, sent).await;
    }

    /// Lets the model fork, and send a message there.
    fn branch(
        &mut self,
        (from, to): (usize, usize),
        place: Result<usize, &'static str>,
        text: &str,
    ) -> Expected {
        match place {
            Err(category) => refused(category),
            Ok(place) => {
                let source = self.model[from].clone();
                self.model[to].fork(&source, place);
                self.model[to].send(text, None, self.policy)
            }
        }
    }

    fn named(&mut self, session: usize, at: usize, id: &TurnId) {
        let known = self.ids[session].entry(at).or_insert_with(|| id.clone());
        assert_eq!(known, id);
    }

    fn told(&mut self, session: usize, expected: Expected, (id, end): (TurnId, AuditedOutcome)) {
        let at = expected.turn.unwrap_or_else(|| panic!("{id} was told as {end}, instead of {expected:?}"));
        self.named(session, at, &id);
        assert_eq!(Some(end), expected.end);
    }

    /// Returns the name of a turn; that of a resuming one follows from its invocation.
    fn id(&self, session: usize, at: usize) -> TurnId {
        let turn = &self.model[session].turns[at];
        TurnId::new(self.ids[session][&turn.root].invocation.clone(), turn.ordinal)
    }

    /// Compares the stored data with the model.
    async fn compare(&self) {
        let chat = self.client.chat();
        for (at, model) in self.model.iter().enumerate() {
            for (place, turn) in model.turns.iter().enumerate() {
                let Some(end) = &turn.end else { continue };
                let id = self.id(at, place);
                // A turn that was parked, or waited for its deadline, ends in the background.
                let turn = loop {
                    match chat.turn(&id).await {
                        Ok(turn) => break turn,
                        Err(Error::TurnUnknown { .. }) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                };
                assert_eq!(
                    &AuditedOutcome::from(turn.outcome().await.as_ref()),
                    end,
                    "{id} in {}",
                    SESSIONS[at]
                );
            }
            let history = chat.session(SESSIONS[at]).history(0..1_000).await;
            let history = history.map(|it| {
                it.iter().map(|it| AuditedOutcome::summarize_message(&it.message)).collect::<Vec<_>>()
            });
            assert_eq!(history.is_ok(), model.exists, "{}", SESSIONS[at]);
            assert_eq!(history.unwrap_or_default(), model.history, "{}", SESSIONS[at]);
            let pending = chat.session(SESSIONS[at]).pending().await.unwrap();
            let pending: Vec<u64> = pending.iter().map(|it| it.wait.no).collect();
            let expected = model.waiting_for().map(|_| model.addressed());
            assert_eq!(pending, Vec::from_iter(expected), "{}", SESSIONS[at]);
        }
    }

    /// Lets the auditor look at everything.
    async fn end(mut self) {
        let chat = self.client.chat().clone();
        assert!(chat.shutdown(PATIENCE).await, "something runs still");
        for waiter in self.parked.drain(..) {
            waiter.await.unwrap();
        }
        let mut stored = Vec::new();
        for session in SESSIONS {
            let journal = self.ground.journal();
            stored.push(
                StoredSession::read_from_store(&chat, journal.as_ref(), &key_of(session)).await.unwrap(),
            );
        }
        let report = audit_sessions(&self.log.records(), &stored);
        assert!(report.is_clean(), "{report}");
    }
}

fn walk(ground: impl Future<Output = Ground>, (policy, level): (WhileSuspended, Durability), ops: Vec<Op>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut walk = Walk::begin(ground.await, policy, level).await;
        for op in ops {
            let said = format!("{op:?}");
            let stepped = tokio::time::timeout(PATIENCE, walk.step(op)).await;
            stepped.unwrap_or_else(|_| panic!("stuck at {said}"));
        }
        walk.end().await;
    });
}

fn config(cases: u32) -> ProptestConfig {
    let cases = if is_deep() { cases * 20 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config(60))]

    // INV-1, INV-2, INV-6, INV-7, INV-8
    #[test]
    fn a_chat_over_memory_does_what_the_model_does(
        how in (policy(), level()), ops in proptest::collection::vec(op(), 1..40),
    ) {
        walk(async { Ground::Memory(MemoryStore::new()) }, how, ops);
    }
}

proptest! {
    #![proptest_config(config(20))]

    // INV-1, INV-2, INV-6, INV-7, INV-8, INV-13
    #[test]
    fn a_chat_over_a_file_does_what_the_model_does(
        how in (policy(), level()), ops in proptest::collection::vec(op(), 1..40),
    ) {
        walk(Ground::file(), how, ops);
    }
}

// INV-1, INV-2: random operations seldom reach this case.
#[test]
fn what_steers_behind_a_wait_is_taken_by_the_turn_that_goes_on() {
    let steer = |kind| Op::Steer { session: 0, kind };
    let send = |kind| Op::Send { session: 0, kind, key: None };
    for level in [Durability::Turn, Durability::Step] {
        for kind in [Kind::Ask, Kind::Call, Kind::Brittle] {
            let answer = Op::Answer { session: 0, approved: true, names: Names::TheWait };
            let sent = [send(kind), steer(Kind::Ask), steer(Kind::Plain), send(Kind::Plain)];
            let ops = sent.into_iter().chain([steer(Kind::Fail), answer]).collect();
            walk(async { Ground::Memory(MemoryStore::new()) }, (WhileSuspended::Queue, level), ops);
        }
    }
}
