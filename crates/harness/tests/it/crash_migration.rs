//! The process dies at every write while sessions of an older schema are taken over, on both stores (sessions §7,
//! INV-2, INV-8, INV-13).

use serde_json::{Map, json};
use singletree_durable::StateMigrations;
use singletree_engine::{
    END, FieldContent, FieldShape, FieldSpec, Graph, Reducer, Signal, Snapshot, StateSchema, StateUpdate,
    Target,
};
use singletree_harness::{Answer, Chat, ChatBuilder, Durability, GraphAgent, MESSAGE_SHAPE, SendOptions};
use singletree_store_testing::FailedWriteEffect;

use crate::bench::{Log, at, user};
use crate::dying::{Ground, Kind, Round, Sweep, Views, is_swept};

/// A message that was answered, one that was accepted and never ran, and a wait, each in a session of its own; and one
/// that nobody touches.
const SESSIONS: [&str; 4] = ["done", "accepted", "waiting", "idle"];

fn schema(version: &str, extra: &str) -> StateSchema {
    let list = |name: &str, of: FieldShape| {
        FieldSpec::new(name, of.list(), FieldContent::from_json(json!([]))).reducer(Reducer::Append)
    };
    let extra = FieldSpec::new(extra, FieldShape::Int, FieldContent::from_json(json!(0)));
    let fields = vec![
        list("messages", FieldShape::Record(MESSAGE_SHAPE.into())),
        list("notes", FieldShape::Str),
        extra,
    ];
    StateSchema::new("talk", fields).with_version(version)
}

/// A graph that says hello, and waits before it says so where it is told to.
fn graph(log: &Log, (version, extra): (&'static str, &'static str), waits: bool) -> Graph<Snapshot> {
    let (greet, gate) = (log.clone(), log.clone());
    Graph::<Snapshot>::builder_with(schema(version, extra))
        .node("greet", move |_| {
            greet.note("greet");
            async move {
                let said = FieldContent::from_json(json!([{ "role": "assistant", "content": "hello" }]));
                let noted = FieldContent::from_json(json!([format!("by {version}")]));
                let counted = FieldContent::from_json(json!(7));
                Ok(StateUpdate::new().with("messages", said).with("notes", noted).with(extra, counted))
            }
        })
        .node("gate", move |cx| {
            gate.note("gate");
            async move { if waits { cx.suspend(Signal::new("ok")).await } else { Ok(StateUpdate::new()) } }
        })
        .edge("greet", "gate")
        .edge("gate", Target::from(END))
        .entry("greet")
        .compile()
        .unwrap()
}

fn migrations() -> StateMigrations {
    StateMigrations::new().with("1", "2", |mut state| {
        let old = state.remove("old").unwrap_or_default();
        state.insert("new".into(), old);
        Ok(state)
    })
}

const OLD: (&str, &str) = ("1", "old");
const NEW: (&str, &str) = ("2", "new");

fn agents(log: &Log, of: (&'static str, &'static str), durability: Durability) -> ChatBuilder {
    let agent = |name: &str, waits| {
        let agent = GraphAgent::new(name, &graph(log, of, waits)).durability(durability);
        if of == NEW { agent.session_migrations(migrations()) } else { agent }
    };
    Chat::builder().agent(agent("plain", false)).agent(agent("waits", true))
}

async fn sent(chat: &Chat, session: &str, agent: &str, text: &str) {
    let options = SendOptions::new().key(text).agent(agent);
    if let Ok(turn) = chat.session(session).submit(user(text), options).await {
        turn.outcome().await;
    }
}

/// Leaves the sessions of a process of the old version.
async fn old(ground: &Ground, durability: Durability) {
    let chat = ground.open(agents(&Log::default(), OLD, durability));
    for (session, agent) in [("done", "plain"), ("waiting", "waits"), ("idle", "plain")] {
        sent(&chat, session, agent, "m1").await;
    }
    sent(&chat, "accepted", "plain", "m1").await;
    chat.shutdown(std::time::Duration::ZERO).await;
    let dies = async |chat: &Chat| sent(chat, "accepted", "plain", "m2").await;
    assert!(ground.dies(agents(&Log::default(), OLD, durability), (1, FailedWriteEffect::After), dies).await);
}

/// The requests of callers that know nothing of versions.
async fn go_on(chat: &Chat) {
    for (session, agent) in [("done", "plain"), ("accepted", "plain")] {
        for text in ["m2", "m3"] {
            sent(chat, session, agent, text).await;
        }
    }
    for (wait, text) in [(0, "m2"), (1, "m3")] {
        // By its number: another wait of that name is not meant.
        if let Ok(turn) = chat.answer(at("waiting", "ok"), Answer::new(Map::new()).to(wait, "")).await {
            turn.outcome().await;
        }
        sent(chat, "waiting", "waits", text).await;
    }
}

/// Each stored session is as the old version wrote it, or as the new one migrates it: nothing between.
fn old_or_new(at: &str, found: &Views, whole: &Views) {
    for session in SESSIONS {
        let (Some(found), Some(whole)) = (&found[session], &whole[session]) else {
            panic!("{at}: {session} is lost");
        };
        let has = |extra: &str| found.fields.iter().any(|it| it.starts_with(&format!("{extra} = ")));
        let expected = match found.version.as_str() {
            "1" => (true, false),
            "2" => (false, true),
            other => panic!("{at}: {session} has version {other}"),
        };
        assert_eq!((has("old"), has("new")), expected, "{at}: {session} {found:?}");
        assert!(whole.history.starts_with(&found.history), "{at}: {session} {found:?}");
        assert!(whole.turns.starts_with(&found.turns), "{at}: {session} {found:?}");
    }
}

async fn sweep(kind: Kind) {
    // Two turns may be under way, that which was accepted before and one more: at level step each has one node to run
    // again, at level turn two.
    for (durability, again) in
        [(Durability::Turn, 4), (Durability::Step, 2)].into_iter().filter(|(it, _)| is_swept(kind, *it))
    {
        let what = format!("migration at {durability:?}");
        let sweep = Sweep { what: &what, kind, sessions: &SESSIONS, again };
        let round = Round {
            prepare: async |ground: &Ground| old(ground, durability).await,
            builder: |log: &Log| agents(log, NEW, durability),
            drive: go_on,
        };
        let writes = sweep.run(round, old_or_new).await;
        assert!(writes > 12, "{what}: {writes} writes");
    }
}

#[tokio::test]
async fn a_migration_is_whole_or_has_not_happened_wherever_a_process_over_memory_dies() {
    sweep(Kind::Memory).await;
}

#[tokio::test]
async fn a_migration_is_whole_or_has_not_happened_wherever_a_process_over_a_file_dies() {
    sweep(Kind::File).await;
}

async fn waits_in(ground: &Ground, of: (&'static str, &'static str), with: bool) -> Chat {
    let agent = GraphAgent::new("waits", &graph(&Log::default(), of, true)).durability(Durability::Step);
    ground.open(Chat::builder().agent(if with { agent.session_migrations(migrations()) } else { agent }))
}

async fn values(chat: &Chat) -> (String, serde_json::Value) {
    let export = chat.session("s").export().await.unwrap();
    (export.schema_version, json!([export.values, export.lists["notes"]]))
}

// INV-13: a waiting invocation is migrated with its session, or refused and left as it is.
#[tokio::test]
async fn a_wait_of_an_older_version_goes_on_with_what_its_migration_makes_of_it() {
    for kind in [Kind::Memory, Kind::File] {
        let ground = Ground::new(kind).await;
        sent(&waits_in(&ground, OLD, false).await, "s", "waits", "m").await;
        let ground = ground.reopen().await;
        let chat = waits_in(&ground, NEW, false).await;
        let answer = || Answer::new(Map::new()).to(0, "");
        let refused = chat.answer(at("s", "ok"), answer()).await.unwrap_err().into_errored_turn();
        assert_eq!(refused.error_category, "checkpoint_state_migration_missing");
        assert_eq!(chat.session("s").pending().await.unwrap().len(), 1, "nothing is consumed");
        let old = json!([{ "old": 7 }, [{ "body": "by 1" }]]);
        assert_eq!(values(&chat).await, ("1".to_owned(), old));
        let ground = ground.reopen().await;
        let chat = waits_in(&ground, NEW, true).await;
        let turn = chat.answer(at("s", "ok"), answer()).await.unwrap();
        assert_eq!(turn.outcome().await.as_str(), "completed");
        let new = json!([{ "new": 7 }, [{ "body": "by 1" }]]);
        assert_eq!(values(&chat).await, ("2".to_owned(), new));
    }
}

// INV-13, D28: a turn that stands in the midst of a state of an older version goes on with the migrated state; without
// a migration it ends, and nothing is guessed.
#[tokio::test]
async fn a_turn_that_died_midway_in_an_older_version_goes_on_or_ends() {
    for (migrates, end) in [(true, "completed"), (false, "checkpoint_state_migration_missing")] {
        let (ground, log) = (Ground::new(Kind::File).await, Log::default());
        let builder = agents(&log, OLD, Durability::Step);
        let dies = async |chat: &Chat| sent(chat, "s", "plain", "m").await;
        assert!(ground.dies(builder, (2, FailedWriteEffect::After), dies).await);
        assert_eq!(log.all()[0], "greet");
        let ground = ground.reopen().await;
        let agent = GraphAgent::new("plain", &graph(&log, NEW, false)).durability(Durability::Step);
        let agent = if migrates { agent.session_migrations(migrations()) } else { agent };
        let turns = ground.open(Chat::builder().agent(agent)).sweep().await.unwrap();
        let outcome = turns[0].outcome().await;
        let told = if outcome.as_str() == "errored" {
            crate::bench::category(outcome)
        } else {
            outcome.as_str().into()
        };
        assert_eq!((turns.len(), told.as_str()), (1, end));
        // Committed nodes do not run again.
        assert_eq!(log.all().iter().filter(|it| *it == "greet").count(), 1);
    }
}
