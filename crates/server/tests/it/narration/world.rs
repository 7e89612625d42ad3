//! A world in which a story is played: everything that could differ is given, and everything that counts is noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use singletree_agent::{ArtifactOrigin, Artifacts};
use singletree_durable::{
    Batch, FieldRow, FieldValue, Journal, RowMutation, SessionHead, SessionId, SessionKey, TenantId,
    Timestamp, WaitRowQuery,
};
use singletree_engine::{Clock, IdGenerator};
use singletree_env::Env;
use singletree_harness::{Answer, Chat, HISTORY, SendOptions, SignalAddress, TurnPromptPolicy};
use singletree_llm::{ChatMessage, canonical_json};
use singletree_test_store::TestStore;

use super::agent::{self, NotedPauses, Parts};
use super::points::{Deed, Pointed, Points};
use super::seen::{self, Record, Seen};
use super::sinks::{Fate, Tap};
use super::story::Step;
use super::teeth::Mutant;

pub(crate) const SESSION: &str = "s";

/// How a story is played.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    pub(crate) policy: TurnPromptPolicy,
    pub(crate) fate: Fate,
    /// The number of a point, and the action there.
    pub(crate) at: Option<(u64, Deed)>,
    /// Which mutant plays it, if one does.
    pub(crate) mutant: fn(super::sinks::Copy) -> Mutant,
    /// Whether the transcript is emptied whenever a process begins.
    pub(crate) empties: bool,
}

impl Play {
    pub(crate) fn of(policy: TurnPromptPolicy) -> Self {
        Self { policy, fate: Fate::held(), at: None, mutant: |_| Mutant::None, empties: false }
    }

    pub(crate) fn at(&self, no: u64, deed: Deed) -> Self {
        Self { at: Some((no, deed)), ..self.clone() }
    }
}

/// The result of a story.
pub(crate) struct Played {
    pub(crate) seen: Vec<Seen>,
    /// How many points there were.
    pub(crate) points: u64,
    /// How often something was narrated.
    pub(crate) said: u64,
}

/// Plays a story to its end.
pub(crate) fn play(steps: &[Step], play: &Play) -> Played {
    let world = World::new(play);
    let mut next = 0;
    while next < steps.len() {
        world.points.begin();
        let mut building = tokio::runtime::Builder::new_current_thread();
        let runtime = building.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            // Whoever dies does so in the middle of whatever is under way.
            tokio::select! {
                biased;
                () = world.points.died() => {}
                () = world.live(steps, &mut next) => {}
            }
        });
        drop(runtime);
    }
    world.played()
}

/// A world.
struct World {
    play: Play,
    points: Arc<Points>,
    record: Record,
    tap: Arc<Tap>,
    parts: Parts,
    store: TestStore,
    clock: Arc<Ticking>,
    ids: Arc<Counting>,
    lives: AtomicU64,
}

impl World {
    fn new(play: &Play) -> Self {
        let (points, record) = (Points::new(play.at), Record::default());
        let tap = Tap::new(points.clone(), play.fate.clone());
        // Not held: the one holds the other already.
        let deleting = Arc::downgrade(&tap);
        points.deleting(move || deleting.upgrade().iter().for_each(|it| it.delete()));
        let mutant = (play.mutant)(tap.copy());
        let (done, failures) = Default::default();
        let parts = Parts { points: points.clone(), record: record.clone(), mutant, done, failures };
        let store = match play.at {
            Some((_, Deed::Die | Deed::DeleteAndDie)) => {
                TestStore::in_memory("it counts the calls of tasks up to a death")
            }
            _ => TestStore::new(),
        };
        let (clock, ids, lives) = Default::default();
        Self { play: play.clone(), points, record, tap, parts, store, clock, ids, lives }
    }

    fn key() -> SessionKey {
        SessionKey::new(TenantId::single(), SessionId::parse(SESSION).unwrap())
    }

    fn played(self) -> Played {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut seen = self.record.all();
        seen.extend(runtime.block_on(seen::rows(&self.store, &Self::key())));
        Played { seen, points: self.points.passed(), said: self.tap.said() }
    }

    /// One process: from where the story is up to the next restart.
    async fn live(&self, steps: &[Step], next: &mut usize) {
        let is_first = self.lives.fetch_add(1, Ordering::SeqCst) == 0;
        let store = if is_first { self.store.clone() } else { self.store.reopen() };
        if self.play.empties && !is_first {
            empty(&store).await;
        }
        let artifacts = Arc::new(Artifacts::new(Arc::new(store.clone()), self.clock.clone()));
        let agent = agent::agent(&self.parts, artifacts.clone());
        let chat = Chat::builder()
            .agent(agent)
            .env(Env { timer: Arc::new(NotedPauses(self.record.clone())), ..Env::from_system() })
            .clock(self.clock.clone())
            .ids(self.ids.clone())
            .narration(self.tap.clone())
            .open(Pointed { store, points: self.points.clone() })
            .unwrap();
        for turn in chat.sweep().await.unwrap() {
            self.record.note(seen::outcome(turn.outcome().await.as_ref()));
        }
        while let Some(step) = steps.get(*next) {
            *next += 1;
            if *step == Step::Restart {
                break;
            }
            self.step(&chat, &artifacts, *step).await;
            self.note_state(&chat).await;
        }
    }

    async fn step(&self, chat: &Chat, artifacts: &Artifacts, step: Step) {
        match step {
            Step::Say(text) => {
                let turn = self.say(chat, text).await;
                self.record.note(turn);
                if self.parts.mutant.hears_yes() {
                    self.decide(chat, true).await;
                }
            }
            Step::Both(one, two) => {
                let (one, two) = tokio::join!(self.say(chat, one), self.say(chat, two));
                self.record.note(one);
                self.record.note(two);
            }
            Step::Decide(approved) => self.decide(chat, approved).await,
            Step::Cancel => {
                let last = chat.session(SESSION).pending().await.unwrap();
                for wait in last {
                    let turn = singletree_harness::TurnId::new(wait.invocation.clone(), 0);
                    let ended = chat.cancel(&turn).await.unwrap();
                    self.record.note(seen::outcome(ended.outcome().await.as_ref()));
                }
            }
            Step::Artifact(key, content) => {
                let (session, name) = (Self::key(), ("note", key));
                let added =
                    artifacts.add_artifact(&session, name, ArtifactOrigin::User, content).await.unwrap();
                artifacts.approve_artifact(&session, &added.name, &added.digest, "ann").await.unwrap();
                self.record.note(Seen::Fact(format!("{added:?}")));
            }
            Step::Restart => {}
        }
    }

    async fn say(&self, chat: &Chat, text: &str) -> Seen {
        let options = SendOptions::new().policy(self.play.policy);
        seen::outcome(&chat.session(SESSION).send_with(ChatMessage::user(text), options).await)
    }

    /// Answers the pending waits, if there are any.
    async fn decide(&self, chat: &Chat, approved: bool) {
        for wait in chat.session(SESSION).pending().await.unwrap() {
            let payload = Map::from_iter([("approved".to_owned(), json!(approved))]);
            let answer = Answer::new(payload).from("ann");
            let answer = answer.to(wait.wait.no, wait.wait.action.clone().unwrap_or_default());
            let (session, signal) = (SESSION.to_owned(), wait.descriptor.signal_id.clone());
            match chat.answer(SignalAddress::Session { session, signal }, answer).await {
                Ok(turn) => self.record.note(seen::outcome(turn.outcome().await.as_ref())),
                Err(refused) => self.record.note(Seen::Fact(refused.category().to_owned())),
            }
        }
    }

    async fn note_state(&self, chat: &Chat) {
        let Ok(export) = chat.session(SESSION).export().await else { return };
        let mut export = serde_json::to_value(export).unwrap();
        let messages = export["lists"][HISTORY].take();
        let [messages, rest] = [messages, export].map(|it: Value| canonical_json(&it));
        self.record.note(Seen::State { messages, rest });
    }
}

/// Empties the transcript of the session, unless a wait is pending: it depends on the transcript.
async fn empty(store: &TestStore) {
    let key = World::key();
    let Some(session) = store.read_session(&key).await.unwrap() else { return };
    if !store.read_waits(&WaitRowQuery::Pending(key.clone())).await.unwrap().is_empty() {
        return;
    }
    let fence = store.acquire(&key).await.unwrap().fence;
    let mut batch = Batch::new(key, fence);
    for field in session.fields.iter().filter(|it| it.name == HISTORY) {
        let FieldValue::List { .. } = field.value else { continue };
        // A list that is rewritten begins its next generation with the version that writes it.
        let value = FieldValue::List { generation: session.head.version + 1, len: 0, bytes: 0 };
        batch.put(RowMutation::Field(FieldRow { name: field.name.clone(), value }));
    }
    batch.put(RowMutation::Head(SessionHead { version: session.head.version + 1, ..session.head }));
    store.apply(batch).await.unwrap();
}

/// A clock that moves with each look at it.
#[derive(Debug, Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Identifiers that count up.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl IdGenerator for Counting {
    fn generate_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}
