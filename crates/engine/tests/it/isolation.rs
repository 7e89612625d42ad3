//! Failure isolation and classification (pipeline-utilities §§6.3, 6.4).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    AttemptPhase, Classification, END, ErrorLink, FailureIsolation, NodeError, Observer, Projection, Retry,
    RetryBackoff, StateUpdate, Subscription, classify_error,
};

use crate::rig::{Builder, Recorder, completed, fail, flaky, int, observed, over, run, text, update};

fn failing(category: &'static str) -> Builder {
    over([int("v"), text("t")]).node("a", flaky(category, 9, json!({}))).edge("a", END).entry("a")
}

fn degraded() -> StateUpdate {
    update(json!({"t": "degraded"}))
}

// spec: pipeline-utilities §6.3: the run goes on with the degraded update; the event has the caught error.
#[tokio::test]
async fn a_caught_failure_is_replaced_and_told() {
    let isolation = FailureIsolation::new("a_isolated", degraded());
    let graph = failing("provider_unavailable").node_middleware("a", isolation).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"v": 3})).await;
    assert_eq!(completed(outcome), json!({"v": 3, "t": "degraded"}));
    let event = json!({
        "by": "",
        "isolated": "a_isolated",
        "namespace": ["a"],
        "lineage": [],
        "attempt": 0,
        "pre": {"v": 3, "t": ""},
        "post": {"t": "degraded"},
        "category": "provider_unavailable",
        "message": "down 0",
        "chain": [[false, "provider_unavailable", "down 0"]],
    });
    assert_eq!(seen.seen()[1], event);
    assert_eq!(seen.told()[2], "0.0 completed a ok");
}

// spec: pipeline-utilities §6.3: outside of a retry it sees the failure of the last attempt, and reports that attempt's
// number.
#[tokio::test]
async fn isolation_outside_of_a_retry_catches_the_last_attempt() {
    let graph = failing("provider_unavailable")
        .node_middleware("a", FailureIsolation::new("gone", degraded()))
        .node_middleware("a", Retry::new().max_attempts(2).backoff(RetryBackoff::Constant(Duration::ZERO)))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome), json!({"v": 0, "t": "degraded"}));
    let told = [
        "0.0 started a",
        "0.0 completed a node_exception",
        "0.1 started a",
        "0.1 completed a node_exception",
        "isolated gone a.1 provider_unavailable",
    ];
    assert_eq!(seen.told(), told);
}

// spec: pipeline-utilities §6.3: both gates must let a failure in.
#[tokio::test]
async fn both_gates_must_agree() {
    type Gate = fn(FailureIsolation) -> FailureIsolation;
    let cases: [(Gate, bool); 6] = [
        (|it| it, true),
        (|it| it.catch(["other", "bad"]), true),
        (|it| it.catch(["other"]), false),
        (|it| it.predicate(|error| error.category() == Some("bad")), true),
        (|it| it.catch(["bad"]).predicate(|_| false), false),
        (|it| it.catch(["node_exception"]), false),
    ];
    for (at, (gate, caught)) in cases.into_iter().enumerate() {
        let isolation = gate(FailureIsolation::new("gate", degraded()));
        let graph = failing("bad").middleware(isolation).compile().unwrap();
        let (outcome, _) = observed(&graph, json!({})).await;
        assert_eq!(outcome.is_ok(), caught, "case {at}");
    }
    // Without a category there is nothing to catch by.
    let graph =
        failing("").middleware(FailureIsolation::new("gate", degraded()).catch([""])).compile().unwrap();
    assert_eq!(fail(&graph, json!({})).await.category(), "node_exception");
}

// spec: pipeline-utilities §6.3: the update by the state that the chain began with; the callback after the event.
#[tokio::test]
async fn the_update_may_depend_on_the_state_and_the_callback_hears_the_error() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = heard.clone();
    let isolation = FailureIsolation::from_function("by_state", |state| {
        let v = state.get("v").unwrap().to_json()?;
        Ok(update(json!({"t": format!("instead of {v}")})))
    })
    .on_caught(move |error| {
        hears.lock().unwrap().push(error.to_string());
        Box::pin(async { Ok(()) })
    });
    let graph = failing("bad").middleware(isolation).compile().unwrap();
    assert_eq!(run(&graph, json!({"v": 4})).await["t"], "instead of 4");
    assert_eq!(*heard.lock().unwrap(), ["down 0"]);

    let by = FailureIsolation::from_function("fails", |_| {
        Err(NodeError::new("nothing instead").with_category("mine"))
    });
    let error = fail(&failing("bad").middleware(by).compile().unwrap(), json!({})).await;
    assert_eq!(error.derived_category(), "mine");
    let caught = FailureIsolation::new("fails", degraded())
        .on_caught(|_| Box::pin(async { Err(NodeError::new("deaf").with_category("mine")) }));
    let error = fail(&failing("bad").middleware(caught).compile().unwrap(), json!({})).await;
    assert_eq!(error.derived_category(), "mine");
}

// spec: graph-engine §6: events without a phase are not filtered by phases.
#[tokio::test]
async fn observers_of_any_phase_hear_of_a_catch() {
    let graph = failing("bad").middleware(FailureIsolation::new("told", degraded())).compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(
        Subscription::from_shared_observer(Arc::new(seen.clone()) as Arc<dyn Observer>)
            .limit_to_phases([AttemptPhase::Suspended])
            .unwrap(),
    );
    run(&graph, json!({})).await;
    graph.drain(None).await.unwrap();
    assert_eq!(seen.told(), ["isolated told a.0 bad"]);
}

#[test]
fn an_isolation_without_a_name_does_not_compile() {
    let error = failing("bad").middleware(FailureIsolation::new("", degraded())).compile().unwrap_err();
    assert_eq!(error.category(), "invalid_declaration");
}

// Around a subgraph the failure comes in the wrapper of the node inside; the derived category looks through it.
#[tokio::test]
async fn around_a_subgraph_the_wrapper_is_looked_through() {
    let inner = failing("provider_unavailable").compile().unwrap();
    let graph = over([int("v"), text("t")])
        .subgraph("s", &inner, Projection::by_name())
        .edge("s", END)
        .entry("s")
        .middleware(FailureIsolation::new("sub", degraded()).catch(["provider_unavailable"]))
        .compile()
        .unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    assert_eq!(completed(outcome)["t"], "degraded");
    let caught = &seen.seen()[2];
    let chain =
        json!([[true, "node_exception", "node 'a' failed"], [false, "provider_unavailable", "down 0"]]);
    assert_eq!((&caught["chain"], &caught["message"]), (&chain, &Value::from("down 0")));
}

/// An error that is its own cause.
#[derive(Debug)]
struct Ouroboros(#[expect(dead_code, reason = "an error with a size has an address")] u8);

impl std::fmt::Display for Ouroboros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("round")
    }
}

impl std::error::Error for Ouroboros {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self)
    }
}

// spec: pipeline-utilities §6.4: the outermost link with a category, else the outermost link; the walk ends.
#[test]
fn classification_walks_the_causes_once() {
    let link = |category: Option<&str>, message: &str| ErrorLink {
        category: category.map(str::to_owned),
        message: message.into(),
        carrier: false,
    };
    let named = NodeError::new("inner").with_category("cause");
    let error = NodeError::new("outer").caused_by(named);
    let expected = Classification {
        chain: vec![link(None, "outer"), link(Some("cause"), "inner")],
        category: Some("cause".into()),
        message: "inner".into(),
    };
    assert_eq!(error.classify(), expected);
    assert_eq!(error.category(), None);

    let plain = Classification { chain: vec![link(None, "round")], category: None, message: "round".into() };
    assert_eq!(classify_error(&Ouroboros(0)), plain);
    assert_eq!(NodeError::from(Ouroboros(0)).classify().category, None);

    let other =
        NodeError::new("outer").with_category("outer").caused_by(NodeError::new("x").with_category("inner"));
    assert_eq!(other.classify().category.as_deref(), Some("outer"));
}

/// An error that lies at the address of its cause.
#[derive(Debug)]
struct Shell(Kernel);

#[derive(Debug)]
struct Kernel(u64);

impl std::fmt::Display for Shell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("shell")
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kernel {}", self.0)
    }
}

impl std::error::Error for Shell {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl std::error::Error for Kernel {}

// spec: pipeline-utilities §6.3: one link for each error of the chain.
#[test]
fn an_error_is_not_taken_for_the_one_that_it_is_the_first_field_of() {
    let classified = classify_error(&Shell(Kernel(7)));
    let messages: Vec<&str> = classified.chain.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(messages, ["shell", "kernel 7"]);
}
