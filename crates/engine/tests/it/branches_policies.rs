//! Failing branches (pipeline-utilities §§11.5, 11.6, 11.9).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, Ctx, END, ErrorPolicy, FailureIsolation, FanOut, Graph, NodeError, Retry, RetryBackoff,
    Snapshot, classify_error,
};

use crate::branches::{all, call, forking, graph};
use crate::fan_out::{ints, number};
use crate::rig::{completed, described, fail, flaky, int, observed, over, update};

/// A graph that always fails.
pub(crate) fn failing(category: &'static str) -> Graph<Snapshot> {
    let fails = flaky(category, u32::MAX, json!({}));
    over([int("out")]).node("work", fails).edge("work", END).entry("work").compile().unwrap()
}

fn retry() -> Retry {
    Retry::new().backoff(RetryBackoff::Constant(Duration::ZERO))
}

/// Notes its name when it is dropped.
struct Marks(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Drop for Marks {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// A branch that is a function: it waits so many seconds, then fails or writes its name.
fn waits(
    name: &'static str,
    seconds: u64,
    fails: bool,
    over: &Arc<Mutex<Vec<&'static str>>>,
) -> Branch<Snapshot> {
    let over = over.clone();
    Branch::new().call(move |_| {
        let marks = Marks(name, over.clone());
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            drop(marks);
            if fails {
                return Err(NodeError::new(format!("{name} is broken")).with_category("broken"));
            }
            Ok(update(json!({"log": [name]})))
        }
    })
}

// spec: pipeline-utilities §§11.5, 11.9: the first failure cancels the others; nothing of any branch is merged.
#[tokio::test(start_paused = true)]
async fn the_first_failure_cancels_the_others() {
    let ended = Arc::default();
    let branches = Branches::new()
        .branch("early", waits("early", 1, false, &ended))
        .branch("late", waits("late", 9, false, &ended))
        .branch("bad", waits("bad", 2, true, &ended))
        .branch("worse", waits("worse", 3, true, &ended));
    let graph = forking(branches).compile().unwrap();
    let begun = tokio::time::Instant::now();
    let (outcome, seen) = observed(&graph, json!({"log": ["before"]})).await;
    let error = outcome.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    let before = all(json!({"log": ["before"]}));
    assert_eq!(described(&error), ("parallel_branches_branch_failed", Some("fork".into()), Some(before)));
    assert_eq!((error.failed_branch_name(), error.derived_category()), (Some("bad"), "broken"));
    assert_eq!(
        singletree_engine::format_error_chain(&error),
        "branch 'bad' of node 'fork' failed: bad is broken"
    );
    // Cancelled by being dropped, in order.
    assert_eq!(*ended.lock().unwrap(), ["early", "bad", "late", "worse"]);
    let told = [
        "0.0 started fork",
        "1.0 started fork[early]/early",
        "2.0 started fork[late]/late",
        "3.0 started fork[bad]/bad",
        "4.0 started fork[worse]/worse",
        "1.0 completed fork[early]/early ok",
        "3.0 completed fork[bad]/bad node_exception",
        "0.0 completed fork parallel_branches_branch_failed",
    ];
    assert_eq!(seen.told(), told);
    assert_eq!(seen.seen().last().unwrap()["branches"]["branch_count"], 4);
}

// spec: pipeline-utilities §§6.4, 11.9: one wrapper of the node's, around the failure of the branch.
#[tokio::test]
async fn a_failed_branch_is_classified_by_what_failed_in_it() {
    let links = |error: &singletree_engine::Error| {
        classify_error(error)
            .chain
            .into_iter()
            .map(|it| (it.carrier, it.category.unwrap()))
            .collect::<Vec<_>>()
    };
    let carrier = |it: &str| (true, it.to_owned());
    let branch = Branch::new().subgraph(&failing("broken"));
    let error = fail(&forking(Branches::new().branch("x", branch)).compile().unwrap(), json!({})).await;
    let wrapped = carrier("parallel_branches_branch_failed");
    assert_eq!(links(&error), [wrapped.clone(), carrier("node_exception"), (false, "broken".into())]);
    assert_eq!(
        singletree_engine::format_error_chain(&error),
        "branch 'x' of node 'fork' failed: node 'work' failed: down 0"
    );

    let branch = Branch::new().call(flaky("broken", 9, json!({})));
    let error = fail(&forking(Branches::new().branch("x", branch)).compile().unwrap(), json!({})).await;
    assert_eq!(links(&error), [wrapped, (false, "broken".into())]);
}

// spec: pipeline-utilities §11.5: all run to their end; failed ones contribute nothing; records are in order.
#[tokio::test(start_paused = true)]
async fn collected_failures_leave_out_their_contributions() {
    let branches = |ended: &Arc<Mutex<Vec<_>>>| {
        Branches::new()
            .branch("bad", waits("bad", 3, true, ended))
            .branch("good", waits("good", 2, false, ended))
            .branch("graph", Branch::new().subgraph(&failing("provider_unavailable")).output("a", "out"))
            .branch("set", graph(7, "b"))
            .error_policy(ErrorPolicy::Collect)
    };
    let ended = Arc::default();
    // Without a field for them, the records are dropped.
    let quiet = forking(branches(&ended)).compile().unwrap();
    let (outcome, seen) = observed(&quiet, json!({"a": 1})).await;
    assert_eq!(completed(outcome), all(json!({"a": 1, "b": 7, "log": ["good"]})));
    assert_eq!(seen.told().last().unwrap(), "0.0 completed fork ok");
    assert_eq!(*ended.lock().unwrap(), ["good", "bad"]);

    let loud = forking(branches(&ended).errors_field("errors")).compile().unwrap();
    let (outcome, _) = observed(&loud, json!({"a": 1})).await;
    let records = json!([
        {"branch_name": "bad", "category": "broken", "message": "bad is broken", "cause": "broken"},
        {"branch_name": "graph", "category": "node_exception", "message": "down 0", "cause": "provider_unavailable"},
    ]);
    // A record shows a function's own category; for a graph's failure it shows the wrapper's.
    assert_eq!(completed(outcome), all(json!({"a": 1, "b": 7, "log": ["good"], "errors": records})));

    let own = branches(&ended).errors_field("errors").error_record(|name, _| json!({"at": name}));
    let (outcome, _) = observed(&forking(own).compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome)["errors"], json!([{"at": "bad"}, {"at": "graph"}]));
}

// spec: pipeline-utilities §11.5: also when all fail; a record that cannot be made is the node's failure.
#[tokio::test]
async fn all_branches_may_fail() {
    let bad = || Branch::new().call(flaky("broken", 9, json!({})));
    let branches = || {
        Branches::new()
            .branch("x", bad())
            .branch("y", bad())
            .error_policy(ErrorPolicy::Collect)
            .errors_field("errors")
    };
    let (outcome, _) = observed(&forking(branches()).compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome)["errors"].as_array().unwrap().len(), 2);
    let panics = branches().error_record(|_, _| panic!("no record"));
    let error = fail(&forking(panics).compile().unwrap(), json!({})).await;
    assert_eq!(singletree_engine::format_error_chain(&error), "node 'fork' failed: panicked: no record");
}

// A branch that panics fails like any other.
#[tokio::test]
async fn a_branch_that_panics_fails() {
    let panics = |_: Ctx<Snapshot>| async { panic!("oh") };
    let branches = Branches::new().branch("x", call(json!({"a": 1}))).branch("y", Branch::new().call(panics));
    let error = fail(&forking(branches).compile().unwrap(), json!({})).await;
    assert_eq!(
        (error.category(), error.failed_branch_name()),
        ("parallel_branches_branch_failed", Some("y"))
    );
}

// spec: pipeline-utilities §§11.6, 11.9, 6.1: the node's own retry runs all branches again, since a failed branch is as
// transient as the failure inside it.
#[tokio::test]
async fn a_retry_around_the_node_dispatches_all_branches_again() {
    let inner = over([int("out")])
        .node("work", flaky("provider_unavailable", 1, json!({"out": 3})))
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap();
    let branches = Branches::new()
        .branch("x", call(json!({"log": ["x"]})))
        .branch("y", Branch::new().subgraph(&inner).output("b", "out"));
    let graph = forking(branches).node_middleware("fork", retry()).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), all(json!({"b": 3, "log": ["x"]})));
    let told = [
        "0.0 started fork",
        "1.0 started fork[x]/x",
        "1.0 completed fork[x]/x ok",
        "2.0 started fork[y]/work",
        "2.0 completed fork[y]/work node_exception",
        "0.0 completed fork parallel_branches_branch_failed",
        "0.1 started fork",
        "3.1 started fork[x]/x",
        "3.1 completed fork[x]/x ok",
        "4.1 started fork[y]/work",
        "4.1 completed fork[y]/work ok",
        "0.1 completed fork ok",
    ];
    assert_eq!(seen.told(), told);
    // spec: graph-engine §6: each attempt tells its configuration.
    let own = seen.seen().into_iter().filter(|it| it["node"] == "fork");
    assert!(own.into_iter().all(|it| it["branches"]["branch_count"] == 2));
}

// spec: pipeline-utilities §§6.1, 11.9: only a failure directly in a branch counts; one that a fan-out inside has
// wrapped does not.
#[tokio::test]
async fn a_failed_branch_inherits_whether_it_is_transient() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let note = |seen: &Arc<Mutex<Vec<bool>>>| {
        let seen = seen.clone();
        Retry::new().classifier(move |error, _| {
            seen.lock().unwrap().push(error.is_transient());
            false
        })
    };
    let fan = FanOut::<Snapshot>::over(&failing("provider_unavailable")).items("items", "out");
    let fanning = over([ints("items")]).fan_out("each", fan).edge("each", END).entry("each");
    let given = |cx: Ctx<Snapshot>| async move { Ok(update(json!({"items": [number(&cx, "zero")]}))) };
    let nested = over([int("zero"), ints("items")])
        .node("given", given)
        .subgraph(
            "fan",
            &fanning.compile().unwrap(),
            singletree_engine::Projection::by_name().inputs([("items", "items")]),
        )
        .edge("given", "fan")
        .edge("fan", END)
        .entry("given")
        .compile()
        .unwrap();
    let inside =
        forking(Branches::new().branch("in", Branch::new().subgraph(&failing("provider_unavailable"))));
    let inside = inside.compile().unwrap();
    let cases = [
        (Branch::new().subgraph(&failing("provider_unavailable")), true),
        (Branch::new().subgraph(&failing("broken")), false),
        (Branch::new().call(flaky("provider_rate_limit", 9, json!({}))), true),
        (Branch::new().call(|_| async { Err(NodeError::new("odd").mark_transient()) }), true),
        (Branch::new().subgraph(&inside), true),
        (Branch::new().subgraph(&nested), false),
    ];
    for (at, (branch, expected)) in cases.into_iter().enumerate() {
        let graph =
            forking(Branches::new().branch("x", branch)).node_middleware("fork", note(&seen)).compile();
        fail(&graph.unwrap(), json!({})).await;
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [expected], "case {at}");
    }
}

// spec: pipeline-utilities §§11.6, 6.3: isolation around the node sees the wrapper, and resolves through it.
#[tokio::test]
async fn isolation_around_the_node_degrades_all_of_it() {
    let branches = Branches::new()
        .branch("x", call(json!({"a": 1})))
        .branch("y", Branch::new().subgraph(&failing("broken")));
    let isolation = FailureIsolation::new("fork_isolated", update(json!({"c": -1}))).catch(["broken"]);
    let graph = forking(branches).node_middleware("fork", isolation).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), all(json!({"c": -1})));
    let caught: Vec<Value> = seen.seen().into_iter().filter(|it| it.get("isolated").is_some()).collect();
    assert_eq!(caught.len(), 1);
    let chain = json!([
        [true, "parallel_branches_branch_failed", "branch 'y' of node 'fork' failed"],
        [true, "node_exception", "node 'work' failed"],
        [false, "broken", "down 0"],
    ]);
    assert_eq!((&caught[0]["chain"], &caught[0]["category"]), (&chain, &json!("broken")));
    assert_eq!(seen.told().last().unwrap(), "0.0 completed fork ok");
}
