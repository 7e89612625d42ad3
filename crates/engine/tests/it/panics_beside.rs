//! Panics beside a graph's nodes: in observers, checks of a payload, entry hooks.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::{BoxError, BoxFuture, MemoryStore};
use singletree_engine::{
    Ctx, END, GraphEvent, InvokeOptions, Observer, ObserverFailure, RunMonitor, RunStart, Signal, Snapshot,
    StateUpdate, format_error_chain,
};

use crate::fan_out_pauses::Memory;
use crate::panics::{Nerves, one};
use crate::rig::{Recorder, int, map, over, state, suspended, update};

/// An observer that panics, before or inside of its future.
struct Nervous(bool);

impl Observer for Nervous {
    fn observe_event<'a>(&'a self, _: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        assert!(self.0, "bang");
        Box::pin(async { panic!("bang") })
    }
}

// spec: graph-engine §6: the run, the others and later events know nothing of it. INV-10
#[tokio::test]
async fn a_panicking_observer_is_told_of_and_harms_nobody() {
    for early in [true, false] {
        let mishaps = Arc::new(std::sync::Mutex::new(0));
        let counts = mishaps.clone();
        let graph = one().on_mishap(move |it| {
            let ObserverFailure::Observer { error } = it else { panic!("{it:?}") };
            assert_eq!(error.to_string(), "panicked: bang");
            *counts.lock().unwrap() += 1;
        });
        let graph = graph.compile().unwrap();
        graph.attach_observer(Nervous(!early));
        let seen = Recorder::default();
        let options = InvokeOptions::new().observer(seen.clone());
        let outcome = graph.invoke(update(json!({})), options).await;
        graph.drain(None).await.unwrap();
        assert_eq!(crate::rig::completed(outcome)["n"], 1);
        assert_eq!((seen.told().len(), *mishaps.lock().unwrap()), (2, 2));
    }
}

// A check panics on a resume, before the record is claimed: the record stays suspended.
#[tokio::test]
async fn a_check_that_panics_on_a_payload_consumes_nothing() {
    let nerves = Nerves::default();
    let tests = nerves.clone();
    let fits: singletree_engine::ValueCheck = Arc::new(move |item| {
        if item.json().is_ok_and(|it| *it == 7) {
            tests.test();
        }
        Ok(())
    });
    let graph = over([int("n").with_value_check(fits)])
        .node("gate", |cx: Ctx<Snapshot>| async move { cx.suspend(Signal::new("s")).await })
        .edge("gate", END)
        .entry("gate")
        .paused_store(Arc::new(MemoryStore::new()))
        .compile()
        .unwrap();
    let paused = suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    let resume = |value: Value| {
        let (graph, id) = (graph.clone(), paused.identity.invocation_id.clone());
        async move { graph.resume(&id, map(value), InvokeOptions::new()).await }
    };
    let error = resume(json!({"n": 7})).await.unwrap_err();
    assert_eq!(error.category(), "suspension_resume_payload_invalid");
    assert!(format_error_chain(&error).contains("panicked: bang"), "{}", format_error_chain(&error));
    nerves.calm();
    let singletree_engine::RunOutcome::Completed(done) = resume(json!({"n": 7})).await.unwrap() else {
        panic!("it completes");
    };
    assert_eq!(state(&done.state), json!({"n": 7}));
}

// An entry hook is called between load and merge: nothing runs.
#[tokio::test]
async fn a_panicking_entry_hook_runs_nothing() {
    let graph = one().compile().unwrap();
    let seen = Recorder::default();
    let options = InvokeOptions::new().observer(seen.clone());
    let start = RunStart::Fresh { initial: StateUpdate::new(), hook: Some(Box::new(|_| panic!("bang"))) };
    let ran =
        graph.invoke_with_port(Arc::new(Memory::default()), start, options, &RunMonitor::default()).await;
    let error = ran.unwrap_err();
    assert_eq!(
        (error.category(), error.to_string().as_str()),
        ("invalid_argument", "the entry hook panicked: bang")
    );
    graph.drain(None).await.unwrap();
    assert_eq!(seen.told(), Vec::<String>::new());
}
