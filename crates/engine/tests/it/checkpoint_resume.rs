//! Going on from checkpoints: for every graph here, from every save that it makes (pipeline-utilities §§10.4–10.7,
//! §10.11).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::Checkpointer;
use singletree_engine::{
    Branch, Branches, Ctx, END, ErrorPolicy, FailureIsolation, FanOut, FieldShape, Graph, NodeError,
    NodeResult, Projection, Reducer, Retry, RetryBackoff, Snapshot, StateUpdate, Target,
};

use crate::checkpoint::{Keeper, named, positions, started};
use crate::fan_out::{ints, number};
use crate::rig::{Builder, completed, field, int, invocation, log, over, update};

/// A log in which nodes record their effects when they run.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn note(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A node that records its name and returns the update that `make` computes.
    pub(crate) fn node(
        &self,
        name: &'static str,
        make: impl Fn(&Ctx<Snapshot>) -> Value + Send + Sync + 'static,
    ) -> impl Fn(Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> + Send + Sync + 'static {
        let diary = self.clone();
        move |cx| {
            diary.note(name);
            std::future::ready(Ok(update(make(&cx))))
        }
    }

    /// The same, with the item that it works on beside its name.
    pub(crate) fn item(
        &self,
        name: &'static str,
        make: impl Fn(i64) -> Value + Send + Sync + 'static,
    ) -> impl Fn(Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> + Send + Sync + 'static {
        let diary = self.clone();
        move |cx| {
            let n = number(&cx, "n");
            diary.note(format!("{name} {n}"));
            std::future::ready(Ok(update(make(n))))
        }
    }
}

/// Which effects may happen again when a run goes on.
enum Again {
    /// None: saved work is not done again, and nothing happens between a node's effect and its save.
    Nothing,
    /// Those of instances that were in flight.
    Instances,
}

/// Runs a graph once without a break, and then with a crash after each of its saves: the end must be the same each
/// time. Returns how many saves there were.
async fn at_every_save(make: impl Fn(&Diary) -> Builder, again: Again) -> u64 {
    let diary = Diary::default();
    let whole = Keeper::new();
    let graph = make(&diary).checkpointer(whole.clone()).compile().unwrap();
    let expected = completed(graph.invoke(started(), named("whole")).await);
    let effects = sorted(diary.take());
    let saves = whole.saved().len() as u64;
    for after in 1..=saves {
        let keeper = Keeper::new();
        let graph = make(&diary).checkpointer(keeper.clone()).compile().unwrap();
        assert!(keeper.crash(after, graph.invoke(started(), named("dead"))).await, "save {after}");
        // Another process has other instances of the nodes.
        let graph = make(&diary).checkpointer(keeper.clone()).compile().unwrap();
        let done = graph.recover(&invocation("dead"), named("ignored")).await;
        assert_eq!(completed(done), expected, "after save {after} of {saves}");
        let done = diary.take();
        match again {
            Again::Nothing => assert_eq!(sorted(done), effects, "after save {after} of {saves}"),
            Again::Instances => {
                let missing: Vec<_> = effects.iter().filter(|it| !done.contains(it)).collect();
                assert!(missing.is_empty(), "{missing:?} after save {after} of {saves}");
            }
        }
    }
    saves
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

// spec: pipeline-utilities §10.4
#[tokio::test]
async fn a_line_goes_on_after_its_last_saved_node() {
    let make = |diary: &Diary| {
        over([log("log")])
            .node("a", diary.node("a", |_| json!({"log": ["a"]})))
            .node("b", diary.node("b", |_| json!({"log": ["b"]})))
            .node("c", diary.node("c", |_| json!({"log": ["c"]})))
            .edge("a", "b")
            .edge("b", "c")
            .edge("c", END)
            .entry("a")
    };
    assert_eq!(at_every_save(make, Again::Nothing).await, 3);
}

// A place is not a set of nodes (R30): in a cycle every node has completed.
#[tokio::test]
async fn a_cycle_goes_on_in_the_round_in_which_it_was() {
    let make = |diary: &Diary| {
        let again = |state: &Snapshot| {
            let count = state.get("count").unwrap().to_json().unwrap();
            if count.as_i64().unwrap() < 4 { Target::Node("a".into()) } else { Target::End }
        };
        over([int("count"), log("log")])
            .node("a", diary.node("a", |cx| json!({"count": number(cx, "count") + 1})))
            .node("b", diary.node("b", |cx| json!({"log": [number(cx, "count").to_string()]})))
            .edge("a", "b")
            .conditional_edge("b", again)
            .entry("a")
    };
    assert_eq!(at_every_save(make, Again::Nothing).await, 8);
}

// spec: pipeline-utilities §§10.3, 10.4: subgraphs are gone on with inside, and left once.
#[tokio::test]
async fn a_subgraph_is_entered_once_and_left_once() {
    let make = |diary: &Diary| {
        let innermost = over([int("z"), log("trace")])
            .node("c", diary.node("c", |_| json!({"z": 1, "trace": ["c"]})))
            .node("d", diary.node("d", |cx| json!({"z": number(cx, "z") + 6, "trace": ["d"]})))
            .edge("c", "d")
            .edge("d", END)
            .entry("c")
            .compile()
            .unwrap();
        let middle = over([int("y"), log("trace")])
            .subgraph("in", &innermost, Projection::default().outputs([("y", "z"), ("trace", "trace")]))
            .node("e", diary.node("e", |cx| json!({"y": number(cx, "y") + 100})))
            .edge("in", "e")
            .edge("e", END)
            .entry("in")
            .compile()
            .unwrap();
        over([int("x"), log("trace"), int("tail")])
            .node("a", diary.node("a", |_| json!({"trace": ["a"]})))
            .subgraph("mid", &middle, Projection::default().outputs([("x", "y"), ("trace", "trace")]))
            .node("f", diary.node("f", |cx| json!({"tail": number(cx, "x") * 2})))
            .edge("a", "mid")
            .edge("mid", "f")
            .edge("f", END)
            .entry("a")
    };
    assert_eq!(at_every_save(make, Again::Nothing).await, 5);
}

/// An inner graph of two nodes that puts ten times its `n` into `out`.
fn two_steps(diary: &Diary) -> Graph<Snapshot> {
    over([int("n"), int("half"), int("out")])
        .node("one", diary.item("one", |n| json!({"half": 5 * n})))
        .node("two", diary.item("two", |n| json!({"out": 10 * n})))
        .edge("one", "two")
        .edge("two", END)
        .entry("one")
        .compile()
        .unwrap()
}

fn over_items(fan: FanOut<Snapshot>, diary: &Diary) -> Builder {
    over([ints("items"), ints("results"), int("count"), ints("halves"), log("log")])
        .node("before", diary.node("before", |_| json!({"items": [1, 2, 3, 4], "log": ["before"]})))
        .fan_out("each", fan.items("items", "n").collect("out", "results"))
        .node("after", diary.node("after", |_| json!({"log": ["after"]})))
        .edge("before", "each")
        .edge("each", "after")
        .edge("after", END)
        .entry("before")
}

// spec: pipeline-utilities §10.7, §10.11.1
#[tokio::test]
async fn each_instance_contributes_once_wherever_a_fan_out_dies() {
    for limit in [1, 2, 9] {
        let make = |diary: &Diary| {
            let fan = FanOut::over(&two_steps(diary)).concurrency(limit);
            over_items(fan.count_field("count").extra_output("halves", "half"), diary)
        };
        // One for each inner node; the last one of an instance also has the instance's contribution.
        assert_eq!(at_every_save(make, Again::Instances).await, 1 + 8 + 1 + 1);
    }
}

// spec: pipeline-utilities §10.7: completed instances do not run again, those in flight do from their entry.
#[tokio::test]
async fn completed_instances_are_skipped_and_those_in_flight_begin_again() {
    let diary = Diary::default();
    let keeper = Keeper::new();
    let graph = over_items(FanOut::over(&two_steps(&diary)).concurrency(1), &diary)
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    // before, one 1, two 1, one 2
    assert!(keeper.crash(4, graph.invoke(started(), named("dead"))).await);
    diary.take();
    let record = keeper.last();
    let fan_out = serde_json::to_value(&record.fan_out_progress).unwrap();
    let inner =
        json!({"namespace": ["each"], "node_name": "one", "step": 4, "attempt_index": 0, "fan_out_index": 1});
    let expected = json!([{
        "fan_out_node_name": "each",
        "namespace": [],
        "enclosing_fan_out_lineage": [],
        "execution": 0,
        "instance_count": 4,
        "instances": [
            {"state": "completed", "result": 10, "result_is_error": false},
            {"state": "in_flight", "result_is_error": false, "completed_inner_positions": [inner]},
            {"state": "not_started", "result_is_error": false},
            {"state": "not_started", "result_is_error": false},
        ],
    }]);
    assert_eq!(fan_out, expected);
    assert_eq!((positions(&record), record.parent_states.len()), (vec!["0.0 before".to_owned()], 0));
    let done = completed(graph.recover(&invocation("dead"), named("ignored")).await);
    assert_eq!(done["results"], json!([10, 20, 30, 40]));
    let ran = ["one 2", "two 2", "one 3", "two 3", "one 4", "two 4", "after"];
    assert_eq!(diary.take(), ran);
    assert!(keeper.last().fan_out_progress.is_empty());
    assert_eq!(positions(&keeper.last()).len(), 3);
}

// spec: pipeline-utilities §10.11: nested fan-outs, each inner one by the outer instance that it is in.
#[tokio::test]
async fn nested_fan_outs_go_on_by_lineage_wherever_they_die() {
    for limit in [1, 9] {
        let make = |diary: &Diary| {
            let inner = FanOut::over(&two_steps(diary)).concurrency(limit);
            let row = over([ints("items"), ints("results"), int("sum")])
                .fan_out("cells", inner.items("items", "n").collect("out", "results"))
                .edge("cells", END)
                .entry("cells")
                .compile()
                .unwrap();
            let rows = field("rows", FieldShape::Int.list().list(), json!([[1, 2], [3, 4, 5]]));
            over([rows, field("all", FieldShape::Int.list().list(), json!([]))])
                .fan_out(
                    "rows",
                    FanOut::over(&row).concurrency(limit).items("rows", "items").collect("results", "all"),
                )
                .edge("rows", END)
                .entry("rows")
        };
        // Ten inner nodes, the end of each outer instance, the outer fan-out.
        assert_eq!(at_every_save(make, Again::Instances).await, 10 + 2 + 1);
    }
}

// An instance that begins again executes an inner fan-out of a cycle from its first round: progress saved in a later
// round does not belong to it (§10.11: never a wrong skip).
#[tokio::test]
async fn what_was_saved_of_another_round_of_an_instance_is_not_taken() {
    let make = |diary: &Diary| {
        let cell = over([int("n"), int("round"), int("out")])
            .node("cell", {
                let diary = diary.clone();
                move |cx: Ctx<Snapshot>| {
                    let (n, round) = (number(&cx, "n"), number(&cx, "round"));
                    diary.note(format!("cell {n} of {round}"));
                    std::future::ready(Ok(update(json!({"out": 100 * round + n}))))
                }
            })
            .edge("cell", END)
            .entry("cell")
            .compile()
            .unwrap();
        let again = |state: &Snapshot| {
            let round = state.get("round").unwrap().to_json().unwrap();
            if round.as_i64().unwrap() < 2 { Target::Node("next".into()) } else { Target::End }
        };
        let fan = FanOut::over(&cell).concurrency(1).items("items", "n").input("round", "round");
        let row = over([
            field("items", FieldShape::Int.list(), json!([1, 2])),
            int("n"),
            int("round"),
            ints("results"),
        ])
        .node("next", diary.node("next", |cx| json!({"round": number(cx, "round") + 1})))
        .fan_out("cells", fan.collect("out", "results"))
        .edge("next", "cells")
        .conditional_edge("cells", again)
        .entry("next")
        .compile()
        .unwrap();
        over([field("all", FieldShape::Int.list().list(), json!([]))])
            .fan_out("rows", FanOut::over(&row).count(1).collect("results", "all"))
            .edge("rows", END)
            .entry("rows")
    };
    at_every_save(make, Again::Instances).await;
}

// spec: pipeline-utilities §§10.11.2, 10.11.3: errors that were collected roll forward, retries begin with a fresh
// budget.
#[tokio::test]
async fn collected_errors_roll_forward() {
    let make = |diary: &Diary| {
        let diary_of_work = diary.clone();
        let work = move |cx: Ctx<Snapshot>| {
            let n = number(&cx, "n");
            diary_of_work.note(format!("work {n}"));
            let failed = NodeError::new("odd").with_category("odd");
            std::future::ready(if n % 2 == 1 { Err(failed) } else { Ok(update(json!({"out": n}))) })
        };
        let inner = over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work");
        let fan = FanOut::over(&inner.compile().unwrap()).items("items", "n").collect("out", "results");
        let items = field("items", FieldShape::Int.list(), json!([1, 2, 3, 4]));
        over([
            items,
            ints("results"),
            field("errors", FieldShape::Any.list(), json!([])).reducer(Reducer::Append),
        ])
        .fan_out("each", fan.error_policy(ErrorPolicy::Collect).errors_field("errors").concurrency(1))
        .edge("each", END)
        .entry("each")
    };
    // A failed node is saved, and so is the error that is made of it.
    assert_eq!(at_every_save(make, Again::Instances).await, 2 * 2 + 2 + 1);
}

// spec: pipeline-utilities §11.9: branches begin again as a whole, a fan-out in one of them, too; each contributes
// once.
#[tokio::test]
async fn branches_are_saved_as_one_node() {
    let make = |diary: &Diary| {
        let fan = FanOut::over(&two_steps(diary)).items("items", "n").collect("out", "results");
        let branch = over([field("items", FieldShape::Int.list(), json!([1, 2])), ints("results")])
            .fan_out("each", fan)
            .edge("each", END)
            .entry("each")
            .compile()
            .unwrap();
        let call = diary.node("call", |_| json!({"log": ["call"]}));
        let both = Branches::new()
            .branch("graph", Branch::new().subgraph(&branch).output("results", "results"))
            .branch("function", Branch::new().call(call));
        over([ints("results"), log("log")])
            .node("before", diary.node("before", |_| json!({"log": ["before"]})))
            .branches("both", both)
            .node("after", diary.node("after", |_| json!({"log": ["after"]})))
            .edge("before", "both")
            .edge("both", "after")
            .edge("after", END)
            .entry("before")
    };
    assert_eq!(at_every_save(make, Again::Nothing).await, 3);
}

// spec: pipeline-utilities §10.6: a budget of attempts is a resumed run's own.
#[tokio::test]
async fn a_budget_of_attempts_begins_anew() {
    let keeper = Keeper::new();
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (counts, attempts) = (calls.clone(), seen.clone());
    let work = move |cx: Ctx<Snapshot>| {
        attempts.lock().unwrap().push(cx.attempt_index());
        let call = counts.fetch_add(1, Ordering::Relaxed);
        let failed = NodeError::new("down").with_category("provider_unavailable");
        std::future::ready(if call < 4 { Err(failed) } else { Ok(update(json!({"a": 1}))) })
    };
    let graph = over([int("a")])
        .node("only", work)
        .node_middleware(
            "only",
            Retry::new().max_attempts(3).backoff(RetryBackoff::from_function(|_| Duration::ZERO)),
        )
        .edge("only", END)
        .entry("only")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    graph.invoke(StateUpdate::new(), named("one")).await.unwrap_err();
    let done = graph.recover(&invocation("one"), named("ignored")).await;
    assert_eq!(completed(done), json!({"a": 1}));
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 0, 1]);
}

// spec: pipeline-utilities §9.7, §10.11: an instance is also completed by an update that its middleware made.
#[tokio::test]
async fn what_the_middleware_of_an_instance_contributed_rolls_forward() {
    let make = |diary: &Diary| {
        let diary = diary.clone();
        let work = move |cx: Ctx<Snapshot>| {
            let n = number(&cx, "n");
            diary.note(format!("work {n}"));
            std::future::ready(if n == 2 {
                Err(NodeError::new("two"))
            } else {
                Ok(update(json!({"out": n})))
            })
        };
        let inner = over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work");
        let isolation = FailureIsolation::new("two", update(json!({"out": -1})));
        let fan = FanOut::over(&inner.compile().unwrap()).instance_middleware(isolation).concurrency(1);
        over([field("items", FieldShape::Int.list(), json!([1, 2, 3])), ints("results")])
            .fan_out("each", fan.items("items", "n").collect("out", "results"))
            .edge("each", END)
            .entry("each")
    };
    assert_eq!(at_every_save(make, Again::Instances).await, 1 + 2 + 1 + 1);
}

// spec: pipeline-utilities §10.4: a fresh id, the same correlation id; ids in the options are ignored.
#[tokio::test]
async fn a_resumed_run_is_an_invocation_of_its_own() {
    let diary = Diary::default();
    let keeper = Keeper::new();
    let graph = over([log("log")])
        .node("a", diary.node("a", |_| json!({"log": ["a"]})))
        .edge("a", END)
        .entry("a")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    assert!(keeper.crash(1, graph.invoke(started(), named("dead"))).await);
    let options = named("asked").correlation("another");
    let outcome = graph.recover(&invocation("dead"), options).await.unwrap();
    let identity = outcome.identity();
    assert_eq!(identity.correlation_id, "work");
    assert!(!["dead", "asked"].contains(&identity.invocation_id.as_str()));
    // An invocation that had reached its end reaches it again, and does nothing else.
    assert_eq!(diary.take(), ["a"]);
    let tenant = singletree_durable::TenantId::single();
    assert!(Checkpointer::load(&*keeper, &tenant, &identity.invocation_id).await.unwrap().is_none());
}
