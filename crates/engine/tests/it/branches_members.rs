//! Middleware of branches (pipeline-utilities §11.7).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, END, FailureIsolation, Next, Retry, RetryBackoff, Snapshot, Timing, around,
};

use crate::branches::{all, call, forking, graph, setting};
use crate::branches_policies::failing;
use crate::rig::{completed, flaky, int, observed, over, run, update};

fn retry() -> Retry {
    Retry::new().backoff(RetryBackoff::Constant(Duration::ZERO))
}

// spec: pipeline-utilities §11.7; graph-engine §6: a retry around a branch runs the whole of it again, alone; the
// number of the attempt is that of its nodes.
#[tokio::test]
async fn a_retry_around_a_graph_runs_the_whole_branch_again() {
    let inner = over([int("n"), int("out")])
        .node("first", |cx| async move { Ok(update(json!({"n": crate::fan_out::number(&cx, "n") + 1}))) })
        .node("second", flaky("provider_unavailable", 2, json!({"out": 3})))
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
        .compile()
        .unwrap();
    let branch = Branch::new().subgraph(&inner).output("a", "out").output("b", "n").middleware(retry());
    let branches = Branches::new().branch("x", branch).branch("y", call(json!({"c": 1})));
    let (outcome, seen) = observed(&forking(branches).compile().unwrap(), json!({})).await;
    // Each attempt begins anew: `n` was counted once.
    assert_eq!(completed(outcome), all(json!({"a": 3, "b": 1, "c": 1})));
    let of_x: Vec<_> = seen.told().into_iter().filter(|it| it.contains("fork[x]")).collect();
    let expected = [
        "1.0 started fork[x]/first",
        "1.0 completed fork[x]/first ok",
        "2.0 started fork[x]/second",
        "2.0 completed fork[x]/second node_exception",
        "3.1 started fork[x]/first",
        "3.1 completed fork[x]/first ok",
        "4.1 started fork[x]/second",
        "4.1 completed fork[x]/second node_exception",
        "5.2 started fork[x]/first",
        "5.2 completed fork[x]/first ok",
        "6.2 started fork[x]/second",
        "6.2 completed fork[x]/second ok",
    ];
    assert_eq!(of_x, expected);
    assert_eq!(seen.told().iter().filter(|it| it.contains("fork[y]")).count(), 2);
}

// spec: pipeline-utilities §11.7; graph-engine §6: a function is one execution with an attempt for each call.
#[tokio::test]
async fn a_retry_around_a_function_calls_it_again() {
    let branch =
        Branch::new().call(flaky("provider_unavailable", 1, json!({"log": ["x"]}))).middleware(retry());
    let graph =
        forking(Branches::new().branch("x", branch).branch("y", call(json!({"c": 1})))).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), all(json!({"c": 1, "log": ["x"]})));
    let of_x: Vec<_> = seen.told().into_iter().filter(|it| it.contains("fork[x]")).collect();
    let expected = [
        "1.0 started fork[x]/x",
        "1.0 completed fork[x]/x node_exception",
        "1.1 started fork[x]/x",
        "1.1 completed fork[x]/x ok",
    ];
    assert_eq!(of_x, expected);
}

// spec: pipeline-utilities §11.7: a degraded update that lacks a projected field leaves it as it was.
#[tokio::test]
async fn what_a_degraded_update_lacks_is_left_alone() {
    let inner = over([int("out"), int("note")])
        .node("work", flaky("broken", 9, json!({})))
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap();
    let degrade = |update_: Value| {
        let isolation = FailureIsolation::new("x_isolated", update(update_));
        let branch =
            Branch::new().subgraph(&inner).output("a", "out").output("b", "note").output("c", "note");
        forking(Branches::new().branch("x", branch.middleware(isolation)).branch("y", call(json!({"a": 5}))))
            .compile()
            .unwrap()
    };
    // The sibling does not write the targets of `note`: its value stays.
    let done = run(&degrade(json!({"note": 8})), json!({"a": 1})).await;
    assert_eq!(done, all(json!({"a": 5, "b": 8, "c": 8})));
    let done = run(&degrade(json!({})), json!({"a": 1, "b": 2})).await;
    assert_eq!(done, all(json!({"a": 5, "b": 2})));
    // Fields that do not go out are nobody's.
    assert_eq!(run(&degrade(json!({"nowhere": 1})), json!({})).await, all(json!({"a": 5})));
}

// spec: pipeline-utilities §§6.3, 11.7: a graph's failure comes with one wrapper, a function's as it is; the event is
// the branch's.
#[tokio::test]
async fn isolation_around_a_branch_catches_what_failed_in_it() {
    let isolate = |name| FailureIsolation::new(name, update(json!({"out": -1}))).catch(["broken"]);
    let function = FailureIsolation::new("y_isolated", update(json!({"b": -2}))).catch(["broken"]);
    let branches = Branches::new()
        .branch(
            "x",
            Branch::new().subgraph(&failing("broken")).output("a", "out").middleware(isolate("x_isolated")),
        )
        .branch("y", Branch::new().call(flaky("broken", 9, json!({}))).middleware(function))
        .branch("z", call(json!({"c": 1})));
    let (outcome, seen) = observed(&forking(branches).compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome), all(json!({"a": -1, "b": -2, "c": 1})));
    let caught: Vec<Value> = seen.seen().into_iter().filter(|it| it.get("isolated").is_some()).collect();
    let broken = json!([false, "broken", "down 0"]);
    assert_eq!(caught[0]["chain"], json!([[true, "node_exception", "node 'work' failed"], broken]));
    assert_eq!(caught[1]["chain"], json!([broken]));
    assert_eq!(
        (&caught[0]["lineage"], &caught[1]["lineage"]),
        (&json!([{"branch": "x"}]), &json!([{"branch": "y"}]))
    );
    assert_eq!((&caught[0]["pre"], &caught[1]["pre"]), (&json!({"out": 0}), &all(json!({}))));
    // The function's attempt is reported with the outcome of its chain (R5); the graph's nodes have reported theirs.
    let told = seen.told();
    assert!(told.contains(&"1.0 completed fork[x]/work node_exception".to_owned()), "{told:?}");
    assert!(told.contains(&"2.0 completed fork[y]/y ok".to_owned()), "{told:?}");
}

// spec: pipeline-utilities §§6.3, 11.7: isolation outside of a retry, around one branch: told attempt by attempt.
#[tokio::test]
async fn isolation_and_retry_compose_around_a_function() {
    let isolation = FailureIsolation::new("isolated", update(json!({"a": -1})));
    let branch = Branch::new().call(flaky("provider_unavailable", 9, json!({})));
    let branch = branch.middleware(isolation).middleware(retry().max_attempts(2));
    let (outcome, seen) =
        observed(&forking(Branches::new().branch("x", branch)).compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome), all(json!({"a": -1})));
    let expected = [
        "0.0 started fork",
        "1.0 started fork[x]/x",
        "1.0 completed fork[x]/x node_exception",
        "1.1 started fork[x]/x",
        "1.1 completed fork[x]/x node_exception",
        "isolated isolated fork[x].1 provider_unavailable",
        "0.0 completed fork ok",
    ];
    assert_eq!(seen.told(), expected);
}

// spec: pipeline-utilities §11.7: chains are each branch's own, outermost first, around the start and the contribution.
#[tokio::test]
async fn each_branch_has_a_chain_of_its_own() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |name: &'static str| {
        let log = log.clone();
        around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
            let log = log.clone();
            Box::pin(async move {
                let at = format!("{name} {} {:?}", next.node_name(), next.lineage());
                log.lock().unwrap().push(format!("{at} in {}", json!(state.to_json().unwrap())));
                let returned = next.run(&state).await?;
                let fields: Vec<_> = returned.iter_entries().map(|(name, _)| name.to_owned()).collect();
                log.lock().unwrap().push(format!("{name} out {fields:?}"));
                Ok(returned)
            })
        })
    };
    let inner = setting([int("n"), int("out"), int("more")], json!({"out": 2, "more": 3}));
    let branch = Branch::new().subgraph(&inner).input("n", "a").output("b", "out");
    let branches = Branches::new()
        .branch("x", branch.middleware(note("outer")).middleware(note("inner")))
        .branch("y", call(json!({"log": ["y"]})).middleware(note("call")))
        .branch("z", graph(1, "c"));
    assert_eq!(
        run(&forking(branches).compile().unwrap(), json!({"a": 9})).await,
        all(json!({"a": 9, "b": 2, "c": 1, "log": ["y"]}))
    );
    let (start, whole) = (json!({"n": 9, "out": 0, "more": 0}), all(json!({"a": 9})));
    let expected = [
        format!("outer fork [Branch(\"x\")] in {start}"),
        format!("inner fork [Branch(\"x\")] in {start}"),
        "inner out [\"out\"]".into(),
        "outer out [\"out\"]".into(),
        format!("call fork [Branch(\"y\")] in {whole}"),
        "call out [\"log\"]".into(),
    ];
    let sorted = |it: &[String]| {
        it.iter().map(|it| it.chars().filter(|c| *c != ' ').collect::<String>()).collect::<Vec<_>>()
    };
    assert_eq!(sorted(&log.lock().unwrap()), sorted(&expected));
}

// A middleware that never calls next: the branch has no events, and its update counts.
#[tokio::test]
async fn a_branch_that_its_chain_never_reaches_has_no_events() {
    let short = |value: Value| {
        around(move |_: Arc<Snapshot>, _: Next<'_>| {
            let value = value.clone();
            Box::pin(async move { Ok(update(value)) })
        })
    };
    let branches = Branches::new()
        .branch("x", graph(1, "a").middleware(short(json!({"out": 5}))))
        .branch("y", call(json!({"b": 1})).middleware(short(json!({"b": 6}))));
    let (outcome, seen) = observed(&forking(branches).compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome), all(json!({"a": 5, "b": 6})));
    assert_eq!(seen.told(), ["0.0 started fork", "0.0 completed fork ok"]);
}

// spec: pipeline-utilities §§6.2, 11.7: timing around a branch has the branch's name.
#[tokio::test]
async fn timing_around_a_branch_has_its_name() {
    let names: Arc<Mutex<Vec<String>>> = Arc::default();
    let timing = || {
        let names = names.clone();
        Timing::for_each_site(move |record| {
            names.lock().unwrap().push(record.node_name.to_string());
            async { Ok(()) }
        })
    };
    let branches = Branches::new()
        .branch("x", graph(1, "a").middleware(timing()))
        .branch("y", call(json!({})).middleware(timing()));
    run(&forking(branches).compile().unwrap(), json!({})).await;
    assert_eq!(*names.lock().unwrap(), ["x", "y"]);
}
