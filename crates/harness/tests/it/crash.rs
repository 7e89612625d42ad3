//! The process dies at its n-th write, for every n, before and after it lands; the next one goes on (INV-2, INV-3,
//! INV-8).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_engine::{Ctx, END, Graph, Projection, Signal, Target};
use singletree_harness::{Chat, ChatTurnOutcome, Durability, SuspendedTurn};
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{
    Log, Talk, TokioClock, agent, approve, asking, at, called, chain, check_rows, fields, history, key, line,
    plain, say, says, user,
};
use crate::doctor::sound;

type Driven = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

/// A graph and its callers' requests; repeating a request finds the earlier result (D3).
struct Script {
    name: &'static str,
    graph: fn(&Log) -> Graph<Talk>,
    drive: fn(Chat) -> Driven,
    /// How many nodes that had been committed may run again, at level turn.
    again: usize,
}

fn three(log: &Log) -> Graph<Talk> {
    let builder = say(say(say(Graph::builder(), log, "one"), log, "two"), log, "three");
    chain(builder, &["one", "two", "three"])
}

/// A model that calls a tool twice before it answers.
fn cycle(log: &Log) -> Graph<Talk> {
    let (model, tool) = (log.clone(), log.clone());
    Graph::<Talk>::builder()
        .node("model", move |cx: Ctx<Talk>| {
            model.note("model");
            let count = cx.state().count;
            async move { Ok(if count < 2 { called(&format!("c{count}")) } else { says("so") }) }
        })
        .node("tool", move |cx: Ctx<Talk>| {
            tool.note("tool");
            let (count, words) = (cx.state().count, cx.state().words.clone());
            async move {
                let answer = ChatMessage::tool(format!("c{count}"), format!("r{count}"));
                let words = words.into_iter().chain([format!("w{count}")]).collect::<Vec<_>>();
                Ok(Talk::update()
                    .count(count + 1)
                    .words(words)
                    .notes([format!("n{count}")])
                    .messages([answer]))
            }
        })
        .conditional_edge("model", |state: &Talk| {
            if state.messages.open_calls().is_empty() { Target::from(END) } else { "tool".into() }
        })
        .edge("tool", "model")
        .entry("model")
        .compile()
        .unwrap()
}

fn nested(log: &Log) -> Graph<Talk> {
    let child = chain(say(say(Graph::builder(), log, "in1"), log, "in2"), &["in1", "in2"]);
    let builder = say(say(Graph::builder(), log, "before"), log, "after");
    let builder = builder.subgraph("child", &child, Projection::by_name());
    chain(builder, &["before", "child", "after"])
}

/// Says, saves with a word of its own, says again.
fn saving(log: &Log) -> Graph<Talk> {
    let noted = log.clone();
    let builder = say(say(Graph::builder(), log, "one"), log, "three");
    let builder = builder.node("save", move |cx: Ctx<Talk>| {
        noted.note("save");
        async move {
            let update = || Talk::update().count(7).notes(["kept".to_owned()]);
            cx.save_session_with(update().messages([ChatMessage::assistant("saved")])).await?;
            Ok(update().messages([ChatMessage::assistant("saved")]))
        }
    });
    chain(builder, &["one", "save", "three"])
}

fn waiting(log: &Log) -> Graph<Talk> {
    asking(log, Signal::new("ok"))
}

fn hurried(log: &Log) -> Graph<Talk> {
    let on_deadline = fields(&[("approved", json!(true))]);
    asking(log, Signal::new("ok").expires_in(Duration::from_secs(60)).on_deadline(on_deadline))
}

fn missed(log: &Log) -> Graph<Talk> {
    asking(log, Signal::new("ok").expires_in(Duration::from_secs(60)))
}

async fn sent(chat: &Chat, text: &str) -> String {
    match chat.session("s").submit(user(text), key(text)).await {
        Ok(turn) => line(turn.outcome().await.as_ref()),
        Err(errored) => format!("refused {}", errored.into_errored_turn().error_category),
    }
}

fn talks(chat: Chat) -> Driven {
    Box::pin(async move { vec![sent(&chat, "m1").await, sent(&chat, "m2").await] })
}

fn answers(chat: Chat) -> Driven {
    Box::pin(async move {
        let first = sent(&chat, "m1").await;
        let second = match chat.answer(at("s", "ok"), approve(true)).await {
            Ok(turn) => line(turn.outcome().await.as_ref()),
            Err(errored) => format!("refused {}", errored.into_errored_turn().error_category),
        };
        vec![first, second]
    })
}

/// Follows a suspension that was ended already to the turn that ended it.
async fn ended(chat: &Chat, outcome: Arc<ChatTurnOutcome>) -> Arc<ChatTurnOutcome> {
    match outcome.as_ref() {
        ChatTurnOutcome::Suspended(SuspendedTurn { resumed_by: Some(by), .. }) => {
            chat.turn(by).await.unwrap().outcome().await
        }
        _ => outcome,
    }
}

fn cancels(chat: Chat) -> Driven {
    Box::pin(async move {
        let Ok(turn) = chat.session("s").submit(user("m1"), key("m1")).await else { return Vec::new() };
        let first = line(turn.outcome().await.as_ref());
        let closed = match chat.cancel(turn.id()).await {
            Ok(turn) => line(ended(&chat, turn.outcome().await).await.as_ref()),
            Err(error) => error.category().to_owned(),
        };
        vec![first, closed]
    })
}

fn lets_pass(chat: Chat) -> Driven {
    Box::pin(async move {
        let first = sent(&chat, "m1").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        vec![first, chat.pending(10).await.unwrap().len().to_string()]
    })
}

const SCRIPTS: &[Script] = &[
    Script { name: "plain", graph: plain, drive: talks, again: 1 },
    Script { name: "three nodes", graph: three, drive: talks, again: 3 },
    Script { name: "cycle", graph: cycle, drive: talks, again: 5 },
    Script { name: "subgraph", graph: nested, drive: talks, again: 4 },
    Script { name: "save", graph: saving, drive: talks, again: 2 },
    Script { name: "suspend and resume", graph: waiting, drive: answers, again: 2 },
    Script { name: "cancel", graph: waiting, drive: cancels, again: 2 },
    Script { name: "deadline with values", graph: hurried, drive: lets_pass, again: 2 },
    Script { name: "deadline", graph: missed, drive: lets_pass, again: 2 },
];

struct Seen {
    told: Vec<String>,
    history: Vec<String>,
    state: serde_json::Value,
    runs: usize,
}

/// Drives a script in a process that dies at its n-th write, then in one that lives.
async fn twice(script: &Script, durability: Durability, n: u64, land: FailedWriteEffect) -> (Seen, bool) {
    let (store, log, clock) = (TestStore::new(), Log::default(), TokioClock::new());
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
    let graph = (script.graph)(&log);
    let builder = || Chat::builder().agent(agent(&graph, durability)).clock(clock.clone());
    let dying = builder().open_shared(failing.clone(), failing.clone()).unwrap();
    dying.sweep().await.unwrap();
    drop(tokio::time::timeout(Duration::from_secs(600), (script.drive)(dying.clone())).await);
    let after = store.reopen();
    dying.shutdown(Duration::from_secs(5)).await;
    let chat = builder().open(after.clone()).unwrap();
    for turn in chat.sweep().await.unwrap() {
        turn.outcome().await;
    }
    let told = (script.drive)(chat.clone()).await;
    check_rows(&after, "s").await;
    sound(&after).await;
    let export = chat.session("s").export().await.map(|it| json!([it.values, it.lists]));
    let seen = Seen {
        told,
        history: history(&chat, "s").await,
        state: export.unwrap_or_default(),
        runs: log.all().len(),
    };
    (seen, failing.fired())
}

async fn sweep(durability: Durability) {
    for script in SCRIPTS {
        let (whole, _) = twice(script, durability, u64::MAX, FailedWriteEffect::Before).await;
        assert!(!whole.history.is_empty());
        let mut reached = 0;
        for n in 1.. {
            let mut fired = false;
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let (seen, it_fired) = twice(script, durability, n, land).await;
                fired |= it_fired;
                let place = format!("{} at {durability:?}, write {n}, {land:?}", script.name);
                assert_eq!(seen.told, whole.told, "{place}: told");
                assert_eq!(seen.history, whole.history, "{place}: history");
                assert_eq!(seen.state, whole.state, "{place}: state");
                let more = seen.runs - whole.runs;
                let allowed = if durability == Durability::Step { 1 } else { script.again };
                assert!(more <= allowed, "{place}: {more} nodes ran again");
            }
            if !fired {
                break;
            }
            reached = n;
        }
        assert!(reached >= 3, "{}: {reached} writes", script.name);
    }
}

// INV-2, INV-3, INV-8, D26
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_doubled_wherever_the_process_dies_at_level_turn() {
    sweep(Durability::Turn).await;
}

#[tokio::test(start_paused = true)]
async fn no_committed_node_runs_again_wherever_the_process_dies_at_level_step() {
    sweep(Durability::Step).await;
}
