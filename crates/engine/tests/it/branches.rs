//! Parallel branches: inputs, dispatch, outputs (pipeline-utilities §§11.1–11.4, 11.8, 11.10).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, Ctx, CustomReducer, END, FieldContent, FieldShape, FieldSpec, Graph, Next, Reducer,
    ReducerFault, Snapshot, around,
};

use crate::fan_out::number;
use crate::rig::{
    Builder, Recorder, completed, described, fail, field, int, log, observed, over, run, sets, text, update,
};

/// A graph of one node that dispatches branches, over some fields to write into.
pub(crate) fn forking(branches: Branches<Snapshot>) -> Builder {
    let merged = field("map", FieldShape::Dict(Box::new(FieldShape::Any)), json!({})).reducer(Reducer::Merge);
    let errors = field("errors", FieldShape::Dict(Box::new(FieldShape::Str)).list(), json!([]))
        .reducer(Reducer::Append);
    let fields = [int("a"), int("b"), int("c"), log("log"), merged, errors];
    over(fields).branches("fork", branches).edge("fork", END).entry("fork")
}

/// All fields of [`forking`], those that are not given as they begin.
pub(crate) fn all(given: Value) -> Value {
    let mut state = json!({"a": 0, "b": 0, "c": 0, "log": [], "map": {}, "errors": []});
    for (name, value) in given.as_object().unwrap() {
        state[name] = value.clone();
    }
    state
}

/// A graph of one node `work` that sets.
pub(crate) fn setting(fields: impl IntoIterator<Item = FieldSpec>, value: Value) -> Graph<Snapshot> {
    over(fields).node("work", sets(value)).edge("work", END).entry("work").compile().unwrap()
}

/// A branch that runs a graph whose `out` comes back as a field.
pub(crate) fn graph(out: i64, to: &str) -> Branch<Snapshot> {
    Branch::new().subgraph(&setting([int("out")], json!({"out": out}))).output(to, "out")
}

/// A branch that is a function, which always returns the same update.
pub(crate) fn call(value: Value) -> Branch<Snapshot> {
    Branch::new().call(sets(value))
}

/// A branch that is a function, which takes so many seconds and notes when it ends.
fn slow(seconds: u64, name: &'static str, ended: &Arc<Mutex<Vec<&'static str>>>) -> Branch<Snapshot> {
    let ended = ended.clone();
    Branch::new().call(move |_| {
        let ended = ended.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            ended.lock().unwrap().push(name);
            Ok(update(json!({"log": [name], "a": seconds, "map": {"last": name, name: 1}})))
        }
    })
}

// spec: pipeline-utilities §§11.1.1, 11.2, 11.4: graphs of different schemas; only declared fields cross.
#[tokio::test]
async fn branches_of_different_schemas_each_write_what_they_declare() {
    let echo = |cx: Ctx<Snapshot>| async move {
        Ok(update(json!({"n": number(&cx, "n") * 10, "seen": number(&cx, "kept"), "b": 99})))
    };
    // Its field `b` has the name of one of the parent's: nothing crosses by name (R37).
    let numbers = over([int("n"), field("kept", FieldShape::Int, json!(7)), int("seen"), int("b")])
        .node("work", echo)
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap();
    let texts = setting([text("message"), log("lines")], json!({"message": "hello", "lines": ["x", "y"]}));
    let branches = Branches::new()
        .branch(
            "numbers",
            Branch::new().subgraph(&numbers).input("n", "a").output("c", "n").output("a", "seen"),
        )
        .branch("texts", Branch::new().subgraph(&texts).output("log", "lines"));
    let graph = forking(branches).compile().unwrap();
    let done = run(&graph, json!({"a": 4, "log": ["before"]})).await;
    // 4 goes in and comes back tenfold; a field not named in the inputs has its schema's default.
    assert_eq!(done, all(json!({"a": 7, "c": 40, "log": ["before", "x", "y"]})));
}

// spec: pipeline-utilities §§11.1.1, 11.4: a function reads the parent's state, and returns the parent's fields.
#[tokio::test]
async fn functions_and_graphs_may_be_mixed() {
    let double = |cx: Ctx<Snapshot>| async move { Ok(update(json!({"b": 2 * number(&cx, "a")}))) };
    let branches =
        Branches::new().branch("double", Branch::new().call(double)).branch("graph", graph(5, "c"));
    let graph = forking(branches).compile().unwrap();
    assert_eq!(run(&graph, json!({"a": 4})).await, all(json!({"a": 4, "b": 8, "c": 5})));
}

// spec: pipeline-utilities §§11.3, 11.4, 11.8: all at once; merged in the order of declaration, not that of their ends.
#[tokio::test(start_paused = true)]
async fn contributions_are_merged_in_the_order_of_declaration() {
    let ended = Arc::default();
    let branches = Branches::new()
        .branch("x", slow(3, "x", &ended))
        .branch("y", slow(1, "y", &ended))
        .branch("z", slow(2, "z", &ended));
    let graph = forking(branches).compile().unwrap();
    let begun = tokio::time::Instant::now();
    let (outcome, seen) = observed(&graph, json!({"log": ["w"]})).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert_eq!(*ended.lock().unwrap(), ["y", "z", "x"]);
    // Last write wins: the last declared. Append: one after the other. Merge: later keys override.
    let expected = json!({
        "log": ["w", "x", "y", "z"], "a": 2, "map": {"last": "z", "x": 1, "y": 1, "z": 1},
    });
    assert_eq!(completed(outcome), all(expected));
    let told = [
        "0.0 started fork",
        "1.0 started fork[x]/x",
        "2.0 started fork[y]/y",
        "3.0 started fork[z]/z",
        "2.0 completed fork[y]/y ok",
        "3.0 completed fork[z]/z ok",
        "1.0 completed fork[x]/x ok",
        "0.0 completed fork ok",
    ];
    assert_eq!(seen.told(), told);
}

/// A reducer that adds.
struct Sum;

impl CustomReducer for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn reduce_update(
        &self,
        prior: &FieldContent,
        update: FieldContent,
    ) -> Result<FieldContent, ReducerFault> {
        let number = |it: &FieldContent| it.to_json().unwrap().as_i64().unwrap();
        Ok(FieldContent::from_json(json!(number(prior) + number(&update))))
    }

    fn is_round_trip_idempotent(&self) -> Option<bool> {
        Some(false)
    }
}

// spec: pipeline-utilities §11.4: each contribution passes the reducer by itself; nothing is merged before the end.
#[tokio::test]
async fn each_contribution_passes_the_reducer_by_itself() {
    let peek = |cx: Ctx<Snapshot>| async move {
        tokio::task::yield_now().await;
        assert_eq!(number(&cx, "total"), 1, "what a sibling contributed is not merged yet");
        Ok(update(json!({"total": 10})))
    };
    let branches = Branches::new()
        .branch("one", call(json!({"total": 5})))
        .branch("two", Branch::new().call(peek))
        .branch("three", graph(100, "total"));
    let fields = [int("total").reducer(Reducer::Custom(Arc::new(Sum)))];
    let graph = over(fields).branches("fork", branches).edge("fork", END).entry("fork").compile().unwrap();
    assert_eq!(run(&graph, json!({"total": 1})).await, json!({"total": 116}));
}

// spec: pipeline-utilities §11.10: the state that the node received decides, once; a skipped branch leaves no trace.
#[tokio::test]
async fn a_branch_whose_condition_does_not_hold_leaves_no_trace() {
    let asked = Arc::new(AtomicUsize::new(0));
    let when = |asked: &Arc<AtomicUsize>| {
        let asked = asked.clone();
        move |state: &Snapshot| {
            asked.fetch_add(1, Ordering::Relaxed);
            state.get("c").unwrap().to_json().unwrap() == 1
        }
    };
    let branches = Branches::new()
        .branch("graph", graph(5, "a").when(when(&asked)))
        .branch("call", call(json!({"b": 6, "c": 0})).when(when(&asked)))
        .branch("always", call(json!({"log": ["always"]})));
    let graph = forking(branches).compile().unwrap();

    let (outcome, seen) = observed(&graph, json!({"a": 1})).await;
    assert_eq!(completed(outcome), all(json!({"a": 1, "log": ["always"]})));
    let told = [
        "0.0 started fork",
        "1.0 started fork[always]/always",
        "1.0 completed fork[always]/always ok",
        "0.0 completed fork ok",
    ];
    assert_eq!(seen.told(), told);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 2);
    // spec: graph-engine §6: the declared set is told; the count is that of the dispatched ones.
    let config = |count: u64| {
        let names = ["graph", "call", "always"];
        json!({"branch_names": names, "branch_count": count, "error_policy": "fail_fast", "parent_node_name": "fork"})
    };
    let configs = |seen: &Recorder| {
        let seen = seen.seen();
        seen.iter().map(|it| (it["node"].clone(), it.get("branches").cloned())).collect::<Vec<_>>()
    };
    let own = |it: &[(Value, Option<Value>)], count| {
        it.iter().all(|(node, told)| *told == (node == "fork").then(|| config(count)))
    };
    assert!(own(&configs(&seen), 1), "{:?}", configs(&seen));

    let (outcome, seen) = observed(&graph, json!({"c": 1})).await;
    assert_eq!(completed(outcome), all(json!({"a": 5, "b": 6, "log": ["always"]})));
    assert!(own(&configs(&seen), 3), "{:?}", configs(&seen));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

// spec: pipeline-utilities §11.10: where all are skipped the node does nothing, and that is no error.
#[tokio::test]
async fn all_branches_may_be_skipped() {
    let branches = Branches::new()
        .branch("a", call(json!({"a": 1})).when(|_| false))
        .branch("b", graph(1, "b").when(|_| false));
    let graph = forking(branches).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"c": 3})).await;
    assert_eq!(completed(outcome), all(json!({"c": 3})));
    assert_eq!(seen.told(), ["0.0 started fork", "0.0 completed fork ok"]);
    assert_eq!(seen.seen()[1]["branches"]["branch_count"], 0);
}

// A condition that panics is the node's failure; no branch has begun, and the event still carries the declared
// branches.
#[tokio::test]
async fn a_condition_that_panics_is_the_nodes_failure() {
    let branches = Branches::new()
        .branch("a", call(json!({"a": 1})))
        .branch("b", call(json!({"b": 1})).when(|_| panic!("who knows")));
    let graph = forking(branches).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"a": 3})).await;
    let error = outcome.unwrap_err();
    let expected = ("node_exception", Some("fork".to_owned()), Some(all(json!({"a": 3}))));
    assert_eq!(described(&error), expected);
    assert_eq!(singletree_engine::format_error_chain(&error), "node 'fork' failed: panicked: who knows");
    assert_eq!(seen.told(), ["0.0 started fork", "0.0 completed fork node_exception"]);
    let config = json!({"branch_names": ["a", "b"], "branch_count": 0, "error_policy": "fail_fast", "parent_node_name": "fork"});
    assert_eq!([&seen.seen()[0]["branches"], &seen.seen()[1]["branches"]], [&config, &config]);
}

// spec: pipeline-utilities §11.10: the condition sees the state that the node received, also from its middleware.
#[tokio::test]
async fn conditions_and_functions_see_what_the_node_received() {
    let branches = Branches::new().branch(
        "a",
        Branch::new()
            .call(|cx: Ctx<Snapshot>| async move { Ok(update(json!({"b": number(&cx, "a")}))) })
            .when(|state| state.get("a").unwrap().to_json().unwrap() == 5),
    );
    let shift = around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move { next.run(&state.with_replaced_fields(update(json!({"a": 5})))?).await })
    });
    let fields = [int("a"), int("b"), int("c")];
    let graph = over(fields).branches("fork", branches).node_middleware("fork", shift).edge("fork", END);
    let graph = graph.entry("fork").compile().unwrap();
    // The update is merged into the state that the graph has.
    assert_eq!(run(&graph, json!({"a": 1, "c": 2})).await, json!({"a": 1, "b": 5, "c": 2}));
}

// A required field that no input fills is the branch's failure.
#[tokio::test]
async fn a_branch_that_cannot_start_fails() {
    let required = over([FieldSpec::required("n", FieldShape::Int), int("out")]);
    let inner = required.node("work", sets(json!({}))).edge("work", END).entry("work").compile().unwrap();
    let graph = forking(Branches::new().branch("bad", Branch::new().subgraph(&inner))).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(error.category(), "parallel_branches_branch_failed");
    assert_eq!(
        (error.failed_branch_name(), error.derived_category()),
        (Some("bad"), "state_validation_error")
    );
    let given = Branch::new().subgraph(&inner).input("n", "a").output("b", "n");
    let graph = forking(Branches::new().branch("good", given)).compile().unwrap();
    assert_eq!(run(&graph, json!({"a": 3})).await["b"], 3);
}

// A function's update that cannot be merged by itself is its branch's failure.
#[tokio::test]
async fn an_update_that_cannot_be_merged_is_the_branchs_failure() {
    let cases = [
        (json!({"nowhere": 1}), "state_validation_error"),
        (json!({"a": "text"}), "state_validation_error"),
        (json!({"log": 1}), "reducer_error"),
    ];
    for (wrong, category) in cases {
        let branches = Branches::new().branch("good", call(json!({"b": 1}))).branch("bad", call(wrong));
        let graph = forking(branches).compile().unwrap();
        let (outcome, seen) = observed(&graph, json!({})).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.failed_branch_name(), error.derived_category()), (Some("bad"), category));
        let told = seen.told();
        assert_eq!(told[told.len() - 2], format!("2.0 completed fork[bad]/bad {category}"));
    }
}
