//! Retry (pipeline-utilities §6.1).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_engine::{
    Ctx, END, Graph, NodeError, Projection, Retry, RetryBackoff, SeededRandomSource, Signal, Snapshot,
    is_transient_error,
};
use tokio::time::Instant;

use crate::rig::{Builder, completed, flaky, int, map, observed, over, suspended, update};

const NOW: RetryBackoff = RetryBackoff::Constant(Duration::ZERO);

fn failing(category: &'static str, failures: u32) -> Builder {
    over([int("v")]).node("a", flaky(category, failures, json!({"v": 1}))).edge("a", END).entry("a")
}

// spec: pipeline-utilities §6.1: 2N events for N attempts, all of one step.
#[tokio::test]
async fn each_attempt_has_a_pair_of_events() {
    let builder = failing("provider_rate_limit", 2).node_middleware("a", Retry::new().backoff(NOW));
    let (outcome, seen) = observed(&builder.compile().unwrap(), json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 1}));
    let pairs = [
        "0.0 started a",
        "0.0 completed a node_exception",
        "0.1 started a",
        "0.1 completed a node_exception",
        "0.2 started a",
        "0.2 completed a ok",
    ];
    assert_eq!(seen.told(), pairs);

    let builder =
        failing("provider_rate_limit", 9).node_middleware("a", Retry::new().max_attempts(2).backoff(NOW));
    let (outcome, seen) = observed(&builder.compile().unwrap(), json!({})).await;
    let error = outcome.unwrap_err();
    assert_eq!(singletree_engine::format_error_chain(&error), "node 'a' failed: down 1");
    assert_eq!(seen.told()[2..], ["0.1 started a", "0.1 completed a node_exception"]);
}

// spec: pipeline-utilities §6.1: the default classifier.
#[test]
fn what_is_transient_is_known_by_category_one_level_deep() {
    let check = |category: &str, expected: bool| {
        assert_eq!(is_transient_error(&NodeError::new("x").with_category(category)), expected, "{category}");
    };
    for category in ["provider_unavailable", "provider_rate_limit", "provider_model_not_loaded"] {
        check(category, true);
    }
    for category in [
        "provider_authentication",
        "provider_invalid_model",
        "provider_invalid_request",
        "provider_invalid_response",
        "node_exception",
        "reducer_error",
        "fan_out_empty",
        "checkpoint_not_found",
        "",
    ] {
        check(category, false);
    }
    assert!(!is_transient_error(&NodeError::new("x")));
    assert!(is_transient_error(&NodeError::new("x").mark_transient()));
    // A cause that was given another category is that.
    let cause = NodeError::new("x").with_category("provider_unavailable");
    assert!(!is_transient_error(
        &NodeError::new("y").with_category("provider_invalid_response").caused_by(cause)
    ));
}

// spec: pipeline-utilities §6.1: one carrier is looked through, so a subgraph's retry sees the failure of its node.
#[tokio::test]
async fn a_retry_around_a_subgraph_runs_all_of_it_again() {
    let inner = over([int("v")])
        .node("first", |cx: Ctx<Snapshot>| async move { Ok(update(json!({"v": cx.attempt_index()}))) })
        .node("then", flaky("provider_unavailable", 1, json!({})))
        .edge("first", "then")
        .edge("then", END)
        .entry("first")
        .compile()
        .unwrap();
    let graph = over([int("v")])
        .subgraph("s", &inner, Projection::by_name())
        .edge("s", END)
        .entry("s")
        .node_middleware("s", Retry::new().backoff(NOW))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    // spec: graph-engine §6: the counter reaches the nodes inside.
    assert_eq!(completed(outcome), json!({"v": 1}));
    let told = [
        "0.0 started s/first",
        "0.0 completed s/first ok",
        "1.0 started s/then",
        "1.0 completed s/then node_exception",
        "2.1 started s/first",
        "2.1 completed s/first ok",
        "3.1 started s/then",
        "3.1 completed s/then ok",
    ];
    assert_eq!(seen.told(), told);
}

// spec: graph-engine §6: of several counters the innermost is told.
#[tokio::test]
async fn the_innermost_retry_numbers_the_attempts() {
    let graph = failing("provider_unavailable", 3)
        .node_middleware("a", Retry::new().backoff(NOW))
        .node_middleware("a", Retry::new().max_attempts(2).backoff(NOW))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 1}));
    let attempts: Vec<_> = seen.seen().iter().step_by(2).map(|it| it["attempt"].clone()).collect();
    assert_eq!(attempts, [0, 1, 0, 1]);
}

// spec: pipeline-utilities §6.1: classifier by state, on_retry before each wait, the wait by the attempt's number.
#[tokio::test(start_paused = true)]
async fn classifier_callback_and_backoff_are_the_applications() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = heard.clone();
    let begun = Instant::now();
    let retry = Retry::new()
        .max_attempts(9)
        .classifier(|error, state| {
            let v = state.downcast_ref::<Snapshot>().unwrap().get("v").unwrap().to_json().unwrap();
            error.to_string() != format!("down {v}")
        })
        .backoff(RetryBackoff::from_function(|attempt| Duration::from_secs(10 + u64::from(attempt))))
        .on_retry(move |error, attempt| {
            let line = format!("{:?} {attempt} {error}", begun.elapsed());
            hears.lock().unwrap().push(line);
            Box::pin(async { Ok(()) })
        });
    let graph = failing("whatever", 9).node_middleware("a", retry).compile().unwrap();
    let (outcome, _) = observed(&graph, json!({"v": 2})).await;
    assert_eq!(singletree_engine::format_error_chain(&outcome.unwrap_err()), "node 'a' failed: down 2");
    assert_eq!(*heard.lock().unwrap(), ["0ns 0 down 0", "10s 1 down 1"]);
    assert_eq!(begun.elapsed(), Duration::from_secs(21));
}

// spec: pipeline-utilities §6.1: full jitter below a limit that doubles; INV-11: from the given chance.
#[tokio::test(start_paused = true)]
async fn waits_are_spread_below_a_limit_that_doubles() {
    async fn waits(seed: u64) -> Vec<Duration> {
        let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let notes = times.clone();
        let body = move |_: Ctx<Snapshot>| {
            notes.lock().unwrap().push(Instant::now());
            async { Err(NodeError::new("x").with_category("provider_unavailable")) }
        };
        let graph = over([int("v")]).node("a", body).edge("a", END).entry("a");
        let graph =
            graph.chance(Arc::new(SeededRandomSource::new(seed))).middleware(Retry::new().max_attempts(9));
        drop(observed(&graph.compile().unwrap(), json!({})).await);
        let times = times.lock().unwrap();
        times.windows(2).map(|it| it[1] - it[0]).collect()
    }
    let mut largest = [Duration::ZERO; 8];
    for seed in 0..200 {
        for (at, wait) in waits(seed).await.into_iter().enumerate() {
            largest[at] = largest[at].max(wait);
        }
    }
    for (largest, limit) in largest.into_iter().zip([1, 2, 4, 8, 16, 30, 30, 30]) {
        let limit = Duration::from_secs(limit);
        assert!(
            largest < limit + Duration::from_millis(2) && largest > limit.mul_f64(0.9),
            "{largest:?} of {limit:?}"
        );
    }
    assert_eq!(waits(7).await, waits(7).await);
    assert_ne!(waits(7).await, waits(8).await);
}

// spec: pipeline-utilities §6.1: data that looks like an error is none.
#[tokio::test]
async fn only_failures_are_retried() {
    let graph = over([int("v")])
        .node("a", |cx: Ctx<Snapshot>| async move { Ok(update(json!({"v": cx.attempt_index() + 5}))) })
        .edge("a", END)
        .entry("a")
        .middleware(Retry::new().classifier(|_, _| true))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!((completed(outcome), seen.told().len()), (json!({"v": 5}), 2));
}

#[test]
fn a_retry_without_attempts_does_not_compile() {
    let error = failing("x", 0).middleware(Retry::new().max_attempts(0)).compile().unwrap_err();
    assert_eq!(error.category(), "invalid_declaration");
}

/// A node that fails its first attempt and suspends in its second, until it was answered.
fn waiting() -> Graph<Snapshot> {
    let waits = |cx: Ctx<Snapshot>| async move {
        let answered = cx.snapshot().get("v").unwrap().to_json().unwrap() != json!(0);
        match (cx.attempt_index(), answered) {
            (0, _) | (_, true) => Err(NodeError::new("x").with_category("provider_unavailable")),
            _ => cx.suspend(Signal::new("go").mark_node_completed(false)).await,
        }
    };
    over([int("v")])
        .node("a", waits)
        .edge("a", END)
        .entry("a")
        .middleware(Retry::new().max_attempts(2))
        .middleware(Retry::new().max_attempts(3).backoff(NOW))
        .compile()
        .unwrap()
}

// spec: suspension §3: running again after a pause is no retry: the attempt's number and the remaining attempts stay.
#[tokio::test(start_paused = true)]
async fn a_pause_is_neither_retried_nor_counted_as_an_attempt() {
    let (graph, seen) = (waiting(), crate::rig::Recorder::default());
    graph.attach_observer(seen.clone());
    let paused = suspended(graph.invoke(update(json!({})), Default::default()).await);
    let resumed =
        graph.resume(&paused.identity.invocation_id, map(json!({"v": 1})), Default::default()).await;
    assert_eq!(resumed.unwrap_err().category(), "node_exception");
    graph.drain(None).await.unwrap();
    let told = [
        "0.0 started a",
        "0.0 completed a node_exception",
        "0.1 started a",
        "0.1 suspended a",
        // The same attempt, then the third; then the outer retry begins the inner one anew.
        "1.1 started a",
        "1.1 completed a node_exception",
        "1.2 started a",
        "1.2 completed a node_exception",
        "1.0 started a",
        "1.0 completed a node_exception",
        "1.1 started a",
        "1.1 completed a node_exception",
        "1.2 started a",
        "1.2 completed a node_exception",
    ];
    assert_eq!(seen.told(), told);
}
