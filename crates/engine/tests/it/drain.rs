//! Drains: snapshots, time limits, and the use of a graph afterwards (graph-engine §6). Time is paused throughout.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Ctx, DrainSummary, END, Graph, GraphEvent, InvokeOptions, Observer, Snapshot, StateUpdate,
    current_identity,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::rig::{Builder, Recorder, completed, int, invocation, over, run, sets};

fn line() -> Builder {
    let node = || sets(json!({}));
    let builder = over([int("v")]).node("a", node()).node("b", node()).node("c", node());
    builder.edge("a", "b").edge("b", "c").edge("c", END).entry("a")
}

/// Takes this long over each event.
struct Slow(Duration, Recorder);

impl Observer for Slow {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            sleep(self.0).await;
            self.1.observe_event(event).await
        })
    }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn slow(graph: &Graph<Snapshot>, span: u64) -> Recorder {
    let seen = Recorder::default();
    graph.attach_observer(Slow(millis(span), seen.clone()));
    seen
}

fn summary(undelivered_count: u64, timeout_reached: bool) -> DrainSummary {
    DrainSummary { undelivered_count, timeout_reached }
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_drain_waits_for_everything() {
    let graph = line().compile().unwrap();
    let seen = slow(&graph, 50);
    let begun = Instant::now();
    run(&graph, json!({})).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(graph.drain(None).await.unwrap(), summary(0, false));
    assert_eq!((seen.seen().len(), begun.elapsed()), (6, millis(300)));
    assert_eq!(graph.drain(None).await.unwrap(), summary(0, false));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_not_reached_changes_nothing() {
    let graph = line().compile().unwrap();
    let seen = slow(&graph, 0);
    run(&graph, json!({})).await;
    assert_eq!(graph.drain(Some(Duration::from_secs(5))).await.unwrap(), summary(0, false));
    assert_eq!(seen.seen().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_gives_up_the_rest_and_leaves_the_graph_usable() {
    let graph = line().compile().unwrap();
    let seen = slow(&graph, 200);
    let begun = Instant::now();
    run(&graph, json!({})).await;
    // The event that is being delivered counts as undelivered.
    assert_eq!(graph.drain(Some(millis(500))).await.unwrap(), summary(4, true));
    assert_eq!((seen.seen().len(), begun.elapsed()), (2, millis(500)));
    sleep(Duration::from_secs(9)).await;
    assert_eq!(seen.seen().len(), 2, "its worker has ended");
    assert_eq!(run(&graph, json!({})).await, json!({"v": 0}));
    assert_eq!(graph.drain(None).await.unwrap(), summary(0, false));
    assert_eq!(seen.lines()[2..].len(), 6);
}

#[tokio::test(start_paused = true)]
async fn drain_covers_the_invocations_that_are_active_when_it_is_called() {
    let graph = line().compile().unwrap();
    slow(&graph, 100);
    run(&graph, json!({})).await;
    let begun = Instant::now();
    let drained = tokio::join!(graph.drain(None), async {
        sleep(millis(550)).await;
        run(&graph, json!({})).await;
    });
    assert_eq!((drained.0.unwrap(), begun.elapsed()), (summary(0, false), millis(600)));
    assert_eq!(graph.drain(Some(Duration::ZERO)).await.unwrap(), summary(6, true));
}

/// A graph whose last node drains its own invocation.
fn draining(
    timeout: Option<Duration>,
    through: impl Fn(&Ctx<Snapshot>) -> Option<Graph<Snapshot>> + Send + Sync + 'static,
) -> Builder {
    let drains = move |cx: Ctx<Snapshot>| {
        let graph = through(&cx);
        async move {
            let found = match graph {
                Some(graph) => graph.drain_events_for(&cx.identity().invocation_id, timeout).await,
                None => cx.drain_events(timeout).await,
            };
            let mut left = i64::try_from(found.undelivered_count)?;
            if found.timeout_reached {
                left += 100;
            }
            Ok(StateUpdate::new().with_json("v", left.into()))
        }
    };
    over([int("v")]).node("a", sets(json!({}))).node("d", drains).edge("a", "d").edge("d", END).entry("a")
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_what_was_dispatched_before_it_asked() {
    let graph = draining(None, |_| None).compile().unwrap();
    let seen = slow(&graph, 100);
    let begun = Instant::now();
    assert_eq!(run(&graph, json!({})).await, json!({"v": 0}));
    // A pair and its own start; its end comes later.
    assert_eq!((seen.lines().len(), begun.elapsed()), (3, millis(300)));
    assert_eq!(seen.lines().last().map(String::as_str), Some("1 started d"));
}

#[tokio::test(start_paused = true)]
async fn a_nodes_limit_cancels_nothing() {
    let graph = draining(Some(millis(150)), |_| None).compile().unwrap();
    let seen = slow(&graph, 100);
    assert_eq!(run(&graph, json!({})).await, json!({"v": 102}));
    assert_eq!(graph.drain(None).await.unwrap(), summary(0, false));
    assert_eq!(seen.lines().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn one_invocation_is_drained_by_its_id_and_others_do_not_matter() {
    let graph = line().compile().unwrap();
    slow(&graph, 100);
    let begin = |id: &str| graph.invoke(StateUpdate::new(), InvokeOptions::new().invocation(invocation(id)));
    completed(begin("one").await);
    sleep(millis(450)).await;
    completed(begin("two").await);
    let begun = Instant::now();
    assert_eq!(graph.drain_events_for(&invocation("one"), None).await, summary(0, false));
    assert_eq!(begun.elapsed(), millis(150));
    assert_eq!(graph.drain_events_for(&invocation("two"), Some(millis(1))).await, summary(5, true));
    for done in ["one", "unknown"] {
        assert_eq!(graph.drain_events_for(&invocation(done), Some(Duration::ZERO)).await, summary(0, false));
    }
    assert_eq!(graph.drain(None).await.unwrap(), summary(0, false));
}

#[tokio::test(start_paused = true)]
async fn the_graphs_own_drain_is_refused_inside_its_invocations() {
    let slot: Arc<std::sync::OnceLock<Graph<Snapshot>>> = Arc::default();
    let inside = slot.clone();
    let drains = move |_| {
        let graph = inside.get().cloned();
        async move {
            Ok(StateUpdate::new().with_json("v", graph.unwrap().drain(None).await.map_or(1, |_| 2).into()))
        }
    };
    let graph = over([int("v")]).node("a", drains).edge("a", END).entry("a").compile().unwrap();
    graph.attach_observer(Recorder::default());
    assert!(slot.set(graph.clone()).is_ok());
    assert_eq!(run(&graph, json!({})).await, json!({"v": 1}));
}

/// Drains, from within, the invocation that it observes.
struct Selfish(Graph<Snapshot>, Recorder);

impl Observer for Selfish {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let id = &current_identity().ok_or("no invocation")?.invocation_id;
            assert!(!self.0.drain_events_for(id, None).await.timeout_reached);
            self.1.observe_event(event).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_drains_does_not_wait_for_itself() {
    let graph = line().compile().unwrap();
    let seen = Recorder::default();
    graph.attach_observer(Selfish(graph.clone(), seen.clone()));
    run(&graph, json!({})).await;
    assert_eq!(graph.drain(Some(Duration::from_secs(1))).await.unwrap(), summary(0, false));
    assert_eq!(seen.seen().len(), 6);
}

// A dropped invocation leaves nothing behind: its dispatched events are delivered, and its worker ends.
#[tokio::test(start_paused = true)]
async fn dropping_an_invocation_ends_its_queue() {
    let reached = Arc::new(Notify::new());
    let tell = reached.clone();
    let stuck = move |_| {
        tell.notify_one();
        async { std::future::pending().await }
    };
    let graph = over([int("v")]).node("a", sets(json!({}))).node("stuck", stuck);
    let graph = graph.edge("a", "stuck").edge("stuck", END).entry("a").compile().unwrap();
    let seen = slow(&graph, 10);
    let mut invoking = Box::pin(graph.invoke(StateUpdate::new(), InvokeOptions::new()));
    tokio::select! {
        ended = &mut invoking => panic!("{ended:?}"),
        () = reached.notified() => {}
    }
    let pending = graph.drain(Some(millis(5)));
    assert!(pending.await.unwrap().timeout_reached);
    drop(invoking);
    // Given up once by the limit above, so a second invocation shows the orderly end.
    let mut invoking = Box::pin(graph.invoke(StateUpdate::new(), InvokeOptions::new()));
    tokio::select! {
        ended = &mut invoking => panic!("{ended:?}"),
        () = reached.notified() => {}
    }
    let before = seen.seen().len();
    drop(invoking);
    assert_eq!(graph.drain(Some(Duration::from_secs(9))).await.unwrap(), summary(0, false));
    assert_eq!(seen.seen().len() - before, 3);
}

// spec: graph-engine §6: a limit that is negative or no number is refused before anything is done: here by its type,
// which has no such value. None at all is one.
#[tokio::test(start_paused = true)]
async fn a_limit_is_a_span_of_time_or_cannot_be_said() {
    for seconds in [f64::NAN, -1.0, -0.001, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(Duration::try_from_secs_f64(seconds).is_err(), "{seconds}");
    }
    let graph =
        over([int("v")]).node("a", sets(json!({"v": 1}))).edge("a", END).entry("a").compile().unwrap();
    assert_eq!(graph.drain(Some(Duration::ZERO)).await.unwrap(), summary(0, false));
    let ended = graph
        .invoke(
            StateUpdate::new(),
            InvokeOptions::new().observer(Slow(Duration::from_secs(1), Recorder::default())),
        )
        .await;
    let id = ended.unwrap().identity().invocation_id.clone();
    assert_eq!(graph.drain_events_for(&id, Some(Duration::ZERO)).await, summary(2, true));
    assert_eq!(graph.drain_events_for(&id, None).await, summary(0, false));
}
