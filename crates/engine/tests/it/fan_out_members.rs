//! Middleware around fan-outs and their instances (pipeline-utilities §§9.3, 9.6, 9.7).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, ErrorPolicy, FailureIsolation, FanOut, FieldShape, Graph, Next, NodeError, Reducer, Retry,
    RetryBackoff, Snapshot, StateUpdate, around,
};

use crate::fan_out::{around as outer, each, ints, number};
use crate::rig::{completed, described, fail, field, int, observed, over, run, text, update};

const NOW: RetryBackoff = RetryBackoff::Constant(Duration::ZERO);

/// An inner graph of two nodes; the second one fails so often for each item.
fn two_stages(failures: u64) -> Graph<Snapshot> {
    let calls: Arc<[AtomicU64; 10]> = Arc::default();
    let fails = move |cx: Ctx<Snapshot>| {
        let n = number(&cx, "n");
        let call = calls[usize::try_from(n).unwrap()].fetch_add(1, Ordering::Relaxed);
        let failed = || NodeError::new(format!("{n} down")).with_category("provider_unavailable");
        let out = 10 * n + number(&cx, "stage");
        std::future::ready(if call < failures { Err(failed()) } else { Ok(update(json!({"out": out}))) })
    };
    let stage = |cx: Ctx<Snapshot>| async move { Ok(update(json!({"stage": 1 + number(&cx, "stage")}))) };
    let fields = [int("n"), int("stage"), int("out"), text("note")];
    let builder = over(fields).node("stage", stage).node("fails", fails).entry("stage");
    builder.edge("stage", "fails").edge("fails", END).compile().unwrap()
}

// spec: pipeline-utilities §9.7: a retry runs the whole instance again, from a fresh state, under its numbers.
#[tokio::test]
async fn a_retried_instance_begins_anew() {
    let fan = each(&two_stages(1)).instance_middleware(Retry::new().backoff(NOW)).concurrency(1);
    let graph = outer(fan).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"items": [3, 4]})).await;
    assert_eq!(completed(outcome)["results"], json!([31, 41]));
    let instance = |at: u64| {
        let step = 1 + 4 * at;
        [
            format!("{step}.0 started each[{at}]/stage"),
            format!("{step}.0 completed each[{at}]/stage ok"),
            format!("{}.0 started each[{at}]/fails", step + 1),
            format!("{}.0 completed each[{at}]/fails node_exception", step + 1),
            format!("{}.1 started each[{at}]/stage", step + 2),
            format!("{}.1 completed each[{at}]/stage ok", step + 2),
            format!("{}.1 started each[{at}]/fails", step + 3),
            format!("{}.1 completed each[{at}]/fails ok", step + 3),
        ]
    };
    let mut told = vec!["0.0 started each".to_owned()];
    told.extend(instance(0).into_iter().chain(instance(1)));
    told.push("0.0 completed each ok".into());
    assert_eq!(seen.told(), told);
}

// spec: pipeline-utilities §§9.5, 9.7: the failure of the last attempt is the instance's failure.
#[tokio::test]
async fn an_exhausted_retry_is_the_instances_failure() {
    let fan = || each(&two_stages(9)).instance_middleware(Retry::new().max_attempts(2).backoff(NOW));
    let error = fail(&outer(fan()).compile().unwrap(), json!({"items": [3, 4]})).await;
    assert_eq!(
        (described(&error).1, error.derived_category()),
        (Some("each".into()), "provider_unavailable")
    );
    let collect = fan().error_policy(ErrorPolicy::Collect).errors_field("errors");
    let errors = field("errors", FieldShape::Any.list(), json!([])).reducer(Reducer::Append);
    let builder = over([ints("items"), ints("results"), errors]).fan_out("each", collect).edge("each", END);
    let done = run(&builder.entry("each").compile().unwrap(), json!({"items": [3]})).await;
    assert_eq!(done["errors"][0]["message"], "3 down");
}

// spec: pipeline-utilities §9.6: the graph's and the node's middleware see one dispatch, with the merged update.
#[tokio::test]
async fn middleware_of_the_fan_out_sees_it_as_one() {
    let book: Arc<Mutex<Vec<Value>>> = Arc::default();
    let notes = |at: &'static str| {
        let book = book.clone();
        around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
            let book = book.clone();
            Box::pin(async move {
                let seen = json!({"at": at, "node": next.node_name(), "in": state.get("items").map(|it| it.to_json().unwrap())});
                book.lock().unwrap().push(seen);
                let update = next.run(&state).await?;
                let out: Vec<_> = update
                    .iter_entries()
                    .map(|(name, slot)| json!([name, slot.to_json().unwrap()]))
                    .collect();
                book.lock().unwrap().push(json!({"at": at, "lineage": next.lineage(), "out": out}));
                Ok(update)
            })
        })
    };
    let fan = each(&two_stages(0)).instance_middleware(notes("instance"));
    let graph =
        outer(fan).node_middleware("each", notes("node")).middleware(notes("graph")).compile().unwrap();
    run(&graph, json!({"items": [3]})).await;
    let expected = [
        json!({"at": "graph", "node": "each", "in": [3]}),
        json!({"at": "node", "node": "each", "in": [3]}),
        json!({"at": "instance", "node": "each", "in": null}),
        json!({"at": "instance", "lineage": [{"instance": 0}], "out": [["out", 31]]}),
        json!({"at": "node", "lineage": [], "out": [["results", [31]]]}),
        json!({"at": "graph", "lineage": [], "out": [["results", [31]]]}),
    ];
    assert_eq!(*book.lock().unwrap(), expected);
}

/// A fan-out that collects `out` and `note` as anything, with this around its instances.
fn degrading(isolation: FailureIsolation) -> Graph<Snapshot> {
    let any = |name| field(name, FieldShape::Any.list(), json!([])).reducer(Reducer::Append);
    let failing_odd = |cx: Ctx<Snapshot>| async move {
        match number(&cx, "n") % 2 {
            0 => Ok(update(json!({"out": number(&cx, "n"), "note": "fine"}))),
            _ => Err(NodeError::new("odd").with_category("bad")),
        }
    };
    let fields = [int("n"), int("out"), field("note", FieldShape::Str, json!("default"))];
    let inner = over(fields).node("work", failing_odd).edge("work", END).entry("work").compile().unwrap();
    let fan =
        FanOut::over(&inner).items("items", "n").collect("out", "results").extra_output("notes", "note");
    over([ints("items"), any("results"), any("notes")])
        .fan_out("each", fan.instance_middleware(isolation))
        .edge("each", END)
        .entry("each")
        .compile()
        .unwrap()
}

// spec: pipeline-utilities §9.3: the degraded update is the whole contribution; a field that it lacks is null, never a
// default.
#[tokio::test]
async fn a_degraded_instance_contributes_its_degraded_update() {
    let both = FailureIsolation::new("unit", update(json!({"out": -1, "note": "fellback"})));
    let one = FailureIsolation::new("unit", update(json!({"out": -1})));
    let by = FailureIsolation::from_function("unit", |state| {
        let n = state.get("n").unwrap().to_json()?;
        Ok(update(json!({"note": format!("for {n}")})))
    });
    let cases = [
        (both, json!([2, -1, 4]), json!(["fine", "fellback", "fine"])),
        (one, json!([2, -1, 4]), json!(["fine", null, "fine"])),
        (by, json!([2, null, 4]), json!(["fine", "for 3", "fine"])),
    ];
    for (isolation, results, notes) in cases {
        let done = run(&degrading(isolation), json!({"items": [2, 3, 4]})).await;
        assert_eq!((&done["results"], &done["notes"]), (&results, &notes));
    }
}

// spec: pipeline-utilities §6.3: the event tells the wrapped instance, and looks through the engine's wrapper.
#[tokio::test]
async fn an_isolated_instance_is_told_with_its_lineage() {
    let isolation = FailureIsolation::new("unit", update(json!({"out": 0}))).catch(["bad"]);
    let (_, seen) = observed(&degrading(isolation), json!({"items": [2, 3]})).await;
    let seen = seen.seen();
    let event = seen.iter().find(|it| it.get("isolated").is_some()).unwrap();
    let expected = json!({
        "by": "",
        "isolated": "unit",
        "namespace": ["each"],
        "lineage": [{"instance": 1}],
        "attempt": 0,
        "pre": {"n": 3, "out": 0, "note": "default"},
        "post": {"out": 0},
        "category": "bad",
        "message": "odd",
        "chain": [[true, "node_exception", "node 'work' failed"], [false, "bad", "odd"]],
    });
    assert_eq!(*event, expected);
}

// spec: pipeline-utilities §9.3: a strict reducer refuses the null of a degraded instance.
#[tokio::test]
async fn a_strict_reducer_refuses_a_null_slot() {
    let down = |_: Ctx<Snapshot>| async { Err(NodeError::new("down")) };
    let part = || field("out", FieldShape::Int.list(), json!([]));
    let inner = over([part()]).node("work", down).edge("work", END).entry("work").compile().unwrap();
    let isolation = FailureIsolation::from_function("unit", |_| Ok(StateUpdate::new()));
    let fan = FanOut::over(&inner).count(1).collect("out", "results").instance_middleware(isolation);
    let results = field("results", FieldShape::Int.list(), json!([])).reducer(Reducer::ConcatFlatten);
    let graph = over([results]).fan_out("each", fan).edge("each", END).entry("each").compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(described(&error), ("reducer_error", Some("each".into()), Some(json!({"results": []}))));
}

// spec: graph-engine §6: a retry of the whole fan-out numbers the attempts of the nodes inside; its config is on each
// pair.
#[tokio::test]
async fn a_retried_fan_out_runs_all_of_it_again() {
    let graph = outer(each(&two_stages(1)))
        .middleware(Retry::new().classifier(|_, _| true).backoff(NOW))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({"items": [3]})).await;
    assert_eq!(completed(outcome)["results"], json!([31]));
    let told = [
        "0.0 started each",
        "1.0 started each[0]/stage",
        "1.0 completed each[0]/stage ok",
        "2.0 started each[0]/fails",
        "2.0 completed each[0]/fails node_exception",
        "0.0 completed each node_exception",
        "0.1 started each",
        "3.1 started each[0]/stage",
        "3.1 completed each[0]/stage ok",
        "4.1 started each[0]/fails",
        "4.1 completed each[0]/fails ok",
        "0.1 completed each ok",
    ];
    assert_eq!(seen.told(), told);
    let configs = seen
        .seen()
        .iter()
        .filter(|it| it["node"] == "each")
        .filter(|it| it["fan_out"]["item_count"] == 1)
        .count();
    assert_eq!(configs, 4);
}

// spec: pipeline-utilities §9.7: cancelling the siblings ends their retries, too.
#[tokio::test(start_paused = true)]
async fn cancelled_siblings_do_not_retry() {
    let calls: Arc<AtomicU64> = Arc::default();
    let counted = calls.clone();
    let work = move |cx: Ctx<Snapshot>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let category = if number(&cx, "n") == 0 { "provider_unavailable" } else { "fatal" };
            Err(NodeError::new("x").with_category(category))
        }
    };
    let inner =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let long = Retry::new().max_attempts(9).backoff(RetryBackoff::Constant(Duration::from_secs(60)));
    let graph = outer(each(&inner).instance_middleware(long)).compile().unwrap();
    let error = fail(&graph, json!({"items": [0, 1]})).await;
    assert_eq!(error.derived_category(), "fatal");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}
