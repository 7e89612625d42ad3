//! Random fan-outs against a model: results and events, and that both are the same every time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, ErrorPolicy, FailureIsolation, FanOut, FieldShape, Graph, NodeError, Reducer, Retry,
    RetryBackoff, Snapshot,
};

use crate::fan_out::ints;
use crate::rig::{field, int, observed, over, update};

/// The work of an instance: the duration of each attempt, and the number of attempts that fail.
#[derive(Debug, Clone)]
struct Plan {
    takes: u64,
    failures: u32,
}

#[derive(Debug, Clone)]
struct Case {
    plans: Vec<Plan>,
    limit: i64,
    collect: bool,
    attempts: u32,
    isolated: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let plan = (0_u64..4, prop_oneof![3 => Just(0_u32), 1 => 1_u32..4]);
    let plans = proptest::collection::vec(plan.prop_map(|(takes, failures)| Plan { takes, failures }), 1..7);
    (plans, 1_i64..4, any::<bool>(), 1_u32..4, any::<bool>()).prop_map(
        |(plans, limit, collect, attempts, isolated)| Case { plans, limit, collect, attempts, isolated },
    )
}

/// A fan-out whose instances do as the case says; `running` holds how many run now and ran at most.
fn graph(case: &Case, running: &Arc<[AtomicUsize; 2]>) -> Graph<Snapshot> {
    let (plans, running) = (case.plans.clone(), running.clone());
    let work = move |cx: Ctx<Snapshot>| {
        let index = usize::try_from(crate::fan_out::number(&cx, "n")).unwrap();
        let (plan, running) = (plans[index].clone(), running.clone());
        async move {
            running[1].fetch_max(running[0].fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            if plan.takes > 0 {
                tokio::time::sleep(Duration::from_secs(plan.takes)).await;
            }
            running[0].fetch_sub(1, Ordering::Relaxed);
            let failed = || NodeError::new("down").with_category("provider_unavailable");
            if cx.attempt_index() < plan.failures { Err(failed()) } else { Ok(update(json!({"out": index}))) }
        }
    };
    let inner =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let policy = if case.collect { ErrorPolicy::Collect } else { ErrorPolicy::FailFast };
    let retry = Retry::new().max_attempts(case.attempts).backoff(RetryBackoff::Constant(Duration::ZERO));
    let fan = FanOut::over(&inner)
        .items("items", "n")
        .collect("out", "results")
        .concurrency(case.limit)
        .error_policy(policy)
        .errors_field("errors")
        .error_record(|index, _| json!(index));
    let fan = match case.isolated {
        true => fan.instance_middleware(FailureIsolation::new("unit", update(json!({"out": -1})))),
        false => fan,
    };
    let errors = field("errors", FieldShape::Int.list(), json!([])).reducer(Reducer::Append);
    let builder =
        over([ints("items"), ints("results"), errors]).fan_out("each", fan.instance_middleware(retry));
    builder.edge("each", END).entry("each").compile().unwrap()
}

/// The expected results and errors, or none for a failure.
fn model(case: &Case) -> Option<(Vec<i64>, Vec<i64>)> {
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for (index, plan) in (0_i64..).zip(&case.plans) {
        match (plan.failures < case.attempts, case.isolated, case.collect) {
            (true, _, _) => results.push(index),
            (false, true, _) => results.push(-1),
            (false, false, true) => errors.push(index),
            (false, false, false) => return None,
        }
    }
    Some((results, errors))
}

/// Checks the stream: one terminal for each start, numbers in order; siblings of a failure may lack their ends.
fn check_stream(told: &[Value], failed: bool) {
    let (mut open, mut seen, mut steps) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for event in told.iter().filter(|it| it.get("phase").is_some()) {
        let key = (event["step"].as_u64().unwrap(), event["attempt"].as_u64().unwrap());
        if event["phase"] == "started" {
            assert!(seen.insert(key), "{key:?} starts once");
            open.insert(key, event["namespace"].clone());
            steps.push(key.0);
        } else {
            assert_eq!(open.remove(&key).as_ref(), Some(&event["namespace"]), "{key:?} ends once");
        }
    }
    assert!(steps.is_sorted(), "{steps:?}");
    assert!(failed || open.is_empty(), "{open:?}");
    let own = |it: &Value| it["node"] == "each";
    assert_eq!(told.iter().filter(|it| own(it)).count(), 2);
    assert!(own(&told[0]) && own(&told[told.len() - 1]));
}

async fn check(case: Case) {
    let running = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let items: Vec<usize> = (0..case.plans.len()).collect();
    let graph = graph(&case, &running);
    let (outcome, seen) = observed(&graph, json!({"items": items})).await;
    let expected = model(&case);
    match (outcome, &expected) {
        (Ok(outcome), Some((results, errors))) => {
            let state = crate::rig::state(outcome.state());
            assert_eq!(state, json!({"items": items, "results": results, "errors": errors}));
        }
        (Err(error), None) => assert_eq!(error.derived_category(), "provider_unavailable"),
        (outcome, expected) => panic!("{outcome:?}, not {expected:?}"),
    }
    check_stream(&seen.seen(), expected.is_none());
    assert!(running[1].load(Ordering::Relaxed) <= usize::try_from(case.limit).unwrap());
    let (_, again) = observed(&graph, json!({"items": items})).await;
    assert_eq!(again.seen(), seen.seen());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // spec: pipeline-utilities §§9.2–9.5, 9.7; graph-engine §§5, 6; INV-11.
    #[test]
    fn a_fan_out_does_what_its_model_does(case in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(case));
    }
}
