//! The abstract harness: pauses, and the signals that end them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::join;
use serde_json::{Value, json};
use singletree_engine::{Ctx, Descriptor, Snapshot};
use singletree_harness::{
    DispatchPath, EngineInvocation, Harness, HarnessOutcome, InboundRequest, Limits, MemoryCoordinator,
    SignalArrival,
};
use singletree_test_store::TestStore;
use tokio::sync::Notify;

use crate::base_rig::{
    Watched, category, changed, completed, ending, errored, graph, map, message, session, signal, suspended,
    update,
};

const NO_CORRELATION: &str = "harness_signal_correlation_failed";

fn waits(then: &str) -> InboundRequest {
    message(json!({"waits_for": "approval", "then": then}))
}

/// A harness in sessions, its store and its coordinator.
fn sessioned() -> (Harness<Snapshot>, Arc<Watched>, Arc<MemoryCoordinator>) {
    sessioned_over(Watched::new())
}

fn sessioned_over(store: Arc<Watched>) -> (Harness<Snapshot>, Arc<Watched>, Arc<MemoryCoordinator>) {
    let coordinator = Arc::new(MemoryCoordinator::new());
    let graph = graph().session_store(store.clone()).compile().unwrap();
    (Harness::sessioned(graph).coordinator(coordinator.clone()).build(), store, coordinator)
}

// spec: harness §5.3: read, subscribe, acknowledge, and go.
#[tokio::test]
async fn a_pause_is_acknowledged_at_once() {
    let (harness, store, coordinator) = sessioned_over(Watched::in_memory());
    // The signal is the only thing to wait for here, so a call that is not done at once waits for it.
    let report = harness.handle(waits("").session("s")).now_or_never().unwrap();
    assert_eq!(report.path, Some(DispatchPath::ExistingSession));
    let paused = suspended(report);
    let descriptor = Descriptor { signal_id: "approval".into(), metadata: Some(json!({"kind": "approval"})) };
    assert_eq!(paused.descriptor, descriptor);
    assert_eq!(coordinator.count_subscriptions(), 1);
    assert_eq!(store.stored("s", "log").await, Some(json!(["begin"])));
    // Other turns run while this one waits.
    let done = completed(harness.handle(InboundRequest::default().session("other")).now_or_never().unwrap());
    assert_eq!(changed(&done.state), json!({"log": ["begin", "end"]}));
    assert_eq!(coordinator.count_subscriptions(), 1);
}

// spec: harness §3.3, §6
#[tokio::test]
async fn a_signal_leads_back_to_its_pause() {
    for by_name in [true, false] {
        let (harness, store, coordinator) = sessioned();
        let paused = suspended(harness.handle(waits("").session("s")).await);
        store.calls();
        let payload = map(json!({"approved": true}));
        let invocation = paused.identity.invocation_id.clone();
        let arrival = match by_name {
            true => SignalArrival::for_signal("approval", payload.clone()),
            false => SignalArrival::for_invocation(invocation.as_str(), payload.clone()),
        };
        let report = harness.handle(InboundRequest::signal(arrival.clone())).await;
        assert_eq!(report.path, Some(DispatchPath::SignalResume));
        assert_eq!(report.invoked, Some(EngineInvocation::Resume { invocation, payload }));
        let done = completed(report);
        assert_eq!(done.identity, paused.identity);
        let state = json!({"log": ["begin", "end"], "approved": true, "waits_for": "approval"});
        assert_eq!(changed(&done.state), state);
        // The session is the paused record's (§3.3).
        assert_eq!(store.stored("s", "approved").await, Some(json!(true)));
        assert_eq!(coordinator.count_subscriptions(), 0);
        // A consumed signal is gone.
        let again = harness.handle(InboundRequest::signal(arrival)).await;
        assert_eq!((again.path, again.invoked.clone()), (Some(DispatchPath::SignalResume), None));
        assert_eq!(category(again), NO_CORRELATION);
    }
}

// spec: harness §3.3: session_id is drawn from the paused record.
#[tokio::test]
async fn a_signal_never_has_its_session_resolved() {
    let store = Watched::new();
    let resolved = Arc::new(AtomicU64::new(0));
    let counts = resolved.clone();
    let harness = Harness::sessioned(graph().session_store(store.clone()).compile().unwrap())
        .session_resolver(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            Ok(Some(session("s")))
        })
        .build();
    suspended(harness.handle(waits("")).await);
    assert_eq!(resolved.load(Ordering::Relaxed), 1);
    let done = completed(harness.handle(signal("approval", json!({})).session("other")).await);
    assert_eq!(resolved.load(Ordering::Relaxed), 1);
    assert_eq!(done.identity.session_id, Some(session("s")));
    assert_eq!(store.stored("other", "log").await, None);
}

// spec: harness §3.0
#[tokio::test]
async fn a_stateless_pause_resumes_without_a_session() {
    let store = Watched::new();
    let harness = Harness::stateless(graph().session_store(store.clone()).compile().unwrap()).build();
    let paused = suspended(harness.handle(waits("").session("s")).await);
    let report = harness.handle(signal("approval", json!({"approved": true})).session("s")).await;
    assert_eq!(report.path, Some(DispatchPath::Stateless));
    let done = completed(report);
    assert_eq!((done.identity.session_id.clone(), &done.identity), (None, &paused.identity));
    assert_eq!(store.calls(), [""; 0]);
}

// spec: harness §8.1: harnesses of both modes over one graph; a stateless one reaches no invocation of a session.
#[tokio::test]
async fn a_stateless_harness_does_not_resume_what_has_a_session() {
    let store = Watched::new();
    let graph = graph().session_store(store.clone()).compile().unwrap();
    let paused = suspended(Harness::sessioned(graph.clone()).build().handle(waits("").session("s")).await);
    store.calls();
    let arrival = SignalArrival::for_invocation(paused.identity.invocation_id.as_str(), map(json!({})));
    let report = Harness::stateless(graph).build().handle(InboundRequest::signal(arrival)).await;
    assert_eq!(category(report), NO_CORRELATION);
    assert_eq!(store.calls(), [""; 0]);
}

// spec: harness §6: every pause of an invocation is subscribed to.
#[tokio::test]
async fn an_invocation_that_pauses_again_waits_for_the_new_signal() {
    let (harness, _, coordinator) = sessioned();
    let first = suspended(harness.handle(waits("wait again")).await);
    let second = suspended(harness.handle(signal("approval", json!({}))).await);
    assert_eq!((&second.identity, second.descriptor.signal_id.as_str()), (&first.identity, "second"));
    assert_eq!(coordinator.count_subscriptions(), 1);
    // A late duplicate of the first signal does not answer the second wait.
    assert_eq!(category(harness.handle(signal("approval", json!({}))).await), NO_CORRELATION);
    completed(harness.handle(signal("second", json!({}))).await);
    assert_eq!(coordinator.count_subscriptions(), 0);
}

// spec: harness §7.3; suspension §6
#[tokio::test]
async fn a_payload_that_does_not_fit_leaves_the_pause_as_it_is() {
    let limits = Limits { payload_bytes: 20, ..Limits::default() };
    let coordinator = Arc::new(MemoryCoordinator::new());
    let harness = Harness::sessioned(graph().compile().unwrap())
        .coordinator(coordinator.clone())
        .limits(limits)
        .build();
    suspended(harness.handle(waits("")).await);
    #[rustfmt::skip]
    let refused = [
        (json!({"approved": "yes"}), "the signal's payload does not fit the state: field 'approved': expected bool, found a string"),
        (json!({"approved": true, "more": 1}), "the signal's payload is not valid: it has more than 20 bytes"),
    ];
    for (payload, told) in refused {
        let failure = errored(harness.handle(signal("approval", payload)).await);
        assert_eq!(failure.category, "suspension_resume_payload_invalid");
        assert_eq!(failure.message, told);
        assert_eq!(coordinator.count_subscriptions(), 1);
    }
    completed(harness.handle(signal("approval", json!({"approved": true}))).await);
}

#[tokio::test]
async fn a_resume_that_fails_has_consumed_its_signal() {
    let (harness, _, coordinator) = sessioned();
    suspended(harness.handle(waits("fail")).await);
    assert_eq!(category(harness.handle(signal("approval", json!({}))).await), "provider_unavailable");
    assert_eq!(coordinator.count_subscriptions(), 0);
    assert_eq!(category(harness.handle(signal("approval", json!({}))).await), NO_CORRELATION);
}

/// A last node that counts, and waits until it is let go.
fn held(count: &Arc<AtomicU64>, go: &Arc<Notify>) -> singletree_engine::GraphBuilder<Snapshot> {
    let (count, go) = (count.clone(), go.clone());
    ending(move |_: Ctx<Snapshot>| {
        let (count, go) = (count.clone(), go.clone());
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            go.notified().await;
            Ok(update(json!({"log": ["end"]})))
        }
    })
}

/// Sends the same signal to both harnesses while the first resume runs; returns how the second one was refused, and how
/// many subscriptions there were then.
async fn twice(
    [one, two]: [&Harness<Snapshot>; 2],
    coordinator: &MemoryCoordinator,
    go: &Notify,
) -> (String, usize) {
    let arrival = || signal("approval", json!({"approved": true}));
    let second = async {
        let refused = category(two.handle(arrival()).await);
        // The subscription is the first one's to end: it may pause again.
        let left = coordinator.count_subscriptions();
        go.notify_one();
        (refused, left)
    };
    let (first, refused) = join(one.handle(arrival()), second).await;
    completed(first);
    refused
}

// spec: harness §3.3; suspension §7
#[tokio::test]
async fn of_two_signals_at_once_one_resumes() {
    let (count, go) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let coordinator = Arc::new(MemoryCoordinator::new());
    let graph = held(&count, &go).compile().unwrap();
    let open = || Harness::sessioned(graph.clone()).coordinator(coordinator.clone()).build();
    let (one, other) = (open(), open());
    suspended(one.handle(waits("")).await);
    assert_eq!(twice([&one, &one], &coordinator, &go).await, (NO_CORRELATION.into(), 1));
    assert_eq!((count.swap(0, Ordering::Relaxed), coordinator.count_subscriptions()), (1, 0));
    // In two processes the engine's claim decides.
    suspended(one.handle(waits("")).await);
    let refused = ("suspension_record_invalid".to_owned(), 1);
    assert_eq!(twice([&one, &other], &coordinator, &go).await, refused);
    assert_eq!((count.load(Ordering::Relaxed), coordinator.count_subscriptions()), (1, 0));
}

#[tokio::test]
async fn a_signal_that_nobody_waits_for_is_not_correlated() {
    let (harness, ..) = sessioned();
    let told = |inbound| async {
        let failure = errored(harness.handle(inbound).await);
        (failure.category, failure.message)
    };
    let expected =
        |why: &str| (NO_CORRELATION.to_owned(), format!("no suspended invocation awaits this signal: {why}"));
    assert_eq!(told(signal("approval", json!({}))).await, expected("nothing waits for 'approval'"));
    let by_id = |id: &str| InboundRequest::signal(SignalArrival::for_invocation(id, map(json!({}))));
    assert_eq!(told(by_id("nobody")).await, expected("invocation 'nobody' waits for nothing"));
    assert_eq!(told(by_id("")).await, expected("an identifier must not be empty"));
    // Two that wait for the same are told apart by their ids.
    let first = suspended(harness.handle(waits("")).await);
    suspended(harness.handle(waits("")).await);
    let several = expected("several invocations wait for 'approval'");
    assert_eq!(told(signal("approval", json!({}))).await, several);
    completed(harness.handle(by_id(first.identity.invocation_id.as_str())).await);
    completed(harness.handle(signal("approval", json!({}))).await);
}

// spec: harness §6: with a store that outlives the process and a coordinator that does, a signal comes through.
#[tokio::test]
async fn a_pause_outlives_its_harness() {
    let (paused, coordinator) = (TestStore::new(), Arc::new(MemoryCoordinator::new()));
    let open = || {
        let graph = graph().paused_store(Arc::new(paused.reopen())).compile().unwrap();
        Harness::sessioned(graph).coordinator(coordinator.clone()).build()
    };
    suspended(open().handle(waits("")).await);
    let report = open().handle(signal("approval", json!({"approved": true}))).await;
    assert!(matches!(&report.outcome, HarnessOutcome::Completed(_)), "{report:?}");
    let state: Value = changed(&completed(report).state);
    assert_eq!(state["approved"], json!(true));
}
