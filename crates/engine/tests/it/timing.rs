//! Timing (pipeline-utilities §6.2).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_engine::{
    END, FailureIsolation, MonotonicClock, NodeError, Projection, Retry, RetryBackoff, StateUpdate,
    TimedOutcome, Timing, TimingRecord,
};

use crate::rig::{Builder, completed, fail, flaky, int, observed, over, run, sets};

/// A clock that goes on by 5 ms whenever it is read.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl MonotonicClock for Ticking {
    fn elapsed_since_origin(&self) -> Duration {
        Duration::from_millis(5 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

type Book = Arc<Mutex<Vec<TimingRecord>>>;

fn writes(
    book: &Book,
) -> impl Fn(TimingRecord) -> std::future::Ready<Result<(), NodeError>> + Send + Sync + 'static {
    let book = book.clone();
    move |record| {
        book.lock().unwrap().push(record);
        std::future::ready(Ok(()))
    }
}

fn record(node: &str, outcome: TimedOutcome, category: Option<&str>) -> TimingRecord {
    let exception_category = category.map(str::to_owned);
    TimingRecord { node_name: node.into(), duration_ms: 5.0, outcome, exception_category }
}

fn failing(category: &'static str, failures: u32) -> Builder {
    over([int("v")]).node("a", flaky(category, failures, json!({"v": 1}))).edge("a", END).entry("a")
}

// spec: pipeline-utilities §6.2: one record for each dispatch; two reads of the clock.
#[tokio::test]
async fn a_dispatch_is_timed_with_two_reads_of_its_own_clock() {
    let (book, clock) = (Book::default(), Arc::new(Ticking::default()));
    let timing = Timing::for_node("a", writes(&book)).clock(clock.clone());
    let graph = failing("provider_unavailable", 1).node_middleware("a", timing).compile().unwrap();
    fail(&graph, json!({})).await;
    run(&graph, json!({})).await;
    let expected = [
        record("a", TimedOutcome::Exception, Some("provider_unavailable")),
        record("a", TimedOutcome::Success, None),
    ];
    assert_eq!(*book.lock().unwrap(), expected);
    assert_eq!(clock.0.load(Ordering::Relaxed), 4);
}

// spec: pipeline-utilities §6.2: the form for a whole graph knows each node's name; a carrier shows its own category.
#[tokio::test]
async fn a_timing_of_a_graph_has_each_nodes_name() {
    let book = Book::default();
    let timing = || Timing::for_each_site(writes(&book)).clock(Arc::new(Ticking::default()));
    let inner = failing("bad", 1).compile().unwrap();
    let graph = over([int("v")])
        .node("first", sets(json!({"v": 3})))
        .subgraph("s", &inner, Projection::by_name())
        .edge("first", "s")
        .edge("s", END)
        .entry("first")
        .middleware(timing())
        .compile()
        .unwrap();
    fail(&graph, json!({})).await;
    let expected = [
        record("first", TimedOutcome::Success, None),
        record("s", TimedOutcome::Exception, Some("node_exception")),
    ];
    assert_eq!(*book.lock().unwrap(), expected);
    // A named one does not know the others' names.
    let named = || {
        over([int("v")]).node("a", sets(json!({}))).node("b", sets(json!({}))).edge("a", "b").edge("b", END)
    };
    let compiled = named().entry("a").middleware(Timing::for_node("a", writes(&book))).compile();
    assert_eq!(compiled.unwrap_err().category(), "invalid_declaration");
}

// spec: pipeline-utilities §6.2: outside of a retry the whole, inside of it each attempt.
#[tokio::test]
async fn timing_composes_with_retry_both_ways() {
    for (outside, expected) in [(true, 1), (false, 3)] {
        let book = Book::default();
        let retry = Retry::new().backoff(RetryBackoff::Constant(Duration::ZERO));
        let timing = Timing::for_each_site(writes(&book));
        let builder = failing("provider_unavailable", 2);
        let builder = if outside {
            builder.node_middleware("a", timing).node_middleware("a", retry)
        } else {
            builder.node_middleware("a", retry).node_middleware("a", timing)
        };
        run(&builder.compile().unwrap(), json!({})).await;
        assert_eq!(book.lock().unwrap().len(), expected);
    }
}

// spec: pipeline-utilities §6.2: the error of the callback is the node's failure.
#[tokio::test]
async fn a_failed_callback_is_the_nodes_failure() {
    let timing = || Timing::for_each_site(|_| async { Err(NodeError::new("full").with_category("mine")) });
    let graph = failing("x", 0).node_middleware("a", timing()).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!((error.category(), error.derived_category()), ("node_exception", "mine"));
    let isolated = failing("x", 0)
        .node_middleware("a", FailureIsolation::new("timed", StateUpdate::new()))
        .node_middleware("a", timing())
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&isolated, json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 0}));
    assert_eq!(seen.told(), ["0.0 started a", "isolated timed a.0 mine", "0.0 completed a ok"]);
}
