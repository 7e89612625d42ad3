//! Fan-out: inputs, count, concurrency and outputs (pipeline-utilities §§9.1–9.4).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, EmptyFanOutPolicy, FanOut, FieldShape, Graph, Limits, NodeError, Reducer, Snapshot, StateUpdate,
};

use crate::rig::{Builder, completed, described, fail, field, int, observed, over, run, sets, text, update};

pub(crate) fn ints(name: &'static str) -> singletree_engine::FieldSpec {
    field(name, FieldShape::Int.list(), json!([])).reducer(Reducer::Append)
}

pub(crate) fn number(cx: &Ctx<Snapshot>, name: &str) -> i64 {
    cx.snapshot().get(name).unwrap().to_json().unwrap().as_i64().unwrap()
}

/// An inner graph that puts ten times its `n` plus its `base` into `out`.
pub(crate) fn tenfold() -> Graph<Snapshot> {
    let work = |cx: Ctx<Snapshot>| async move {
        Ok(update(json!({"out": 10 * number(&cx, "n") + number(&cx, "base")})))
    };
    over([int("n"), int("base"), int("out")])
        .node("work", work)
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap()
}

/// A graph of one fan-out, over `items`, with `results`, `count` and `more`.
pub(crate) fn around(fan: FanOut<Snapshot>) -> Builder {
    let fields = [ints("items"), ints("results"), int("count"), int("base"), ints("more")];
    over(fields).fan_out("each", fan).edge("each", END).entry("each")
}

pub(crate) fn each(graph: &Graph<Snapshot>) -> FanOut<Snapshot> {
    FanOut::over(graph).items("items", "n").collect("out", "results")
}

fn left(base: Value, more: Value) -> Value {
    let mut state = json!({"items": [], "results": [], "count": 0, "base": 0, "more": []});
    for (name, value) in base.as_object().unwrap().iter().chain(more.as_object().unwrap()) {
        state[name] = value.clone();
    }
    state
}

// spec: pipeline-utilities §§9.1, 9.3: an instance for each item; the list of values through the reducer.
#[tokio::test]
async fn each_item_is_worked_on_by_an_instance_of_its_own() {
    let graph = around(each(&tenfold()).count_field("count")).compile().unwrap();
    let given = json!({"items": [3, 1, 2], "results": [0]});
    let done = run(&graph, given.clone()).await;
    assert_eq!(done, left(given, json!({"results": [0, 30, 10, 20], "count": 3})));
}

// spec: pipeline-utilities §9.1: inputs are copied into each instance; the rest are its schema's defaults.
#[tokio::test]
async fn inputs_go_into_every_instance_and_extra_outputs_come_back_as_a_list() {
    let fan = each(&tenfold()).input("base", "base").extra_output("more", "n");
    let graph = around(fan).compile().unwrap();
    let given = json!({"items": [3, 1], "base": 5});
    let done = run(&graph, given.clone()).await;
    assert_eq!(done, left(given, json!({"results": [35, 15], "more": [3, 1]})));
}

// spec: pipeline-utilities §9.1: a fixed count, or one by the state; nothing is projected for an instance.
#[tokio::test]
async fn a_count_runs_so_many_instances() {
    let fan = || FanOut::over(&tenfold()).input("n", "base").collect("out", "results");
    let fixed = around(fan().count(3)).compile().unwrap();
    assert_eq!(run(&fixed, json!({"base": 2})).await["results"], json!([20, 20, 20]));
    let by = |state: &Snapshot| {
        Ok::<_, std::fmt::Error>(state.get("base").unwrap().to_json().unwrap().as_i64().unwrap())
    };
    let by = around(fan().count_by(by)).compile().unwrap();
    assert_eq!(run(&by, json!({"base": 2})).await["results"], json!([20, 20]));
}

// spec: pipeline-utilities §§9.1, 9.2: a wrong result of a function is the fan-out's failure, by category.
#[tokio::test]
async fn what_cannot_be_resolved_is_the_fan_outs_failure() {
    type Build = fn(FanOut<Snapshot>) -> FanOut<Snapshot>;
    let cases: [(Build, &str, &str); 6] = [
        (
            |it| it.count_by(|_| Ok::<_, NodeErrorless>(-1)),
            "fan_out_invalid_count",
            "the count is -1, which is negative",
        ),
        (
            |it| it.count(1).concurrency_by(|_| Ok::<_, NodeErrorless>(Some(0))),
            "fan_out_invalid_concurrency",
            "the concurrency is 0, which is not positive",
        ),
        (
            |it| it.count(0).concurrency_by(|_| Ok::<_, NodeErrorless>(Some(-2))),
            "fan_out_invalid_concurrency",
            "the concurrency is -2, which is not positive",
        ),
        (|it| it.count(0), "fan_out_empty", "there is nothing to fan out over"),
        (|it| it.count_by(|_| Err::<i64, _>("who knows")), "node_exception", "who knows"),
        (
            |it| it.count_by(|_| -> Result<i64, NodeErrorless> { panic!("no") }),
            "node_exception",
            "panicked: no",
        ),
    ];
    for (build, category, message) in cases {
        let fan = build(FanOut::over(&tenfold()).collect("out", "results")).count_field("count");
        let graph = around(fan).compile().unwrap();
        let (outcome, seen) = observed(&graph, json!({"count": 7})).await;
        let error = outcome.unwrap_err();
        let before = left(json!({"count": 7}), json!({}));
        assert_eq!(described(&error), ("node_exception", Some("each".into()), Some(before)), "{category}");
        assert_eq!(error.derived_category(), category);
        assert!(
            singletree_engine::format_error_chain(&error)
                .starts_with(&format!("node 'each' failed: {message}"))
        );
        // R22: one pair, also where there is nothing to run.
        assert_eq!(seen.told(), ["0.0 started each", "0.0 completed each node_exception"]);
    }
}

type NodeErrorless = std::fmt::Error;

// spec: pipeline-utilities §9.1: an empty fan-out may be declared to be no failure.
#[tokio::test]
async fn an_empty_fan_out_may_do_nothing() {
    let fan = each(&tenfold()).on_empty(EmptyFanOutPolicy::Noop).count_field("count").concurrency(3);
    let graph = around(fan).compile().unwrap();
    let given = json!({"results": [1], "count": 7});
    let (outcome, seen) = observed(&graph, given.clone()).await;
    assert_eq!(completed(outcome), left(given, json!({"count": 0})));
    assert_eq!(seen.told(), ["0.0 started each", "0.0 completed each ok"]);
    let config =
        json!({"item_count": 0, "concurrency": 3, "error_policy": "fail_fast", "parent_node_name": "each"});
    assert_eq!([&seen.seen()[0]["fan_out"], &seen.seen()[1]["fan_out"]], [&config, &config]);
}

/// An inner graph that notes when its instances begin and end, and waits the longer the smaller its `n`.
fn watched(book: &Arc<Mutex<Vec<String>>>, most: &Arc<AtomicUsize>) -> Graph<Snapshot> {
    let (book, most, running) = (book.clone(), most.clone(), Arc::new(AtomicUsize::new(0)));
    let work = move |cx: Ctx<Snapshot>| {
        let (book, most, running) = (book.clone(), most.clone(), running.clone());
        async move {
            let n = number(&cx, "n");
            book.lock().unwrap().push(format!("+{n}"));
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(10 - n.unsigned_abs())).await;
            running.fetch_sub(1, Ordering::Relaxed);
            book.lock().unwrap().push(format!("-{n}"));
            Ok(update(json!({"out": n})))
        }
    };
    over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap()
}

// spec: pipeline-utilities §§9.2, 9.4: starts in order, at most so many at once, merged in order whatever ends first.
#[tokio::test(start_paused = true)]
async fn instances_start_in_order_and_are_merged_in_order() {
    type Build = fn(FanOut<Snapshot>) -> FanOut<Snapshot>;
    let cases: [(Build, usize, &str); 5] = [
        (|it| it.concurrency(1), 1, "+0 -0 +1 -1 +2 -2 +3 -3"),
        (|it| it.concurrency(2), 2, "+0 +1 -1 +2 -0 +3 -2 -3"),
        (|it| it.unbounded(), 4, "+0 +1 +2 +3 -3 -2 -1 -0"),
        (|it| it, 4, "+0 +1 +2 +3 -3 -2 -1 -0"),
        (|it| it.concurrency_by(|_| Ok::<_, NodeErrorless>(None)), 4, "+0 +1 +2 +3 -3 -2 -1 -0"),
    ];
    for (build, at_once, order) in cases {
        let (book, most) = (Arc::default(), Arc::default());
        let graph = around(build(each(&watched(&book, &most)))).compile().unwrap();
        assert_eq!(run(&graph, json!({"items": [0, 1, 2, 3]})).await["results"], json!([0, 1, 2, 3]));
        assert_eq!((book.lock().unwrap().join(" ").as_str(), most.load(Ordering::Relaxed)), (order, at_once));
    }
}

// More instances than run at once by default.
#[tokio::test(start_paused = true)]
async fn ten_instances_run_at_once_unless_it_is_declared() {
    let (book, most) = (Arc::default(), Arc::default());
    let graph = around(each(&watched(&book, &most))).compile().unwrap();
    run(&graph, json!({"items": vec![9; 30]})).await;
    assert_eq!(most.load(Ordering::Relaxed), 10);
}

// spec: pipeline-utilities §9.3: the parent's reducer gets the engine-made list.
#[tokio::test]
async fn any_reducer_that_takes_a_list_collects() {
    let lists = field("out", FieldShape::Int.list(), json!([7]));
    let maps = field("out", FieldShape::Dict(Box::new(FieldShape::Int)), json!({"a": 1}));
    let target = |reducer, shape, default| field("results", shape, default).reducer(reducer);
    let dict = || FieldShape::Dict(Box::new(FieldShape::Int));
    let cases = [
        (lists.clone(), target(Reducer::ConcatFlatten, FieldShape::Int.list(), json!([1])), json!([1, 7, 7])),
        (lists, target(Reducer::Append, FieldShape::Int.list().list(), json!([])), json!([[7], [7]])),
        (maps, target(Reducer::MergeAll, dict(), json!({"b": 2})), json!({"a": 1, "b": 2})),
        (int("out"), target(Reducer::LastWriteWins, FieldShape::Int.list(), json!([5])), json!([0, 0])),
    ];
    for (out, results, expected) in cases {
        let inner = over([out]).node("x", sets(json!({}))).edge("x", END).entry("x").compile().unwrap();
        let fan = FanOut::over(&inner).count(2).collect("out", "results");
        let graph = over([results]).fan_out("each", fan).edge("each", END).entry("each").compile().unwrap();
        assert_eq!(run(&graph, json!({})).await["results"], expected);
    }
}

// spec: pipeline-utilities §9.3: a reducer that cannot merge the list fails as any merge does.
#[tokio::test]
async fn a_reducer_that_refuses_the_list_is_a_reducer_error() {
    let fan = FanOut::over(&tenfold()).count(2).collect("out", "results");
    // A map that is declared as one is refused when the graph is compiled.
    let results = field("results", FieldShape::Any, json!({})).reducer(Reducer::Merge);
    let graph = over([results]).fan_out("each", fan).edge("each", END).entry("each").compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    let error = outcome.unwrap_err();
    assert_eq!(described(&error), ("reducer_error", Some("each".into()), Some(json!({"results": {}}))));
    assert_eq!(seen.told().last().unwrap(), "0.0 completed each reducer_error");
}

// spec: pipeline-utilities §9.1: an item that the inner graph cannot take is that instance's failure.
#[tokio::test]
async fn an_item_of_another_type_is_a_failed_instance() {
    let words = field("items", FieldShape::Any.list(), json!([]));
    let fan = each(&tenfold());
    let graph = over([words, ints("results")]).fan_out("each", fan).edge("each", END).entry("each");
    let error = fail(&graph.compile().unwrap(), json!({"items": [1, "two"]})).await;
    assert_eq!(described(&error).0, "node_exception");
    assert_eq!(error.derived_category(), "state_validation_error");
}

// spec: pipeline-utilities §9.1: lists spread as items keep their shape.
#[tokio::test]
async fn lists_may_be_items() {
    let sum = |cx: Ctx<Snapshot>| async move {
        let list = cx.snapshot().get("part").unwrap().as_list().unwrap().clone();
        let sum: i64 = list.iter().map(|it| it.json().unwrap().as_i64().unwrap()).sum();
        Ok(update(json!({"out": sum})))
    };
    let inner =
        over([ints("part"), int("out")]).node("sum", sum).edge("sum", END).entry("sum").compile().unwrap();
    let parts = field("parts", FieldShape::Int.list().list(), json!([]));
    let fan = FanOut::over(&inner).items("parts", "part").collect("out", "results");
    let graph = over([parts, ints("results")])
        .fan_out("each", fan)
        .edge("each", END)
        .entry("each")
        .compile()
        .unwrap();
    assert_eq!(run(&graph, json!({"parts": [[1, 2], [], [3]]})).await["results"], json!([3, 0, 3]));
}

// A fan-out is one node of a typed graph, too; a function alone can be fanned out over.
#[tokio::test]
async fn a_typed_graph_fans_out_over_a_function() {
    use singletree_engine::{InvokeOptions, NodeResult, RunOutcome};
    use singletree_macros::State;

    #[derive(Debug, State)]
    #[state(engine = singletree_engine)]
    struct Word {
        text: String,
        length: u64,
    }

    #[derive(Debug, State)]
    #[state(engine = singletree_engine)]
    struct Text {
        words: Vec<String>,
        #[state(append)]
        lengths: Vec<u64>,
        at_once: i64,
    }

    async fn measure(cx: Ctx<Word>) -> NodeResult<Word> {
        Ok(Word::update().length(cx.state().text.len() as u64))
    }

    let measure = Graph::single_node("measure", measure).unwrap();
    let fan = FanOut::<Text>::over(&measure)
        .items("words", "text")
        .collect("length", "lengths")
        .concurrency_by(|state: &Text| Ok::<_, NodeErrorless>(Some(state.at_once)));
    let graph =
        Graph::<Text>::builder().fan_out("each", fan).edge("each", END).entry("each").compile().unwrap();
    let given = Text::update().words(["to".to_owned(), "measure".to_owned()]).at_once(1);
    let outcome = graph.invoke(given, InvokeOptions::new()).await.unwrap();
    let RunOutcome::Completed(done) = outcome else { panic!("it completes") };
    assert_eq!(done.state.lengths, [2, 7]);
}

// INV-12: more instances than the limit are refused before any of them begins, whoever catches errors around them.
#[tokio::test]
async fn instances_have_a_limit() {
    let fan = FanOut::over(&tenfold()).count_by(|_| Ok::<_, NodeErrorless>(i64::MAX));
    let graph = around(fan)
        .limits(Limits { instances: 5, ..Limits::default() })
        .middleware(singletree_engine::FailureIsolation::new("never", StateUpdate::new()))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.category(), error.to_string()),
        ("invocation_limit_exceeded", "the limit instances of 5 was reached".into())
    );
    assert_eq!(seen.told(), [""; 0]);
}

// spec: graph-engine §5; INV-11: the same events in the same order, whatever runs at once.
#[tokio::test]
async fn the_same_run_tells_the_same_events() {
    let graph = around(each(&tenfold()).concurrency(3)).compile().unwrap();
    let mut runs = Vec::new();
    for _ in 0..20 {
        let (outcome, seen) = observed(&graph, json!({"items": [5, 4, 3, 2, 1]})).await;
        runs.push((completed(outcome), seen.seen()));
    }
    assert!(runs.windows(2).all(|it| it[0] == it[1]));
    assert_eq!(runs[0].1.len(), 12);
}

// spec: pipeline-utilities §9.2: nothing that one instance waits for holds up another, or other tasks.
#[tokio::test]
async fn a_long_fan_out_lets_others_have_a_turn() {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let receiver = Arc::new(tokio::sync::Mutex::new(Some(receiver)));
    let work = move |_: Ctx<Snapshot>| {
        let receiver = receiver.clone();
        async move {
            // The first instance waits for a task that only runs when this one lets it.
            match receiver.lock().await.take() {
                Some(receiver) => receiver.await.map(|()| StateUpdate::new()).map_err(NodeError::from),
                None => Ok(StateUpdate::new()),
            }
        }
    };
    let inner = over([text("t")]).node("x", work).edge("x", END).entry("x").compile().unwrap();
    let fan = FanOut::over(&inner).count(2_000);
    let graph = over([text("t")]).fan_out("each", fan).edge("each", END).entry("each").compile().unwrap();
    let told = tokio::spawn(async move { sender.send(()) });
    assert_eq!(run(&graph, json!({})).await, json!({"t": ""}));
    told.await.unwrap().unwrap();
}
