//! Random branches against a model: results and events, and that both are the same every time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_engine::{
    Branch, Branches, Ctx, END, ErrorPolicy, FailureIsolation, FieldShape, Graph, NodeError, NodeResult,
    Reducer, Retry, RetryBackoff, Snapshot,
};

use crate::rig::{field, log, observed, over, update};

const NAMES: [&str; 6] = ["p", "q", "r", "s", "t", "u"];

/// The kind of a branch, the duration of each attempt, and the number of attempts that fail.
#[derive(Debug, Clone)]
struct Plan {
    function: bool,
    when: Option<bool>,
    takes: u64,
    failures: u32,
    attempts: u32,
    isolated: bool,
}

#[derive(Debug, Clone)]
struct Case {
    plans: Vec<Plan>,
    collect: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let failures = prop_oneof![3 => Just(0_u32), 1 => 1_u32..4];
    let plan = (any::<bool>(), any::<Option<bool>>(), 0_u64..4, failures, 1_u32..4, any::<bool>());
    let plan = plan.prop_map(|(function, when, takes, failures, attempts, isolated)| Plan {
        function,
        when,
        takes,
        failures,
        attempts,
        isolated,
    });
    let plans = proptest::collection::vec(plan, 1..=NAMES.len());
    (plans, any::<bool>()).prop_map(|(plans, collect)| Case { plans, collect })
}

async fn work(cx: Ctx<Snapshot>, name: &'static str, plan: Plan) -> NodeResult<Snapshot> {
    if plan.takes > 0 {
        tokio::time::sleep(Duration::from_secs(plan.takes)).await;
    }
    if cx.attempt_index() < plan.failures {
        return Err(NodeError::new("down").with_category("provider_unavailable"));
    }
    Ok(update(json!({"log": [name], "last": name})))
}

fn branch(name: &'static str, plan: &Plan) -> Branch<Snapshot> {
    let body = {
        let plan = plan.clone();
        move |cx| work(cx, name, plan.clone())
    };
    let branch = if plan.function {
        Branch::new().call(body)
    } else {
        let fields = [log("log"), field("last", FieldShape::Str, json!(""))];
        let inner = over(fields).node("work", body).edge("work", END).entry("work").compile().unwrap();
        Branch::new().subgraph(&inner).output("log", "log").output("last", "last")
    };
    let branch = match plan.when {
        Some(holds) => branch.when(move |_| holds),
        None => branch,
    };
    let branch = match plan.isolated {
        // Without `last`, which a sibling or the state before keeps.
        true => {
            branch.middleware(FailureIsolation::new("unit", update(json!({"log": [format!("-{name}")]}))))
        }
        false => branch,
    };
    branch
        .middleware(Retry::new().max_attempts(plan.attempts).backoff(RetryBackoff::Constant(Duration::ZERO)))
}

fn graph(case: &Case) -> Graph<Snapshot> {
    let policy = if case.collect { ErrorPolicy::Collect } else { ErrorPolicy::FailFast };
    let none =
        Branches::new().error_policy(policy).errors_field("errors").error_record(|name, _| json!(name));
    let branches = NAMES
        .iter()
        .zip(&case.plans)
        .fold(none, |branches, (name, plan)| branches.branch(*name, branch(name, plan)));
    let errors = field("errors", FieldShape::Str.list(), json!([])).reducer(Reducer::Append);
    let fields = [log("log"), field("last", FieldShape::Str, json!("")), errors];
    over(fields).branches("fork", branches).edge("fork", END).entry("fork").compile().unwrap()
}

/// The expected result, or none for a failure.
fn model(case: &Case) -> Option<Value> {
    let (mut log, mut last, mut errors) = (vec!["before".to_owned()], "before", Vec::new());
    for (name, plan) in NAMES.into_iter().zip(&case.plans).filter(|(_, plan)| plan.when != Some(false)) {
        match (plan.failures < plan.attempts, plan.isolated, case.collect) {
            (true, _, _) => {
                log.push(name.to_owned());
                last = name;
            }
            (false, true, _) => log.push(format!("-{name}")),
            (false, false, true) => errors.push(name),
            (false, false, false) => return None,
        }
    }
    Some(json!({"log": log, "last": last, "errors": errors}))
}

/// Checks the stream: one terminal for each start, dispatch in order, no events of skipped branches.
fn check_stream(case: &Case, told: &[Value], failed: bool) {
    let (mut open, mut seen, mut begun) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for event in told.iter().filter(|it| it.get("phase").is_some()) {
        let key = (event["step"].as_u64().unwrap(), event["attempt"].as_u64().unwrap());
        let identity = (event["namespace"].clone(), event.get("lineage").cloned());
        if event["phase"] == "started" {
            assert!(seen.insert(key), "{key:?} starts once");
            begun.extend(event["lineage"][0]["branch"].as_str().filter(|_| key.1 == 0).map(str::to_owned));
            open.insert(key, identity);
        } else {
            assert_eq!(open.remove(&key), Some(identity), "{key:?} ends once");
        }
    }
    assert!(failed || open.is_empty(), "{open:?}");
    // spec: pipeline-utilities §11.8: they start in the order of declaration.
    let dispatched =
        NAMES.iter().zip(&case.plans).filter(|(_, it)| it.when != Some(false)).map(|(name, _)| *name);
    let dispatched: Vec<_> = dispatched.collect();
    assert!(dispatched.starts_with(&begun.iter().map(String::as_str).collect::<Vec<_>>()), "{begun:?}");
    assert!(failed || begun.len() == dispatched.len(), "{begun:?}");
    let own: Vec<_> = told.iter().filter(|it| it["node"] == "fork").collect();
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|it| it["branches"]["branch_count"] == dispatched.len()));
}

async fn check(case: Case) {
    let graph = graph(&case);
    let given = json!({"log": ["before"], "last": "before"});
    let (outcome, seen) = observed(&graph, given.clone()).await;
    let expected = model(&case);
    match (outcome, &expected) {
        (Ok(outcome), Some(expected)) => assert_eq!(crate::rig::state(outcome.state()), *expected),
        (Err(error), None) => {
            assert_eq!(
                (error.category(), error.derived_category()),
                ("parallel_branches_branch_failed", "provider_unavailable")
            );
            let before = json!({"log": ["before"], "last": "before", "errors": []});
            assert_eq!(error.recoverable_state().map(crate::rig::state), Some(before));
        }
        (outcome, expected) => panic!("{outcome:?}, not {expected:?}"),
    }
    check_stream(&case, &seen.seen(), expected.is_none());
    let (_, again) = observed(&graph, given).await;
    assert_eq!(again.seen(), seen.seen());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // spec: pipeline-utilities §§11.3–11.5, 11.7, 11.8, 11.10; graph-engine §§5, 6; INV-11.
    #[test]
    fn branches_do_what_their_model_does(case in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(case));
    }
}
