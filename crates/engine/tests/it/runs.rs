//! Runs as a whole: limits, cancellation, determinism (graph-engine §5, INV-11, INV-12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use singletree_durable::Timestamp;
use singletree_engine::{
    Clock, Ctx, END, FieldContent, GraphEvent, InvokeOptions, Item, Limits, Observer, Signal, Snapshot,
    StateUpdate, Target,
};

use crate::rig::{
    Builder, Counting, Recorder, completed, described, fail, int, over, run, sets, suspended, text,
};

/// Counts up to a number, round and round.
fn counter(to: i64) -> Builder {
    let count = |cx: Ctx<Snapshot>| async move {
        let v = cx.state().get("v").unwrap().to_json()?.as_i64().unwrap_or(0);
        Ok(StateUpdate::new().with_json("v", (v + 1).into()))
    };
    let again = move |it: &Snapshot| {
        let done = it.get("v").unwrap().to_json().is_ok_and(|it| it == json!(to));
        if done { Target::End } else { Target::from("count") }
    };
    over([int("v")]).node("count", count).conditional_edge("count", again).entry("count")
}

// INV-12
#[tokio::test]
async fn steps_are_bounded() {
    let limits = Limits { steps: 5, ..Limits::default() };
    assert_eq!(run(&counter(5).limits(limits).compile().unwrap(), json!({})).await, json!({"v": 5}));
    let error = fail(&counter(6).limits(limits).compile().unwrap(), json!({})).await;
    assert_eq!(described(&error), ("invocation_limit_exceeded", None, None));
    assert_eq!(error.to_string(), "the limit steps of 5 was reached");
}

/// Tells when it is dropped.
struct Falls(Arc<AtomicBool>);

impl Drop for Falls {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn dropping_an_invocation_drops_the_nodes_body() {
    let (fallen, entered) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
    let (falls, enters) = (fallen.clone(), entered.clone());
    let stuck = move |_| {
        let guard = Falls(falls.clone());
        let enters = enters.clone();
        async move {
            enters.notify_one();
            std::future::pending::<()>().await;
            drop(guard);
            Ok(StateUpdate::new())
        }
    };
    let graph = over([int("v")]).node("a", stuck).edge("a", END).entry("a").compile().unwrap();
    let mut invoking = Box::pin(graph.invoke(StateUpdate::new(), InvokeOptions::new()));
    tokio::select! {
        ended = &mut invoking => panic!("{ended:?}"),
        () = entered.notified() => {}
    }
    assert!(!fallen.load(Ordering::Relaxed));
    drop(invoking);
    assert!(fallen.load(Ordering::Relaxed));
}

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(7)
    }
}

#[derive(Clone, Default)]
struct Whole(Arc<std::sync::Mutex<Vec<GraphEvent>>>);

impl Observer for Whole {
    fn observe_event<'a>(
        &'a self,
        event: &'a GraphEvent,
    ) -> singletree_durable::BoxFuture<'a, Result<(), singletree_durable::BoxError>> {
        self.0.lock().unwrap().push(event.clone());
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn nothing_of_a_run_outlives_it() {
    let shared = Arc::new("big".to_owned());
    let looks = |cx: Ctx<Snapshot>| async move {
        assert!(cx.state().get("t").is_some());
        // Two requests in one poll: the first is recorded, the second goes with the run.
        let (first, _) = tokio::join!(cx.suspend(Signal::new("1")), cx.suspend(Signal::new("2")));
        first
    };
    let graph = over([text("t")]).node("a", sets(json!({}))).node("b", looks);
    let graph = graph.conditional_edge("a", |_: &Snapshot| "b").edge("b", END).entry("a").compile().unwrap();
    let initial = StateUpdate::new().with("t", FieldContent::One(Item::from_shared_value(shared.clone())));
    let paused = suspended(graph.invoke(initial, InvokeOptions::new()).await);
    assert_eq!(paused.descriptor.signal_id, "1");
    assert_eq!(Arc::strong_count(&shared), 2);
    drop(paused);
    assert_eq!(Arc::strong_count(&shared), 1);
}

// INV-11; spec: graph-engine §5
#[tokio::test]
async fn the_same_inputs_give_the_same_events_and_the_same_state() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let graph = counter(20).clock(Arc::new(Still)).ids(Arc::new(Counting::default())).compile().unwrap();
        let whole = Whole::default();
        let ended =
            completed(graph.invoke(StateUpdate::new(), InvokeOptions::new().observer(whole.clone())).await);
        graph.drain(None).await.unwrap();
        let events = whole.0.lock().unwrap().clone();
        assert_eq!(events.len(), 40);
        runs.push((ended, events));
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn the_digest_follows_the_structure_and_nothing_else() {
    let digest = |it: Builder| it.compile().unwrap().digest().to_owned();
    let base = || over([int("v")]).node("a", sets(json!({}))).entry("a");
    assert_eq!(digest(base().edge("a", END)), digest(base().edge("a", END).auto_save(false)));
    assert_ne!(digest(base().edge("a", END)), digest(base().edge("a", "a")));
    assert_ne!(
        digest(base().edge("a", END)),
        digest(over([]).node("a", sets(json!({}))).entry("a").edge("a", END))
    );
}

#[tokio::test]
async fn invocations_of_one_graph_may_overlap() {
    let graph = counter(50).compile().unwrap();
    let (one, two) = (Recorder::default(), Recorder::default());
    let begin = |it: &Recorder| graph.invoke(StateUpdate::new(), InvokeOptions::new().observer(it.clone()));
    let (first, second) = tokio::join!(begin(&one), begin(&two));
    assert_eq!((completed(first), completed(second)), (json!({"v": 50}), json!({"v": 50})));
    graph.drain(None).await.unwrap();
    assert_eq!((one.seen().len(), two.seen().len()), (100, 100));
}
