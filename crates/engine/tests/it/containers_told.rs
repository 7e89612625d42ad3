//! The configuration of a container in its events, complete each time (graph-engine §6).

use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::BoxError;
use singletree_engine::{
    Branch, Branches, Ctx, END, EmptyFanOutPolicy, ErrorPolicy, FanOut, NodeError, Retry, RetryBackoff,
    Snapshot, StateUpdate,
};

use crate::fan_out::{around, each, number, tenfold};
use crate::rig::{Builder, flaky, int, log, observed, over, sets};

/// Asserts that each event of the node carries this under the key, and no other event does.
async fn told(builder: Builder, given: Value, (key, node, config): (&str, &str, Value), phases: &[&str]) {
    let (_, seen) = observed(&builder.compile().unwrap(), given).await;
    let seen = seen.seen();
    let (own, others): (Vec<_>, Vec<_>) = seen.iter().partition(|it| it["node"] == node);
    let found: Vec<_> = own.iter().map(|it| it["phase"].as_str().unwrap()).collect();
    assert_eq!(found, phases, "{config}");
    assert!(own.iter().all(|it| it[key] == config), "{config}: {own:?}");
    assert!(others.iter().all(|it| it.get(key).is_none()), "{config}: {others:?}");
}

fn again() -> Retry {
    Retry::new().max_attempts(2).backoff(RetryBackoff::Constant(Duration::ZERO)).classifier(|_, _| true)
}

const ONCE: &[&str] = &["started", "completed"];
const TWICE: &[&str] = &["started", "completed", "started", "completed"];

// spec: graph-engine §6 fan_out_config: all four keys on each started and completed event, failed and retried ones,
// too.
#[tokio::test]
async fn every_event_of_a_fan_out_says_how_it_is_configured() {
    type Fan = FanOut<Snapshot>;
    let config = |count: u64, concurrency: Value, policy: &str| json!({"item_count": count, "concurrency": concurrency, "error_policy": policy, "parent_node_name": "each"});
    let failing = || {
        let body = |cx: Ctx<Snapshot>| {
            let failed = Err(NodeError::new(format!("no {}", number(&cx, "n"))));
            std::future::ready(failed as Result<StateUpdate, _>)
        };
        over([int("n"), int("base"), int("out")]).node("work", body).edge("work", END).entry("work").compile()
    };
    let failing = || each(&failing().unwrap());
    let plain = || each(&tenfold());
    let empty = json!({"items": []});
    let three = json!({"items": [1, 2, 3]});
    let cases: [(Fan, Value, Value); 8] = [
        (plain(), three.clone(), config(3, json!(10), "fail_fast")),
        (plain().concurrency(2), three.clone(), config(3, json!(2), "fail_fast")),
        (plain().unbounded(), three.clone(), config(3, json!(null), "fail_fast")),
        (
            plain().concurrency_by(|_: &Snapshot| Ok::<_, BoxError>(Some(7))),
            three.clone(),
            config(3, json!(7), "fail_fast"),
        ),
        (failing(), three.clone(), config(3, json!(10), "fail_fast")),
        (failing().error_policy(ErrorPolicy::Collect), three.clone(), config(3, json!(10), "collect")),
        (plain(), empty.clone(), config(0, json!(10), "fail_fast")),
        (plain().on_empty(EmptyFanOutPolicy::Noop), empty, config(0, json!(10), "fail_fast")),
    ];
    for (fan, given, config) in cases {
        told(around(fan), given, ("fan_out", "each", config), ONCE).await;
    }
    let retried = around(failing()).node_middleware("each", again());
    told(retried, three, ("fan_out", "each", config(3, json!(10), "fail_fast")), TWICE).await;
}

// spec: graph-engine §6 parallel_branches_config: the declared branches and the number of dispatched ones.
#[tokio::test]
async fn every_event_of_branches_says_how_they_are_configured() {
    type Make = fn() -> Branches<Snapshot>;
    let config = |names: &[&str], count: u64, policy: &str| json!({"branch_names": names, "branch_count": count, "error_policy": policy, "parent_node_name": "fork"});
    let fork =
        |branches| over([int("n"), log("errors")]).branches("fork", branches).edge("fork", END).entry("fork");
    fn one(name: &str, value: Value) -> Branches<Snapshot> {
        Branches::new().branch(name, Branch::new().call(sets(value)))
    }
    fn broken() -> Branch<Snapshot> {
        Branch::new().call(flaky("c", 1, json!({})))
    }
    let cases: [(Make, Value); 4] = [
        (|| one("a", json!({"n": 1})), config(&["a"], 1, "fail_fast")),
        (
            || one("a", json!({})).branch("b", Branch::new().call(sets(json!({}))).when(|_| false)),
            config(&["a", "b"], 1, "fail_fast"),
        ),
        (|| one("b", json!({})).branch("a", broken()), config(&["b", "a"], 2, "fail_fast")),
        (
            || one("a", json!({})).branch("b", broken()).error_policy(ErrorPolicy::Collect),
            config(&["a", "b"], 2, "collect"),
        ),
    ];
    for (make, config) in cases {
        told(fork(make()), json!({}), ("branches", "fork", config), ONCE).await;
    }
    let retried = fork(one("a", json!({})).branch("b", broken())).node_middleware("fork", again());
    told(retried, json!({}), ("branches", "fork", config(&["a", "b"], 2, "fail_fast")), TWICE).await;
}
