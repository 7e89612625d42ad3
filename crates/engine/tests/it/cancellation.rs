//! Cancelling passes every catcher (pipeline-utilities §§6.1, 6.3, 9.5): a dropped run is no failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use singletree_durable::BoxFuture;
use singletree_engine::{
    Branch, Branches, Ctx, END, ErrorPolicy, FailureIsolation, FanOut, Graph, InvokeOptions, Next, NodeError,
    Retry, RetryBackoff, Snapshot, StateUpdate, Timing, around,
};

use crate::checkpoint::Keeper;
use crate::fan_out::ints;
use crate::rig::{Builder, Recorder, int, log, over, update};

/// Counts whoever hears of an end.
#[derive(Clone, Default)]
struct Heard(Arc<AtomicU64>);

impl Heard {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Puts everything that could catch around a node.
fn caught_all(builder: Builder, heard: &Heard) -> Builder {
    let [ends, hears, tries, retries, times] = [(); 5].map(|()| heard.clone());
    let watches = around(move |state: Arc<Snapshot>, mut next: Next<'_>| -> BoxFuture<'_, _> {
        let ends = ends.clone();
        Box::pin(async move {
            let ended = next.run(&state).await;
            ends.note();
            ended
        })
    });
    let isolation = FailureIsolation::new("e", StateUpdate::new()).on_caught(move |_| {
        hears.note();
        Box::pin(std::future::ready(Ok(())))
    });
    let retry = Retry::new()
        .max_attempts(9)
        .backoff(RetryBackoff::Constant(Duration::ZERO))
        .classifier(move |_, _| {
            tries.note();
            true
        })
        .on_retry(move |_, _| {
            retries.note();
            Box::pin(std::future::ready(Ok(())))
        });
    let timing = Timing::for_node("a", move |_| {
        times.note();
        std::future::ready(Ok(()))
    });
    let builder = builder.node_middleware("a", watches).node_middleware("a", isolation);
    builder.node_middleware("a", retry).node_middleware("a", timing)
}

async fn never(_: Ctx<Snapshot>) -> Result<StateUpdate, NodeError> {
    std::future::pending().await
}

fn record(heard: &Heard) -> impl Fn(&NodeError) -> serde_json::Value + Send + Sync + 'static {
    let heard = heard.clone();
    move |error| {
        heard.note();
        error.to_string().into()
    }
}

fn sites(heard: &Heard) -> [(&'static str, Builder); 3] {
    let fields = || [int("n"), ints("items"), log("errors")];
    let inner: Graph<Snapshot> =
        over([int("n")]).node("work", never).edge("work", END).entry("work").compile().unwrap();
    let (instances, branches) = (record(heard), record(heard));
    let fan = FanOut::over(&inner).count(3).collect("n", "items").error_policy(ErrorPolicy::Collect);
    let fan = fan.errors_field("errors").error_record(move |_, error| instances(error));
    let forks = Branches::new()
        .branch("graph", Branch::new().subgraph(&inner))
        .branch("call", Branch::new().call(never))
        .error_policy(ErrorPolicy::Collect);
    let forks = forks.errors_field("errors").error_record(move |_, error| branches(error));
    [
        ("node", over(fields()).node("a", never)),
        ("fan-out", over(fields()).fan_out("a", fan)),
        ("branches", over(fields()).branches("a", forks)),
    ]
    .map(|(name, builder)| (name, caught_all(builder, heard).edge("a", END).entry("a")))
}

#[tokio::test(start_paused = true)]
async fn nothing_catches_a_cancel() {
    let heard = Heard::default();
    for (name, builder) in sites(&heard) {
        let keeper = Keeper::new();
        let graph = builder.checkpointer(keeper.clone()).compile().unwrap();
        let seen = Recorder::default();
        let options = InvokeOptions::new().observer(seen.clone());
        let running = graph.invoke(update(json!({})), options);
        assert!(tokio::time::timeout(Duration::from_secs(9), running).await.is_err());
        graph.drain(None).await.unwrap();
        assert_eq!(heard.0.load(Ordering::Relaxed), 0, "{name}");
        // An attempt that has begun has no end event, and is not saved as a failure.
        assert!(seen.told().iter().all(|it| it.contains(" started ")), "{name}: {:?}", seen.told());
        assert_eq!(keeper.saved().len(), 0, "{name}");
    }
}
