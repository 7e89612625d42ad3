//! Whatever of an agent's panics: its turn has an outcome, its session takes the next message, other conversations go
//! on, and nothing is left behind in the file (INV-2, INV-8).

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Branch, Branches, Ctx, CustomReducer, END, FieldContent, FieldShape, FieldSpec, Graph, GraphBuilder,
    GraphEvent, Next, NodeError, NodeResult, Observer, Projection, Reducer, ReducerFault, Retry,
    RetryBackoff, Signal, Snapshot, StateMigrations, StateSchema, StateUpdate, ValueCheck, around,
};
use singletree_harness::{Chat, Durability, GraphAgent, MESSAGE_SHAPE, SendOptions};
use singletree_store_sqlite::SqliteStore;

use crate::bench::{Door, approve, at, category, check_rows, history, line, user};
use crate::doctor::sound;

/// Makes functions panic, until it is calmed.
#[derive(Clone, Default)]
struct Nerves(Arc<AtomicBool>);

impl Nerves {
    fn test(&self) {
        assert!(self.0.load(Ordering::Relaxed), "bang");
    }

    fn calm(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Builder = GraphBuilder<Snapshot>;
type Body = Box<dyn Fn(Ctx<Snapshot>) -> BoxFuture<'static, NodeResult<Snapshot>> + Send + Sync>;

fn says(text: &str) -> StateUpdate {
    StateUpdate::new().with_json("messages", json!([{"role": "assistant", "content": text}]))
}

fn field(name: &'static str, shape: FieldShape, default: serde_json::Value) -> FieldSpec {
    FieldSpec::new(name, shape, FieldContent::from_json(default))
}

fn schema(special: FieldSpec) -> StateSchema {
    let messages = field("messages", FieldShape::Record(MESSAGE_SHAPE.into()).list(), json!([]));
    let approved = field("approved", FieldShape::Bool, json!(false));
    StateSchema::new("talk", vec![messages.reducer(Reducer::Append), approved, special])
}

fn plain_field() -> FieldSpec {
    field("special", FieldShape::Any.list(), json!([])).reducer(Reducer::Append)
}

/// A graph that says a word, and then has a node "a", which is given.
fn then(special: FieldSpec, add: impl FnOnce(Builder) -> Builder) -> Builder {
    let builder = Graph::<Snapshot>::builder_with(schema(special))
        .node("begin", |_| ready(NodeResult::<Snapshot>::Ok(says("begin"))))
        .edge("begin", "a")
        .entry("begin");
    add(builder)
}

fn node(body: Body) -> Builder {
    then(plain_field(), |it| it.node("a", body).edge("a", END))
}

fn fine(_: Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> {
    ready(Ok(says("end").with_json("special", json!([1]))))
}

/// A node that fails for another reason whenever the functions around it are to be reached.
fn around_failing(retry: impl FnOnce(Retry) -> Retry) -> Builder {
    let first = AtomicBool::new(true);
    let body = move |_: Ctx<Snapshot>| {
        let failed = || NodeError::new("down").with_category("provider_unavailable");
        ready(if first.swap(false, Ordering::Relaxed) { Err(failed()) } else { Ok(says("end")) })
    };
    let retry = retry(Retry::new().backoff(RetryBackoff::Constant(Duration::ZERO)));
    then(plain_field(), |it| it.node("a", body).node_middleware("a", retry).edge("a", END))
}

fn wrapped(before: bool, nerves: Nerves) -> Builder {
    let middleware = around(move |state: Arc<Snapshot>, mut next: Next<'_>| -> BoxFuture<'_, _> {
        let nerves = nerves.clone();
        Box::pin(async move {
            if before {
                nerves.test();
            }
            let update = next.run(&state).await?;
            nerves.test();
            Ok(update)
        })
    });
    then(plain_field(), |it| it.node("a", fine).node_middleware("a", middleware).edge("a", END))
}

fn inner(nerves: Nerves) -> Graph<Snapshot> {
    let out = field("out", FieldShape::Int, json!(0));
    let work = move |_: Ctx<Snapshot>| {
        nerves.test();
        ready(NodeResult::<Snapshot>::Ok(StateUpdate::new().with_json("out", json!(7))))
    };
    let builder = Graph::<Snapshot>::builder_with(StateSchema::new("inner", vec![out])).node("work", work);
    builder.edge("work", END).entry("work").compile().unwrap()
}

struct Custom(Nerves);

impl CustomReducer for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }
    fn reduce_update(&self, _: &FieldContent, update: FieldContent) -> Result<FieldContent, ReducerFault> {
        self.0.test();
        Ok(update)
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        None
    }
}

struct Case {
    name: &'static str,
    build: fn(Nerves) -> Builder,
    category: &'static str,
}

const STEPS: &[Case] = &[
    Case {
        name: "a node",
        build: |nerves| {
            node(Box::new(move |_| {
                let nerves = nerves.clone();
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    nerves.test();
                    Ok(says("end"))
                })
            }))
        },
        category: "node_exception",
    },
    Case {
        name: "a node of a subgraph",
        build: |nerves| {
            let inner = inner(nerves);
            then(plain_field(), |it| it.subgraph("a", &inner, Projection::by_name()).edge("a", END))
        },
        category: "node_exception",
    },
    Case {
        name: "the function of an edge",
        build: |nerves| {
            then(plain_field(), |it| {
                it.node("a", fine).conditional_edge("a", move |_: &Snapshot| {
                    nerves.test();
                    END
                })
            })
        },
        category: "edge_exception",
    },
    Case {
        name: "a reducer",
        build: |nerves| {
            let special = field("special", FieldShape::Any.list(), json!([]));
            let special = special.reducer(Reducer::Custom(Arc::new(Custom(nerves))));
            then(special, |it| it.node("a", fine).edge("a", END))
        },
        category: "reducer_error",
    },
    Case {
        name: "the check of a field",
        build: |nerves| {
            let check: ValueCheck = Arc::new(move |_| {
                nerves.test();
                Ok(())
            });
            then(plain_field().with_value_check(check), |it| it.node("a", fine).edge("a", END))
        },
        category: "state_validation_error",
    },
    Case {
        name: "a middleware, before next",
        build: |nerves| wrapped(true, nerves),
        category: "node_exception",
    },
    Case {
        name: "a middleware, after next",
        build: |nerves| wrapped(false, nerves),
        category: "node_exception",
    },
    Case {
        name: "the classifier of a retry",
        build: |nerves| {
            around_failing(|it| {
                it.classifier(move |_, _| {
                    nerves.test();
                    true
                })
            })
        },
        category: "node_exception",
    },
    Case {
        name: "on_retry",
        build: |nerves| {
            around_failing(|it| {
                it.on_retry(move |_, _| {
                    nerves.test();
                    Box::pin(ready(Ok(())))
                })
            })
        },
        category: "node_exception",
    },
    Case {
        name: "an instance of a fan-out",
        build: |nerves| {
            let fan = singletree_engine::FanOut::over(&inner(nerves)).count(3).collect("out", "special");
            then(plain_field(), |it| it.fan_out("a", fan).edge("a", END))
        },
        category: "node_exception",
    },
    Case {
        name: "a branch",
        build: |nerves| {
            let bad = Branch::new().call(move |cx| {
                nerves.test();
                fine(cx)
            });
            let branches = Branches::new().branch("good", Branch::new().call(fine)).branch("bad", bad);
            then(plain_field(), |it| it.branches("a", branches).edge("a", END))
        },
        category: "parallel_branches_branch_failed",
    },
    Case {
        name: "the condition of a branch",
        build: |nerves| {
            let asked = Branch::new().call(fine).when(move |_: &Snapshot| {
                nerves.test();
                true
            });
            then(plain_field(), |it| it.branches("a", Branches::new().branch("b", asked)).edge("a", END))
        },
        category: "node_exception",
    },
];

fn agent(name: &str, graph: Builder) -> GraphAgent {
    GraphAgent::new(name, &graph.compile().unwrap()).durability(Durability::Step)
}

/// An agent whose turns wait at a door.
fn patient(door: &Door) -> GraphAgent {
    let door = door.clone();
    let graph = node(Box::new(move |_| {
        let door = door.clone();
        Box::pin(async move {
            door.pass().await;
            Ok(says("end"))
        })
    }));
    agent("patient", graph)
}

fn by(agent: &str) -> SendOptions {
    SendOptions::new().agent(agent)
}

#[tokio::test]
async fn a_panic_ends_its_turn_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for (at, Case { name, build, category: expected }) in STEPS.iter().enumerate() {
        let path = folder.path().join(format!("{at}.db"));
        let store = SqliteStore::open(&path).await.unwrap();
        let (nerves, door) = (Nerves::default(), Door::shut());
        let agents = Chat::builder().agent(agent("a", build(nerves.clone()))).agent(patient(&door));
        let chat = agents.open(store.clone()).unwrap();
        let other = chat.session("other").submit(user("m"), by("patient")).await.unwrap();
        door.somebody().await;
        let outcome = chat.session("s").send_with(user("one"), by("a")).await;
        assert_eq!(category(&outcome), *expected, "{name}: {outcome:?}");
        // D11: the messages that the turn had made are no history.
        assert_eq!(history(&chat, "s").await, Vec::<String>::new(), "{name}");
        nerves.calm();
        let outcome = chat.session("s").send_with(user("two"), by("a")).await;
        assert_eq!(category(&outcome), "completed", "{name}: {outcome:?}");
        assert_eq!(history(&chat, "s").await[..2], ["u:two", "a:begin"], "{name}");
        door.open();
        assert_eq!(line(other.outcome().await.as_ref()), "completed 3.1 [a:begin, a:end]", "{name}");
        for session in ["s", "other"] {
            check_rows(&store, session).await;
        }
        drop((other, chat, store));
        sound(&SqliteStore::open(&path).await.unwrap()).await;
    }
}

// suspension §7: the answer was taken; the turn that it started ends, and the wait is over.
#[tokio::test]
async fn a_panic_after_a_pause_ends_the_turn_that_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let nerves = Nerves::default();
    let tests = nerves.clone();
    let graph = then(plain_field(), |it| {
        it.node("a", |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("ok")).await })
            .node("b", move |_| {
                tests.test();
                ready(NodeResult::<Snapshot>::Ok(says("end")))
            })
            .edge("a", "b")
            .edge("b", END)
    });
    let chat = Chat::builder().agent(agent("a", graph)).open(store.clone()).unwrap();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tells = told.clone();
    // A listener that panics is told all the same, and so are those after it.
    let _first = chat.session("s").subscribe(|_| panic!("bang")).unwrap();
    let _second =
        chat.session("s").subscribe(move |it| tells.lock().unwrap().push(category(it.as_ref()))).unwrap();
    for (expected, ended) in [("errored node_exception", "node_exception"), ("completed", "completed")] {
        assert_eq!(category(chat.session("s").send(user("m")).await), "suspended");
        let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
        let outcome = turn.outcome().await;
        assert!(line(outcome.as_ref()).starts_with(expected), "{outcome:?}");
        assert_eq!(chat.session("s").pending().await.unwrap(), []);
        assert_eq!(told.lock().unwrap().pop().as_deref(), Some(ended));
        nerves.calm();
    }
    check_rows(&store, "s").await;
    drop((chat, store));
    sound(&SqliteStore::open(&path).await.unwrap()).await;
}

// spec: sessions §7.3: the stored session is as it was, and goes on once the migration is mended.
#[tokio::test]
async fn a_migration_that_panics_leaves_its_session_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let versioned = |version: &str| {
        let schema = schema(plain_field()).with_version(version);
        Graph::<Snapshot>::builder_with(schema).node("a", fine).edge("a", END).entry("a")
    };
    let open = async |graph: Builder, migrations: StateMigrations| {
        let store = SqliteStore::open(&path).await.unwrap();
        let agent = agent("a", graph).session_migrations(migrations);
        (Chat::builder().agent(agent).open(store.clone()).unwrap(), store)
    };
    let (chat, _store) = open(versioned("1"), StateMigrations::new()).await;
    assert_eq!(category(chat.session("s").send(user("one")).await), "completed");
    drop((chat, _store));
    let panicking = StateMigrations::new().with("1", "2", |_| panic!("bang"));
    let (chat, store) = open(versioned("2"), panicking).await;
    for _ in 0..2 {
        let outcome = chat.session("s").send(user("lost")).await;
        assert_eq!(category(&outcome), "session_state_migration_failed", "{outcome:?}");
    }
    assert_eq!(category(chat.session("new").send(user("one")).await), "completed");
    check_rows(&store, "s").await;
    drop((chat, store));
    let (chat, store) = open(versioned("2"), StateMigrations::new().with("1", "2", Ok)).await;
    assert_eq!(category(chat.session("s").send(user("two")).await), "completed");
    assert_eq!(history(&chat, "s").await, ["u:one", "a:end", "u:two", "a:end"]);
    drop((chat, store));
    sound(&SqliteStore::open(&path).await.unwrap()).await;
}

struct Nervous;

impl Observer for Nervous {
    fn observe_event<'a>(&'a self, _: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        panic!("bang")
    }
}

// INV-10
#[tokio::test]
async fn a_panicking_observer_of_an_agent_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let graph = then(plain_field(), |it| it.node("a", fine).edge("a", END)).compile().unwrap();
    graph.attach_observer(Nervous);
    let chat = Chat::builder().agent(GraphAgent::new("a", &graph)).open(store.clone()).unwrap();
    for path in ["3.1", "3.2"] {
        let outcome = chat.session("s").send(user("m")).await;
        assert_eq!(line(&outcome), format!("completed {path} [a:begin, a:end]"));
    }
    check_rows(&store, "s").await;
    drop(chat);
    sound(&store).await;
}
