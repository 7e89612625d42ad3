//! Shared code of the races and the model: a state, graphs of a few words, a clock that is set by hand, seeded
//! numbers.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_audit::{HistoryEvent, HistoryRecorder};
use singletree_durable::{SessionId, SessionKey, TenantId, Timestamp};
use singletree_engine::{Clock, Ctx, END, Graph, GraphBuilder, IdGenerator, RandomIds, Signal, Target};
use singletree_harness::Messages;
use singletree_llm::ChatMessage;
use singletree_macros::State;

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub(crate) struct Talk {
    #[state(append)]
    pub(crate) messages: Messages,
    pub(crate) approved: bool,
}

pub(crate) fn says(text: impl Into<String>) -> TalkUpdate {
    Talk::update().messages([ChatMessage::assistant(text.into())])
}

/// Compiles a chain of nodes.
pub(crate) fn chain(mut builder: GraphBuilder<Talk>, names: &[&str]) -> Graph<Talk> {
    for pair in names.windows(2) {
        builder = builder.edge(pair[0], pair[1]);
    }
    builder.edge(names[names.len() - 1], Target::from(END)).entry(names[0]).compile().unwrap()
}

/// A graph that answers with the message that it was sent.
pub(crate) fn echo() -> Graph<Talk> {
    let builder = Graph::builder()
        .node("echo", |cx: Ctx<Talk>| async move { Ok(says(cx.state().messages.last().unwrap().text())) });
    chain(builder, &["echo"])
}

/// A graph that asks, waits, and has its effect when it is approved.
pub(crate) fn asking(signal: Signal, effects: Effects) -> Graph<Talk> {
    let builder =
        Graph::builder()
            .node("ask", |_: Ctx<Talk>| async { Ok(says("ask")) })
            .node("gate", move |cx: Ctx<Talk>| {
                let signal = signal.clone();
                async move { cx.suspend(signal).await }
            })
            .node("act", move |cx: Ctx<Talk>| {
                let approved = cx.state().approved;
                if approved {
                    effects.happen();
                }
                async move {
                    Ok(Talk::update().approved(false).messages([ChatMessage::assistant(acted(approved))]))
                }
            });
    chain(builder, &["ask", "gate", "act"])
}

pub(crate) fn acted(approved: bool) -> &'static str {
    if approved { "done" } else { "not done" }
}

/// The outside world: its effects, in the log of a session.
#[derive(Debug, Clone)]
pub(crate) struct Effects {
    pub(crate) log: Arc<HistoryRecorder>,
    pub(crate) session: String,
}

impl Effects {
    pub(crate) fn happen(&self) {
        self.log.record_event(&self.session, HistoryEvent::Effect { key: "act".into() });
    }

    pub(crate) fn count(&self) -> usize {
        self.log.records().iter().filter(|it| matches!(it.what, HistoryEvent::Effect { .. })).count()
    }
}

pub(crate) fn approve(approved: bool) -> Map<String, Value> {
    Map::from_iter([("approved".to_owned(), json!(approved))])
}

pub(crate) fn key_of(session: &str) -> SessionKey {
    SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_000_000)))
    }

    pub(crate) fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

tokio::task_local! {
    /// Which contender of a race calls.
    pub(crate) static WHO: usize;
}

/// Identifiers that remember for which contender they were made.
#[derive(Debug, Default)]
pub(crate) struct MarkedIds(Mutex<Vec<(String, usize)>>);

impl MarkedIds {
    /// Tells for whom an identifier was made.
    pub(crate) fn maker(&self, id: &str) -> Option<usize> {
        self.0.lock().unwrap().iter().find(|(it, _)| it == id).map(|(_, who)| *who)
    }
}

impl IdGenerator for MarkedIds {
    fn generate_uuid(&self) -> String {
        let id = RandomIds.generate_uuid();
        if let Ok(who) = WHO.try_with(|it| *it) {
            self.0.lock().unwrap().push((id.clone(), who));
        }
        id
    }
}

/// Seeded numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}
