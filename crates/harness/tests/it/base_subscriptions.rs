//! The abstract harness: coordinators, also such that fail.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};

use serde_json::json;
use singletree_durable::{
    BoxError, BoxFuture, InvocationId, PausedRecord, PausedStatus, PausedStore, TenantId,
};
use singletree_engine::{Descriptor, Graph, Snapshot};
use singletree_harness::{
    Error, FailureBucket, Harness, HarnessBuilder, InboundRequest, MemoryCoordinator, SignalCoordinator,
    SignalTarget,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::base_rig::{Watched, errored, graph, message, session, signal, suspended};

fn waits() -> InboundRequest {
    message(json!({"waits_for": "approval"})).session("s")
}

/// The graphs count from 1: the first invocation.
fn first() -> InvocationId {
    InvocationId::parse("id-1").unwrap()
}

async fn record(store: &TestStore) -> Option<PausedRecord> {
    PausedStore::load(store, &TenantId::single(), &first()).await.unwrap()
}

fn over(store: &TestStore, sessions: &Arc<Watched>) -> Graph<Snapshot> {
    graph().session_store(sessions.clone()).paused_store(Arc::new(store.clone())).compile().unwrap()
}

fn full() -> Arc<MemoryCoordinator> {
    Arc::new(MemoryCoordinator::with_max_subscriptions(0))
}

async fn fails_to_subscribe(harness: HarnessBuilder<Snapshot>, why: &str) {
    let report = harness.build().handle(waits()).await;
    assert!(report.invoked.is_some());
    let failure = errored(report);
    assert_eq!(failure.category, "harness_signal_subscription_failed");
    assert_eq!(failure.message, format!("the signal 'approval' could not be subscribed to: {why}"));
    // The turn ran up to its pause: the same again would do that twice.
    assert_eq!((failure.bucket, failure.retry_safe), (FailureBucket::RetryableTransient, false));
}

// spec: harness §6, §10, R32
#[tokio::test]
async fn a_pause_without_a_subscription_is_an_error_and_leaves_no_record() {
    let (store, sessions) = (TestStore::new(), Watched::new());
    let harness = Harness::sessioned(over(&store, &sessions))
        .coordinator(full())
        .paused_store(Arc::new(store.clone()), TenantId::single());
    fails_to_subscribe(harness, "0 invocations wait already").await;
    assert_eq!(record(&store).await, None);
    // The state that was saved with the pause stands.
    assert_eq!(sessions.stored("s", "log").await, Some(json!(["begin"])));
}

#[tokio::test]
async fn a_record_that_cannot_be_deleted_changes_nothing_about_the_failure() {
    let (store, sessions) = (TestStore::new(), Watched::new());
    // It was not told of the store.
    let harness = Harness::sessioned(over(&store, &sessions)).coordinator(full());
    fails_to_subscribe(harness, "0 invocations wait already").await;
    assert_eq!(record(&store).await.map(|it| it.status), Some(PausedStatus::Suspended));
    // Or the store fails.
    let broken = FaultInjectingStore::new(Arc::new(store.clone()), 1, FailedWriteEffect::Before);
    let harness = Harness::sessioned(over(&store, &sessions))
        .coordinator(full())
        .paused_store(Arc::new(broken), TenantId::single());
    fails_to_subscribe(harness, "0 invocations wait already").await;
    assert_eq!(record(&store).await.map(|it| it.status), Some(PausedStatus::Suspended));
}

/// Answers look-ups from a list, and records the look-ups.
#[derive(Debug, Default)]
struct Scripted {
    answers: Mutex<VecDeque<Result<Option<InvocationId>, &'static str>>>,
    hangs: bool,
    asked: Mutex<Vec<String>>,
}

impl SignalCoordinator for Scripted {
    fn subscribe<'a>(
        &'a self,
        descriptor: &'a Descriptor,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        self.asked.lock().unwrap().push(format!("subscribe {invocation} to {}", descriptor.signal_id));
        if self.hangs { Box::pin(pending()) } else { Box::pin(ready(Ok(()))) }
    }

    fn resolve_signal<'a>(
        &'a self,
        _: &'a SignalTarget,
    ) -> BoxFuture<'a, Result<Option<InvocationId>, BoxError>> {
        let answer = self.answers.lock().unwrap().pop_front().unwrap();
        Box::pin(ready(answer.map_err(Into::into)))
    }

    fn unsubscribe<'a>(&'a self, invocation: &'a InvocationId) -> BoxFuture<'a, Result<(), BoxError>> {
        self.asked.lock().unwrap().push(format!("unsubscribe {invocation}"));
        if self.hangs { Box::pin(pending()) } else { Box::pin(ready(Err("it is down".into()))) }
    }
}

// spec: harness §5.3 step 4: not even a coordinator that hangs blocks a turn.
#[tokio::test(start_paused = true)]
async fn a_coordinator_that_hangs_has_failed() {
    let (store, sessions) = (TestStore::new(), Watched::new());
    let scripted = Arc::new(Scripted { hangs: true, ..Scripted::default() });
    let harness = Harness::sessioned(over(&store, &sessions))
        .coordinator(scripted.clone())
        .paused_store(Arc::new(store.clone()), TenantId::single());
    fails_to_subscribe(harness, "deadline has elapsed").await;
    assert_eq!(record(&store).await, None);
    // The subscription may have landed: it is taken back.
    assert_eq!(*scripted.asked.lock().unwrap(), ["subscribe id-1 to approval", "unsubscribe id-1"]);
}

/// A paused invocation behind a coordinator that answers by its script.
async fn paused(
    answers: [Result<Option<InvocationId>, &'static str>; 2],
) -> (Harness<Snapshot>, Arc<Scripted>) {
    let scripted = Arc::new(Scripted { answers: Mutex::new(answers.into()), ..Scripted::default() });
    let graph = graph().compile().unwrap();
    let harness = Harness::sessioned(graph).coordinator(scripted.clone()).build();
    suspended(harness.handle(waits()).await);
    scripted.asked.lock().unwrap().clear();
    (harness, scripted)
}

// spec: harness §10
#[tokio::test]
async fn a_look_up_that_fails_is_a_failed_correlation() {
    let (harness, scripted) = paused([Err("it is down"), Ok(None)]).await;
    for why in ["it is down", "nothing waits for 'approval'"] {
        let failure = errored(harness.handle(signal("approval", json!({}))).await);
        assert_eq!(failure.category, "harness_signal_correlation_failed");
        assert_eq!(failure.message, format!("no suspended invocation awaits this signal: {why}"));
        assert!(matches!(failure.error, Error::Correlation { .. }));
    }
    assert!(scripted.asked.lock().unwrap().is_empty());
}

// A signal that was overtaken must not answer the next wait of its invocation: it is looked up again when no other can
// pass it any more.
#[tokio::test]
async fn a_signal_that_was_overtaken_answers_nothing() {
    let (harness, scripted) = paused([Ok(Some(first())), Ok(None)]).await;
    let report = harness.handle(signal("approval", json!({}))).await;
    assert_eq!(report.invoked, None);
    assert_eq!(errored(report).category, "harness_signal_correlation_failed");
    // The invocation is free again, and still suspended.
    scripted.answers.lock().unwrap().extend([Ok(Some(first())), Ok(Some(first()))]);
    let report = harness.handle(signal("approval", json!({}))).await;
    assert_eq!(report.outcome.as_str(), "completed");
    // That the subscription cannot be ended is nobody's failure.
    assert_eq!(*scripted.asked.lock().unwrap(), ["unsubscribe id-1"]);
}

// The contract of the coordinator, on the one that is shipped.
#[tokio::test]
async fn a_coordinator_in_memory_keeps_its_contract() {
    let coordinator = MemoryCoordinator::with_max_subscriptions(2);
    let id = |id: &str| InvocationId::parse(id).unwrap();
    let descriptor = |signal: &str| Descriptor { signal_id: signal.into(), metadata: None };
    let find =
        async |target: SignalTarget| coordinator.resolve_signal(&target).await.map_err(|it| it.to_string());
    let by_signal = |signal: &str| SignalTarget::Signal(signal.into());
    let by_id = |id: &str| SignalTarget::Invocation(id.into());

    coordinator.subscribe(&descriptor("x"), &id("a")).await.unwrap();
    coordinator.subscribe(&descriptor("x"), &id("b")).await.unwrap();
    assert_eq!(find(by_signal("x")).await, Err("several invocations wait for 'x'".into()));
    assert!(coordinator.subscribe(&descriptor("x"), &id("c")).await.is_err());
    // A subscription replaces the invocation's older one, also when no more fit in.
    coordinator.subscribe(&descriptor("y"), &id("b")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(find(by_signal("x")).await, Ok(Some(id("a"))));
        assert_eq!(find(by_signal("y")).await, Ok(Some(id("b"))));
    }
    assert_eq!(find(by_id("b")).await, Ok(Some(id("b"))));
    assert_eq!(find(by_id("c")).await, Ok(None));
    for _ in 0..2 {
        coordinator.unsubscribe(&id("a")).await.unwrap();
        assert_eq!((find(by_signal("x")).await, coordinator.count_subscriptions()), (Ok(None), 1));
    }
}

// A turn whose session cannot be loaded again did not consume its signal.
#[tokio::test]
async fn a_session_written_since_leaves_the_pause_subscribed() {
    let (store, sessions) = (TestStore::new(), Watched::new());
    let coordinator = Arc::new(MemoryCoordinator::new());
    let harness = Harness::sessioned(over(&store, &sessions)).coordinator(coordinator.clone()).build();
    let paused = suspended(harness.handle(waits()).await);
    assert_eq!(paused.identity.session_id, Some(session("s")));
    harness.handle(message(json!({"waits_for": ""})).session("s")).await;
    let failure = errored(harness.handle(signal("approval", json!({}))).await);
    assert_eq!((failure.category.as_str(), failure.retry_safe), ("session_write_conflict", false));
    assert_eq!(coordinator.count_subscriptions(), 1);
}
