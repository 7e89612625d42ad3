//! The abstract harness: three outcomes, and failures in their buckets.

use std::sync::Arc;

use serde_json::json;
use singletree_engine::Snapshot;
use singletree_harness::{
    BucketTable, Error, FailureBucket, Harness, HarnessBuilder, InboundIntent, InboundRequest, Limits,
    SignalArrival,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::base_rig::{Watched, changed, errored, graph, map, message};

const TERMINATING: FailureBucket = FailureBucket::SessionTerminating;
const RETRYABLE: FailureBucket = FailureBucket::RetryableTransient;
const CORRECTABLE: FailureBucket = FailureBucket::UserCorrectable;

fn sessioned() -> HarnessBuilder<Snapshot> {
    Harness::sessioned(graph().compile().unwrap())
}

async fn fail(harness: &Harness<Snapshot>, inbound: InboundRequest) -> (String, FailureBucket, bool) {
    let failure = errored(harness.handle(inbound).await);
    (failure.category, failure.bucket, failure.retry_safe)
}

// spec: harness §5, §5.1
#[tokio::test]
async fn the_three_outcomes_are_told_apart() {
    let harness = sessioned().build();
    for (fields, expected) in [
        (json!({}), "completed"),
        (json!({"waits_for": "x"}), "suspended"),
        (json!({"fails": "provider_unavailable"}), "errored"),
    ] {
        assert_eq!(harness.handle(message(fields)).await.outcome.as_str(), expected);
    }
}

// spec: harness §7.1, §7.2, §7.3, R8, R29: a node's failure is known by its own category.
#[tokio::test]
async fn each_category_of_the_specification_is_in_its_bucket() {
    let harness = sessioned().build();
    let check = async |category: &str, bucket, retry_safe| {
        let found = fail(&harness, message(json!({"fails": category}))).await;
        assert_eq!(found, (category.to_owned(), bucket, retry_safe));
    };
    for category in [
        "session_load_failed",
        "session_state_migration_chain_ambiguous",
        "session_state_migration_missing",
        "state_validation_error",
    ] {
        check(category, TERMINATING, false).await;
    }
    for category in
        ["provider_unavailable", "provider_rate_limit", "provider_model_not_loaded", "session_save_failed"]
    {
        check(category, RETRYABLE, true).await;
    }
    for category in
        ["provider_invalid_request", "suspension_resume_payload_invalid", "provider_authentication"]
    {
        check(category, CORRECTABLE, false).await;
    }
    // Not listed: told as transient, never safe to do again.
    check("weather_too_bad", RETRYABLE, false).await;
    let uncategorised = fail(&harness, message(json!({"fails": "uncategorised"}))).await;
    assert_eq!(uncategorised, ("node_exception".into(), RETRYABLE, false));
}

// spec: harness §10
#[tokio::test]
async fn the_harness_own_categories_are_the_callers_to_mend() {
    let harness = sessioned().build();
    for (inbound, category) in [
        (InboundRequest::default().session(""), "harness_session_id_unresolved"),
        (
            InboundRequest::default().intent(InboundIntent::SignalResume),
            "harness_path_classification_ambiguous",
        ),
        (
            InboundRequest::signal(SignalArrival::for_signal("x", map(json!({})))),
            "harness_signal_correlation_failed",
        ),
    ] {
        assert_eq!(fail(&harness, inbound).await, (category.to_owned(), CORRECTABLE, false));
    }
}

// spec: harness §4, §7.1, §7.2; sessions §10
#[tokio::test]
async fn a_store_that_fails_is_the_sessions_failure() {
    let over = |store| Harness::sessioned(graph().session_store(store).compile().unwrap()).build();
    let turn = || InboundRequest::default().session("s");
    let failed = fail(&over(Watched::that_does_not_load()), turn()).await;
    assert_eq!(failed, ("session_load_failed".into(), TERMINATING, false));
    let failure = errored(over(Watched::that_does_not_save()).handle(turn()).await);
    assert_eq!((failure.category.as_str(), failure.bucket), ("session_save_failed", RETRYABLE));
    // R6: the state that the graph reached is inside.
    let Error::Run { source: singletree_engine::Error::SessionSave { completed: Some(done), .. } } =
        failure.error
    else {
        panic!("{:?}", failure.error)
    };
    assert_eq!(changed(&done.state), json!({"log": ["begin", "end"]}));
    let broken = FaultInjectingStore::new(Arc::new(TestStore::new()), 1, FailedWriteEffect::Before);
    let graph = graph().paused_store(Arc::new(broken)).compile().unwrap();
    let failed = fail(&Harness::sessioned(graph).build(), message(json!({"waits_for": "x"}))).await;
    assert_eq!(failed, ("suspension_persistence_failed".into(), TERMINATING, false));
}

// spec: harness §7.1: without a session there is none to end.
#[tokio::test]
async fn a_stateless_failure_ends_no_session() {
    let harness = Harness::stateless(graph().compile().unwrap()).build();
    let undeclared = fail(&harness, message(json!({"nonsense": 1}))).await;
    assert_eq!(undeclared, ("state_validation_error".into(), CORRECTABLE, false));
    let transient = fail(&harness, message(json!({"fails": "provider_unavailable"}))).await;
    assert_eq!(transient, ("provider_unavailable".into(), RETRYABLE, true));
}

// spec: harness §7: implementations may refine the categories.
#[tokio::test]
async fn an_application_has_the_last_word_on_buckets() {
    let buckets = BucketTable::default().with_override("weather_too_bad", FailureBucket::SessionTerminating);
    let harness = sessioned().buckets(buckets).build();
    let failed = fail(&harness, message(json!({"fails": "weather_too_bad"}))).await;
    assert_eq!(failed, ("weather_too_bad".into(), TERMINATING, false));
}

// spec: harness §7.3 (diagnostic information), INV-16
#[tokio::test]
async fn a_message_is_the_nodes_own_redacted_and_cut() {
    let broken = || message(json!({"fails": "provider_invalid_request"}));
    assert_eq!(errored(sessioned().build().handle(broken()).await).message, "it broke");
    let limits = Limits { diagnostic_bytes: 6, ..Limits::default() };
    let harness = sessioned().redact(|it| it.replace("broke", "ééé")).limits(limits).build();
    assert_eq!(errored(harness.handle(broken()).await).message, "it é…");
}
