//! Callers that go away: the future of every public call of `Chat` is dropped after its n-th poll, for every n until it
//! completes, in sessions in which nothing, a turn, a wait or a dead process's work is found. Afterwards the session
//! works, nothing that was accepted is lost, and whoever waits is told.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    BlobReference, Blobs, Chat, ChatTurnOutcome, CreateOptions, Durability, ErasureScope, ExportedSession,
    ForkOptions, MessageAddress, Retention, SendOptions, Turn, TurnId, WhileSuspended,
};
use singletree_test_store::TestStore;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::bench::{Talk, agent, approve, at, category, chain, check_rows, line, says, user};
use crate::blobs::PNG;
use crate::doctor::sound;
use crate::slow_store::{SlowStore, poll_and_drop};

/// More polls than any call needs.
const MOST: usize = 1000;
/// More polls than a message needs to be parked behind a wait, where its sender waits until somebody answers.
const PARKED: usize = 30;
/// Why these tests do not run over another store.
const MANY: &str = "each poll of each call needs a store of its own";
const LONG: Duration = Duration::from_secs(3600);

/// The activity in the session when the call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// A turn has ended, and nothing else was sent.
    Idle,
    /// A turn runs and two wait.
    Busy,
    /// The session waits for a signal, and a message waits behind that.
    Waiting,
    /// A process died while it was busy; nobody has looked at the session since.
    Left,
}

const SCENES: [Scene; 4] = [Scene::Idle, Scene::Busy, Scene::Waiting, Scene::Left];

/// A chat with such a session, `s`.
struct World {
    scene: Scene,
    store: TestStore,
    chat: Chat,
    /// The turns of the session that have not ended.
    turns: Vec<Turn>,
    ids: Vec<TurnId>,
    blob: BlobReference,
    export: ExportedSession,
}

/// Takes a while to answer, and asks first where it is told to.
fn graph() -> Graph<Talk> {
    let builder = Graph::builder();
    let builder = builder.node("gate", |cx: Ctx<Talk>| async move {
        let asks = cx.state().messages.last().is_some_and(|it| it.text() == "ask");
        if asks { cx.suspend(Signal::new("ok")).await } else { Ok(Talk::update()) }
    });
    let builder = builder.node("say", |_: Ctx<Talk>| async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        Ok(says("hello"))
    });
    chain(builder, &["gate", "say"])
}

fn open(store: &TestStore) -> Chat {
    let agent =
        agent(&graph(), Durability::Step).while_suspended(WhileSuspended::Queue).early_signals(["soon"]);
    let builder = Chat::builder().agent(agent).blobs(Blobs::new(store.clone()));
    builder.open(SlowStore::over(store.clone())).unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

impl World {
    async fn new(scene: Scene, store: TestStore) -> Self {
        let chat = open(&store);
        chat.session("s").send(user("first")).await;
        let blob = chat.session("s").keep_blob(PNG.to_vec(), None).await.unwrap();
        let export = chat.session("s").export().await.unwrap();
        let mut turns = Vec::new();
        let said: &[&str] = match scene {
            Scene::Idle => &[],
            Scene::Busy | Scene::Left => &["m", "n", "o"],
            Scene::Waiting => &["ask", "n"],
        };
        for text in said {
            turns.push(chat.session("s").submit(user(text), SendOptions::new()).await.unwrap());
        }
        if scene == Scene::Waiting {
            turns[0].outcome().await;
        }
        let ids = chat.session("s").last_turns(3).await.unwrap();
        Self { scene, store, chat, turns, ids, blob, export }
    }

    /// Makes the world in a process of its own, which dies.
    fn after_a_death(store: TestStore) -> (Self, Runtime) {
        let process = runtime();
        let before = process.block_on(Self::new(Scene::Left, store));
        drop(process);
        let store = before.store.reopen();
        let next = runtime();
        let chat = next.block_on(async { open(&store) });
        (Self { store, chat, turns: Vec::new(), ..before }, next)
    }

    fn newest(&self) -> &TurnId {
        self.ids.last().unwrap()
    }

    fn oldest(&self) -> &TurnId {
        self.ids.first().unwrap()
    }

    /// The session takes another message, and everything that was accepted ends.
    async fn goes_on(self, what: &str) {
        let chat = if category(&self.chat.session("other").send(user("m")).await) == "chat_shutting_down" {
            open(&self.store.reopen())
        } else {
            self.chat.clone()
        };
        chat.sweep().await.unwrap();
        answer_all(&chat).await;
        for session in ["s", "t"] {
            let send = async || {
                let sent = timeout(LONG, chat.session(session).send(user("after"))).await;
                sent.unwrap_or_else(|_| panic!("{what}: session {session} is stuck"))
            };
            let mut outcome = send().await;
            let deletes = what.starts_with("delete,") || what.starts_with("erase");
            if deletes && category(&outcome) == "chat_turn_cancelled" {
                // The deletion went on, and has found this message before it took place.
                outcome = send().await;
            }
            assert!(
                matches!(outcome, ChatTurnOutcome::Completed(_)),
                "{what}: {session}: {}",
                line(&outcome)
            );
            check_rows(&self.store, session).await;
        }
        for turn in &self.turns {
            let told = timeout(LONG, turn.outcome()).await;
            assert!(told.is_ok(), "{what}: who waits for {} is not told", turn.id());
        }
        sound(&self.store).await;
    }
}

/// Ends the wait of the session, if it has one.
async fn answer_all(chat: &Chat) {
    while !chat.session("s").pending().await.unwrap().is_empty() {
        // It may be answered already, by the call that was dropped.
        let answered = timeout(LONG, chat.answer(at("s", "ok"), approve(true))).await;
        drop(answered.expect("an answer is told what became of it"));
    }
}

type Call = for<'a> fn(&'a World) -> futures_util::future::BoxFuture<'a, ()>;

macro_rules! calls {
    ($($name:literal: |$world:ident| $call:expr;)*) => {
        &[$(($name, |$world| Box::pin(async move { let _done = $call.await; }))),*]
    };
}

/// Every public call, by name; some more than once. A call that takes something off a queue names that thing.
const CALLS: &[(&str, Call)] = calls! {
    "send": |it| it.chat.session("s").send(user("x"));
    "send_with": |it| it.chat.session("s").send_with(user("x"), SendOptions::new().key("k"));
    "stream": |it| async {
        let events = it.chat.session("s").stream(user("x")).await;
        if let Ok(events) = events {
            Box::pin(events).next().await;
        }
    };
    "send_catching_up": |it| it.chat.session("s").send_catching_up(user("x"), SendOptions::new());
    "submit": |it| it.chat.session("s").submit(user("x"), SendOptions::new().key("k").listen());
    "submit": |it| it.chat.session("t").submit(user("x"), SendOptions::new());
    "steer": |it| it.chat.session("s").steer(user("x"), SendOptions::new());
    "acquire": |it| it.chat.session("s").acquire();
    "sweep": |it| it.chat.sweep();
    "shutdown": |it| it.chat.shutdown(LONG);
    "answer": |it| it.chat.answer(at("s", "ok"), approve(true));
    "signal": |it| it.chat.signal(at("s", "ok"), approve(true));
    "signal": |it| it.chat.signal(at("s", "soon"), approve(true));
    "cancel": |it| it.chat.cancel(it.newest());
    "cancel": |it| it.chat.cancel(it.oldest());
    "cancel": |it| it.chat.cancel(&it.ids[it.ids.len() / 2]);
    "delete": |it| it.chat.session("s").delete(Some("ann"));
    "erase": |it| it.chat.erase(&ErasureScope::Tenant, Some("ann"));
    "erasable_sessions": |it| it.chat.erasable_sessions(&ErasureScope::Tenant);
    "pending": |it| it.chat.session("s").pending();
    "approve": |it| async {
        for wait in it.chat.session("s").pending().await.unwrap_or_default() {
            drop(wait.approve().await);
        }
    };
    "reject": |it| async {
        for wait in it.chat.session("s").pending().await.unwrap_or_default() {
            drop(wait.reject("no").await);
        }
    };
    "respond": |it| async {
        for wait in it.chat.session("s").pending().await.unwrap_or_default() {
            drop(wait.respond(approve(true)).await);
        }
    };
    "keep_blob": |it| it.chat.session("s").keep_blob(b"GIF89a\x01\0\x01\0 more".to_vec(), None);
    "keep_blob": |it| it.chat.session("t").keep_blob(PNG.to_vec(), None);
    "blob": |it| it.chat.session("s").blob(&it.blob.digest);
    "blob_info": |it| it.chat.session("s").blob_info(&it.blob.digest);
    "remove_unclaimed": |it| it.chat.remove_unclaimed();
    "edit": |it| it.chat.session("s").edit(0, user("y"));
    "edit_into": |it| it.chat.session("s").edit_into("t", 0, user("y"));
    "regenerate": |it| it.chat.session("s").regenerate(Some(MessageAddress::Place(1)));
    "regenerate_into": |it| it.chat.session("s").regenerate_into("t", Some(MessageAddress::Place(1)));
    "fork": |it| it.chat.session("s").fork(ForkOptions::new().session("t"));
    "create_session": |it| it.chat.create_session(CreateOptions::new().session("t"));
    "import_session": |it| it.chat.import_session(it.export.clone(), Some("t"));
    "export": |it| it.chat.session("s").export();
    "retain": |it| async {
        let retention = Retention { turns: Some(1), events: Some(1), ..Retention::default() };
        it.chat.retain(&retention).await
    };
    "tenant_events": |it| it.chat.tenant_events(None);
    "tenants": |it| it.chat.tenants(None, 9);
    "turn_trace": |it| it.chat.turn_trace(it.newest());
    "unsent_traces": |it| it.chat.unsent_traces(&[]);
    "timeline": |it| it.chat.timeline(it.newest());
    "last_turns": |it| it.chat.session("s").last_turns(9);
    "mailbox": |it| it.chat.session("s").mailbox();
    "deadlines": |it| it.chat.deadlines(None, 9);
    "sessions": |it| it.chat.sessions(None, 9);
    "recent_sessions": |it| it.chat.recent_sessions(None, 9);
    "info": |it| it.chat.session("s").info();
    "history": |it| it.chat.session("s").history(0..9);
    "value": |it| it.chat.session("s").value("count");
    "stream": |it| async {
        let events = it.chat.session("s").events().stream().await;
        if let Ok(events) = events {
            drop(Box::pin(events).take(3).collect::<Vec<_>>().await);
        }
    };
    "resumed": |it| it.chat.session("s").resumed(None);
    "transcript": |it| it.chat.session("s").transcript(0, 9);
    "newest_messages": |it| it.chat.session("s").newest_messages(9);
    "messages_before": |it| it.chat.session("s").messages_before(2, 9);
    "retry": |it| it.chat.retry(it.newest(), SendOptions::new().key("r"));
    "failed_turns": |it| it.chat.session("s").failed_turns(0..9, 9);
    "turn": |it| it.chat.turn(it.newest());
    "turns": |it| it.chat.session("s").turns(0, 9);
    "open_turns": |it| it.chat.session("s").open_turns();
    "newest_turn": |it| it.chat.session("s").newest_turn();
    "turn_info": |it| it.chat.session("s").turn_info(it.newest());
    "usage": |it| it.chat.session("s").usage();
    "usage_of_tenant": |it| it.chat.usage_of_tenant();
};

/// Makes the call, drops it after so many polls, and checks the rest. Tells whether the call completed.
fn drop_after(polls: usize, scene: Scene, (name, call): (&str, Call)) -> bool {
    let store = TestStore::in_memory(MANY);
    let (world, process) = if scene == Scene::Left {
        World::after_a_death(store)
    } else {
        let process = runtime();
        (process.block_on(World::new(scene, store)), process)
    };
    process.block_on(async {
        let completed = poll_and_drop(call(&world), polls).await;
        assert_eq!(world.scene, scene);
        world.goes_on(&format!("{name}, {scene:?}, {polls} polls")).await;
        completed
    })
}

fn sweep_calls(scene: Scene) {
    for call in CALLS {
        let is_parked = scene == Scene::Waiting && call.0.starts_with("send");
        let most = if is_parked { PARKED } else { MOST };
        let completed = (0..most).position(|polls| drop_after(polls, scene, *call));
        assert!(completed.is_some() || is_parked, "{} in {scene:?} never completes", call.0);
    }
}

// INV-2, INV-8, D10, D25
#[test]
fn a_call_dropped_at_any_poll_leaves_an_idle_session_working() {
    sweep_calls(SCENES[0]);
}

// INV-2, INV-8, D10, D25
#[test]
fn a_call_dropped_at_any_poll_leaves_a_busy_session_working() {
    sweep_calls(SCENES[1]);
}

// INV-2, INV-7, INV-8, D10, D25
#[test]
fn a_call_dropped_at_any_poll_leaves_a_waiting_session_working() {
    sweep_calls(SCENES[2]);
}

// INV-2, INV-8, D24
#[test]
fn a_call_dropped_at_any_poll_leaves_the_work_of_a_dead_process_to_be_done() {
    sweep_calls(SCENES[3]);
}

/// Finds the public asynchronous calls of a chat, a session and its waits in the sources.
fn public_calls(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            public_calls(&path, found);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let blocks =
            ["Chat", "Session", "SessionEvents", "SessionWait"].map(|name| format!("\nimpl {name} {{\n"));
        let blocks = blocks.iter().flat_map(|block| source.split(block.as_str()).skip(1));
        let blocks = blocks.map(|it| it.split("\n}\n").next().unwrap());
        let lines = blocks.flat_map(str::lines).filter_map(|it| it.strip_prefix("    pub async fn "));
        found.extend(lines.map(|it| it.split(['(', '<']).next().unwrap().to_owned()));
    }
}

#[test]
fn every_public_call_of_a_chat_is_among_the_calls_that_are_dropped() {
    let mut found = BTreeSet::new();
    public_calls(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let listed: BTreeSet<_> = CALLS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(found.len() > 30, "{found:?}");
    assert_eq!(listed, found);
}

/// Runs two calls beside each other, the second begun after so many polls of the first.
async fn beside(
    first: impl Future<Output = ()> + Send + 'static,
    polls: usize,
    second: impl Future<Output = ()>,
) {
    let first = tokio::spawn(first);
    for _ in 0..polls {
        tokio::task::yield_now().await;
    }
    second.await;
    timeout(LONG, first).await.expect("the first call ends").unwrap();
}

// D10, D25: the rows that a cancel reads of a session that is being deleted do not reach the next conversation.
#[test]
fn a_deletion_beside_a_cancel_leaves_nothing_of_the_conversation() {
    for scene in [Scene::Busy, Scene::Waiting] {
        for (at, polls) in (0..60).flat_map(|polls| [(0, polls), (1, polls), (2, polls)]) {
            let process = runtime();
            process.block_on(async {
                let world = World::new(scene, TestStore::in_memory(MANY)).await;
                let Some(id) = world.ids.get(at).cloned() else { return };
                let what = format!("{scene:?}, cancel {at}, deletion after {polls} polls");
                let chat = world.chat.clone();
                let cancel = async move { drop(chat.cancel(&id).await) };
                let delete = async {
                    let deleted = timeout(LONG, world.chat.session("s").delete(None)).await;
                    deleted.unwrap_or_else(|_| panic!("{what}: stuck")).unwrap();
                };
                beside(cancel, polls, delete).await;
                let outcome = timeout(LONG, world.chat.session("s").send(user("new"))).await;
                let outcome = outcome.unwrap_or_else(|_| panic!("{what}: stuck"));
                assert_eq!(line(&outcome), "completed 3.1 [a:hello]", "{what}");
                assert_eq!(crate::bench::history(&world.chat, "s").await, ["u:new", "a:hello"], "{what}");
                world.goes_on(&what).await;
            });
        }
    }
}
