//! The abstract harness: which path a transmission takes, and how the engine is called on it.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, json};
use singletree_durable::SessionId;
use singletree_engine::{Snapshot, StateUpdate};
use singletree_harness::{
    DispatchPath, EngineInvocation, Harness, HarnessMode, InboundIntent, InboundRequest, MemoryCoordinator,
    SignalArrival, TurnReport,
};

use crate::base_rig::{
    Counting, Watched, category, changed, completed, errored, graph, map, message, session, signal, update,
};

const AMBIGUOUS: &str = "harness_path_classification_ambiguous";
const UNRESOLVED: &str = "harness_session_id_unresolved";

fn harness(mode: HarnessMode) -> Harness<Snapshot> {
    let graph = graph().compile().unwrap();
    match mode {
        HarnessMode::Sessioned => Harness::sessioned(graph),
        HarnessMode::Stateless => Harness::stateless(graph),
    }
    .ids(Counting::new(100))
    .build()
}

/// A transmission's path, or the category with which it is refused.
fn path(mode: HarnessMode, inbound: &InboundRequest) -> String {
    match harness(mode).classify_request(inbound) {
        Ok(path) => path.as_str().to_owned(),
        Err(error) => error.category().to_owned(),
    }
}

// spec: harness §3, §3.4, R13
#[test]
fn each_transmission_has_one_path_or_none() {
    #[track_caller]
    fn check(inbound: &InboundRequest, sessioned: &str, stateless: &str) {
        let found = (path(HarnessMode::Sessioned, inbound), path(HarnessMode::Stateless, inbound));
        assert_eq!(found, (sessioned.to_owned(), stateless.to_owned()), "{inbound:?}");
    }
    let (new, existing, resume) =
        (InboundIntent::NewSession, InboundIntent::ExistingSession, InboundIntent::SignalResume);
    let plain = || message(json!({"approved": true}));
    check(&InboundRequest::default(), "3.1", "3.0");
    check(&plain(), "3.1", "3.0");
    check(&plain().intent(new), "3.1", "3.0");
    check(&plain().intent(existing), UNRESOLVED, "3.0");
    check(&plain().session("s"), "3.2", "3.0");
    check(&plain().session("s").intent(new), "3.1", "3.0");
    check(&plain().session("s").intent(existing), "3.2", "3.0");
    check(&plain().intent(resume), AMBIGUOUS, AMBIGUOUS);
    let signal = || signal("approval", json!({}));
    check(&signal(), "3.3", "3.0");
    check(&signal().intent(resume), "3.3", "3.0");
    // The paused record says which session it is (§3.3), so that a named one decides nothing.
    check(&signal().session("s"), "3.3", "3.0");
    check(&signal().session(""), "3.3", "3.0");
    check(&signal().intent(new), AMBIGUOUS, AMBIGUOUS);
    check(&signal().intent(existing), AMBIGUOUS, AMBIGUOUS);
    let both = InboundRequest { fields: map(json!({"approved": true})), ..signal() };
    check(&both, AMBIGUOUS, AMBIGUOUS);
    check(&both.intent(resume), AMBIGUOUS, AMBIGUOUS);
}

// spec: harness §10
#[test]
fn a_session_id_that_is_none_is_unresolved() {
    for id in ["", "a\nb", &"x".repeat(513)] {
        for intent in [None, Some(InboundIntent::NewSession), Some(InboundIntent::ExistingSession)] {
            let inbound = InboundRequest { intent, ..InboundRequest::default().session(id) };
            assert_eq!(path(HarnessMode::Sessioned, &inbound), UNRESOLVED, "{inbound:?}");
            assert_eq!(path(HarnessMode::Stateless, &inbound), "3.0", "{inbound:?}");
        }
    }
}

#[tokio::test]
async fn what_has_no_path_never_reaches_the_engine() {
    let store = Watched::new();
    let harness = Harness::sessioned(graph().session_store(store.clone()).compile().unwrap()).build();
    for (inbound, expected) in [
        (InboundRequest::default().session(""), UNRESOLVED),
        (InboundRequest::default().intent(InboundIntent::SignalResume), AMBIGUOUS),
    ] {
        let report = harness.handle(inbound).await;
        assert_eq!((report.path, report.invoked.clone()), (None, None));
        assert_eq!(category(report), expected);
    }
    assert_eq!(store.calls(), [""; 0]);
}

/// The path and the graph call of a report, without the graph's result.
fn call(report: TurnReport<Snapshot>) -> (Option<DispatchPath>, Option<EngineInvocation>) {
    (report.path, report.invoked)
}

fn started(initial: StateUpdate, session: Option<SessionId>, assigned: bool) -> Option<EngineInvocation> {
    Some(EngineInvocation::Start { initial, session, assigned })
}

// spec: harness §3.1
#[tokio::test]
async fn a_new_session_is_named_by_the_caller_or_by_the_harness() {
    let store = Watched::new();
    let graph = graph().session_store(store.clone()).compile().unwrap();
    let harness = Harness::sessioned(graph).ids(Counting::new(100)).build();
    let report = harness.handle(message(json!({"approved": true}))).await;
    let fields = || update(json!({"approved": true}));
    assert_eq!(
        call(report),
        (Some(DispatchPath::NewSession), started(fields(), Some(session("id-100")), true))
    );
    assert_eq!(store.stored("id-100", "log").await, Some(json!(["begin", "end"])));
    let report = harness
        .handle(message(json!({"approved": true})).session("mine").intent(InboundIntent::NewSession))
        .await;
    assert_eq!(
        call(report),
        (Some(DispatchPath::NewSession), started(fields(), Some(session("mine")), false))
    );
    assert_eq!(store.stored("mine", "approved").await, Some(json!(true)));
    assert_eq!(store.calls(), ["load", "save", "load", "save"]);
}

// spec: harness §3.2, R11: whether the session exists is the engine's question, and nothing to stumble over.
#[tokio::test]
async fn an_existing_session_goes_on_and_an_unknown_one_begins() {
    let store = Watched::new();
    let harness = Harness::sessioned(graph().session_store(store.clone()).compile().unwrap()).build();
    let next = || InboundRequest::default().session("s").intent(InboundIntent::ExistingSession);
    let report = harness.handle(next()).await;
    assert_eq!(report.path, Some(DispatchPath::ExistingSession));
    assert_eq!(report.invoked, started(StateUpdate::new(), Some(session("s")), false));
    assert_eq!(changed(&completed(report).state), json!({"log": ["begin", "end"]}));
    let second = completed(harness.handle(next()).await);
    assert_eq!(changed(&second.state), json!({"log": ["begin", "end", "begin", "end"]}));
    assert_eq!(second.identity.session_id, Some(session("s")));
}

// spec: harness §3.0, §8.1
#[tokio::test]
async fn stateless_turns_never_touch_the_session_store() {
    let store = Watched::new();
    let graph = graph().session_store(store.clone()).compile().unwrap();
    let harness = Harness::stateless(graph.clone())
        .session_resolver(|_| unreachable!("a stateless harness resolves no session"))
        .build();
    for inbound in [
        message(json!({"approved": true})),
        message(json!({"approved": true})).session("s"),
        message(json!({"approved": true})).session("s").intent(InboundIntent::ExistingSession),
        message(json!({"approved": true})).session("").intent(InboundIntent::NewSession),
    ] {
        let report = harness.handle(inbound).await;
        assert_eq!(report.path, Some(DispatchPath::Stateless));
        assert_eq!(report.invoked, started(update(json!({"approved": true})), None, false));
        let done = completed(report);
        assert_eq!(done.identity.session_id, None);
        assert_eq!(changed(&done.state), json!({"approved": true, "log": ["begin", "end"]}));
    }
    assert_eq!(store.calls(), [""; 0]);
    // The same graph serves sessions beside it.
    completed(Harness::sessioned(graph).build().handle(InboundRequest::default().session("s")).await);
    assert_eq!(store.calls(), ["load", "save"]);
}

// spec: harness §2 (session resolver), §3.1 step 2
#[tokio::test]
async fn a_transport_says_how_session_and_state_are_made_out() {
    let harness = Harness::sessioned(graph().compile().unwrap())
        .session_resolver(|it| match it.fields.get("conversation") {
            Some(id) => Ok(Some(SessionId::parse(id.as_str().ok_or("the conversation is no text")?)?)),
            None => Ok(None),
        })
        .state_builder(|it| match it.fields.get("ok") {
            Some(ok) => StateUpdate::new().with_json("approved", ok.clone()),
            None => StateUpdate::new(),
        })
        .build();
    let report = harness.handle(message(json!({"conversation": "c", "ok": true}))).await;
    assert_eq!(report.path, Some(DispatchPath::ExistingSession));
    let initial = update(json!({"approved": true}));
    assert_eq!(report.invoked, started(initial, Some(session("c")), false));
    let failure = errored(harness.handle(message(json!({"conversation": 7}))).await);
    let told = "the session id cannot be used: the conversation is no text";
    assert_eq!((failure.category.as_str(), failure.message.as_str()), (UNRESOLVED, told));
}

fn inbounds() -> impl Strategy<Value = InboundRequest> {
    let ids = prop_oneof![Just(None), ".{0,3}".prop_map(Some)];
    let intents = prop_oneof![
        Just(None),
        Just(Some(InboundIntent::NewSession)),
        Just(Some(InboundIntent::ExistingSession)),
        Just(Some(InboundIntent::SignalResume)),
    ];
    let signals = prop_oneof![Just(None), Just(Some("waiting")), Just(Some("unknown"))];
    (ids, intents, any::<bool>(), signals).prop_map(|(session_id, intent, approved, signal)| InboundRequest {
        session_id,
        intent,
        fields: approved.then(|| ("approved".to_owned(), json!(true))).into_iter().collect(),
        signal: signal.map(|it| SignalArrival::for_signal(it, Map::new())),
    })
}

proptest! {
    // spec: harness §3.4, §11: the same transmission against the same harness state makes the same call.
    #[test]
    fn classification_is_a_function_of_the_transmission(inbound in inbounds(), stateless: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mode = if stateless { HarnessMode::Stateless } else { HarnessMode::Sessioned };
        let handle = |inbound: InboundRequest| runtime.block_on(async {
            let harness = harness(mode);
            harness.handle(message(json!({"waits_for": "waiting"}))).await;
            let classified = harness.classify_request(&inbound).ok();
            let report = harness.handle(inbound).await;
            // The report has the path that was decided before.
            assert_eq!(report.path, classified);
            (report.outcome.as_str(), call(report))
        });
        let (outcome, (path, invoked)) = handle(inbound.clone());
        prop_assert_eq!(&handle(inbound.clone()), &(outcome, (path, invoked.clone())));
        // The modes share no path (§3.0).
        prop_assert!(path.is_none_or(|it| (it == DispatchPath::Stateless) == stateless));
        prop_assert!(path.is_some() || (outcome, &invoked) == ("errored", &None));
        match invoked {
            Some(EngineInvocation::Start { session, .. }) => {
                prop_assert_eq!(session.is_none(), stateless);
                prop_assert_eq!(inbound.signal, None);
            }
            Some(EngineInvocation::Resume { .. }) => prop_assert!(inbound.fields.is_empty() && inbound.signal.is_some()),
            None => prop_assert_eq!(outcome, "errored"),
        }
    }
}

#[test]
fn a_turn_can_be_sent_between_threads() {
    fn sent<T: Send + Sync>(_: &T) {}
    let harness = Arc::new(
        Harness::sessioned(graph().compile().unwrap())
            .coordinator(Arc::new(MemoryCoordinator::new()))
            .build(),
    );
    sent(&harness);
    fn send<T: Send>(_: T) {}
    send(harness.handle(InboundRequest::default()));
}
