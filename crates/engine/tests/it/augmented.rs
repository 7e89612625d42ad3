//! The caller's metadata: additions, and who sees them (observability §3.4).

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Ctx, END, Graph, GraphEvent, InvokeOptions, Next, NodeError, Observer, Retry, RetryBackoff, Snapshot,
    StateUpdate, Subscription, add_invocation_metadata, around, current_metadata,
};

use crate::fan_out::{each, ints, number};
use crate::rig::{int, map, over, update};

type Seen = Arc<Mutex<Vec<Value>>>;

/// Records additions, and the metadata of completed events.
#[derive(Clone, Default)]
struct Additions(Seen);

impl Observer for Additions {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        let told = match event {
            GraphEvent::MetadataAdded(event) => json!([
                "added",
                event.source.namespace.join("/"),
                event.source.step,
                event.source.attempt_index,
                event.source.lineage,
                event.entries
            ]),
            GraphEvent::Node(event) => {
                json!([event.phase.as_str(), event.namespace.join("/"), event.caller_invocation_metadata])
            }
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(told);
        Box::pin(async { Ok(()) })
    }
}

fn adds(
    key: &'static str,
    value: Value,
) -> impl Fn(Ctx<Snapshot>) -> std::future::Ready<Result<StateUpdate, NodeError>> + Send + Sync {
    move |cx| {
        cx.add_metadata(key, value.clone()).unwrap();
        std::future::ready(Ok(StateUpdate::new()))
    }
}

async fn run(graph: &Graph<Snapshot>, initial: Value, metadata: bool) -> Vec<Value> {
    let seen = Additions::default();
    let subscription = Subscription::new(seen.clone());
    let subscription = if metadata { subscription.with_caller_metadata() } else { subscription };
    let options = InvokeOptions::new().metadata("tenant", "t").observer(subscription);
    graph.invoke(update(initial), options).await.unwrap();
    graph.drain(None).await.unwrap();
    seen.0.lock().unwrap().clone()
}

#[tokio::test]
async fn an_addition_is_seen_from_there_on_and_told_by_an_event() {
    let builder =
        over([int("v")]).node("first", adds("k", json!([1, 2]))).node("second", adds("tenant", json!("u")));
    let graph = builder.edge("first", "second").edge("second", END).entry("first").compile().unwrap();
    let (before, between, after) =
        (json!({"tenant": "t"}), json!({"tenant": "t", "k": [1, 2]}), json!({"tenant": "u", "k": [1, 2]}));
    let expected = [
        json!(["started", "first", before]),
        json!(["added", "first", 0, 0, [], {"k": [1, 2]}]),
        json!(["completed", "first", between]),
        json!(["started", "second", between]),
        json!(["added", "second", 1, 0, [], {"tenant": "u"}]),
        json!(["completed", "second", after]),
    ];
    assert_eq!(run(&graph, json!({}), true).await, expected);
    let plain = run(&graph, json!({}), false).await;
    assert_eq!(plain[0], json!(["started", "first", null]), "metadata is for observers that ask for it");
    assert_eq!(plain[1], expected[1], "additions are for all");
}

#[tokio::test]
async fn an_instance_sees_its_own_additions_and_those_around_it() {
    let views: Seen = Arc::default();
    let (inside, behind) = (views.clone(), views.clone());
    let work = move |cx: Ctx<Snapshot>| {
        let n = number(&cx, "n");
        cx.add_metadata("item", n).unwrap();
        let seen = inside.clone();
        async move {
            tokio::task::yield_now().await;
            seen.lock().unwrap().push(json!(*cx.caller_metadata()));
            Ok(update(json!({"out": n})))
        }
    };
    let inner =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let last = move |cx: Ctx<Snapshot>| {
        behind.lock().unwrap().push(json!(*cx.caller_metadata()));
        async { Ok(StateUpdate::new()) }
    };
    let chained = each(&inner).instance_middleware(around(|state: Arc<Snapshot>, mut next: Next<'_>| {
        Box::pin(async move {
            add_invocation_metadata(map(json!({"chained": true}))).unwrap();
            next.run(&state).await
        })
    }));
    for (fan, extra) in [(each(&inner), json!({})), (chained, json!({"chained": true}))] {
        views.lock().unwrap().clear();
        let builder = over([ints("items"), ints("results")]).fan_out("each", fan);
        let graph = builder.node("last", last.clone());
        let graph = graph.edge("each", "last").edge("last", END).entry("each").compile().unwrap();
        let options = InvokeOptions::new().metadata("tenant", "t");
        graph.invoke(update(json!({"items": [7, 8]})), options).await.unwrap();
        let with = |item: i64| {
            let mut entries = map(json!({"tenant": "t", "item": item}));
            entries.extend(map(extra.clone()));
            Value::Object(entries)
        };
        assert_eq!(*views.lock().unwrap(), [with(7), with(8), json!({"tenant": "t"})]);
    }
}

#[tokio::test]
async fn a_failed_attempt_leaves_no_additions_and_the_last_one_does() {
    let views: Seen = Arc::default();
    let seen = views.clone();
    let flaky = move |cx: Ctx<Snapshot>| {
        seen.lock().unwrap().push(json!(*cx.caller_metadata()));
        let attempt = cx.attempt_index();
        cx.add_metadata(format!("attempt{attempt}"), attempt).unwrap();
        let failed = || NodeError::new("down").with_category("provider_unavailable");
        async move { if attempt < 2 { Err(failed()) } else { Ok(StateUpdate::new()) } }
    };
    let seen = views.clone();
    let last = move |cx: Ctx<Snapshot>| {
        seen.lock().unwrap().push(json!(*cx.caller_metadata()));
        async { Ok(StateUpdate::new()) }
    };
    let retry = Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
    let builder = over([int("v")]).node("flaky", flaky).node("last", last).node_middleware("flaky", retry);
    let graph = builder.edge("flaky", "last").edge("last", END).entry("flaky").compile().unwrap();
    graph.invoke(StateUpdate::new(), InvokeOptions::new().metadata("a", 1)).await.unwrap();
    let baseline = json!({"a": 1});
    assert_eq!(
        *views.lock().unwrap(),
        [baseline.clone(), baseline.clone(), baseline, json!({"a": 1, "attempt2": 2})]
    );
}

#[tokio::test]
async fn reserved_keys_and_wrong_values_are_refused_and_nothing_is_added() {
    let node = |cx: Ctx<Snapshot>| async move {
        for (key, value) in [
            ("openarmature.x", json!(1)),
            ("gen_ai.system", json!(1)),
            ("step", json!(1)),
            ("k", json!({"nested": 1})),
            ("k", Value::Null),
            ("k", json!([1, "a"])),
        ] {
            let refused = cx.add_metadata(key, value.clone()).unwrap_err();
            assert_eq!(refused.category(), "invalid_argument", "{key} {value}");
            let entries = Map::from_iter([("fine".to_owned(), json!(1)), (key.to_owned(), value)]);
            assert_eq!(add_invocation_metadata(entries).unwrap_err().category(), "invalid_argument");
        }
        assert_eq!(*cx.caller_metadata(), Map::new());
        assert_eq!(current_metadata(), cx.caller_metadata());
        Ok(StateUpdate::new())
    };
    let graph = over([int("v")]).node("a", node).edge("a", END).entry("a").compile().unwrap();
    graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap();
    add_invocation_metadata(map(json!({"outside": 1}))).unwrap();
    assert_eq!(*current_metadata(), Map::new());
}
