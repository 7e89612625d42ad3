//! The trees of spans (observability §4).

use serde_json::json;
use singletree_engine::{
    Branch, Branches, Ctx, END, FanOut, Graph, InvokeOptions, NodeError, Projection, Retry, RetryBackoff,
    Signal, Snapshot, StateUpdate,
};
use singletree_telemetry::{SpanSettings, SpanStatus, TraceId, render_spans};

use crate::rig::{does_nothing, events, fails, int, ints, one_node, over, trees};

fn fan_over(inner: &Graph<Snapshot>) -> FanOut<Snapshot> {
    FanOut::over(inner).items("items", "n").collect("out", "results")
}

fn composed(branches: Branches<Snapshot>) -> Graph<Snapshot> {
    over(&[int("v"), ints("items"), ints("results")])
        .subgraph("sub", &one_node("inner", does_nothing), Projection::by_name())
        .fan_out("each", fan_over(&one_node("per_item", does_nothing)))
        .branches("both", branches)
        .edge("sub", "each")
        .edge("each", "both")
        .edge("both", END)
        .entry("sub")
        .compile()
        .unwrap()
}

fn two_branches() -> Branches<Snapshot> {
    let call = |_: Ctx<Snapshot>| async { Ok(StateUpdate::new()) };
    let graph = Branch::new().subgraph(&one_node("search", does_nothing));
    Branches::new().branch("graph", graph).branch("alone", Branch::new().call(call))
}

// spec: observability §4.3, §4.5, §5.2–§5.7
#[tokio::test]
async fn every_unit_has_a_span_under_what_contains_it() {
    let graph = composed(two_branches());
    let told = events(&graph, json!({"items": [7, 8]}), InvokeOptions::new()).await;
    let spans = render_spans(&told, &SpanSettings::new());
    let shown = [
        "openarmature.subgraph.name",
        "openarmature.fan_out.item_count",
        "openarmature.node.fan_out_index",
        "openarmature.parallel_branches.branch_count",
        "openarmature.node.branch_name",
    ];
    assert_eq!(
        trees(&spans, &shown),
        [
            "openarmature.invocation OK",
            "  sub OK \"inner\"",
            "    step OK",
            "  each OK 2",
            "    each OK 0",
            "      step OK 0",
            "    each OK 1",
            "      step OK 1",
            "  both OK 2",
            "    graph OK \"graph\"",
            "      step OK \"graph\"",
            "    alone OK \"alone\"",
        ]
    );
    let closed: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(closed[closed.len() - 4..], ["graph", "alone", "both", "openarmature.invocation"]);
    for span in &spans {
        assert_eq!(span.attributes["openarmature.correlation_id"].to_json(), json!("c"), "§5.6");
    }
    assert_eq!(render_spans(&told, &SpanSettings::new()), spans, "the same events give the same spans");
}

// spec: observability §4.2
#[tokio::test]
async fn a_failure_is_told_at_its_node_and_inherited_by_what_contains_it() {
    let graph = over(&[int("v")])
        .node("ok", does_nothing)
        .subgraph("sub", &one_node("inner", fails), Projection::by_name())
        .edge("ok", "sub")
        .edge("sub", END)
        .entry("ok")
        .compile()
        .unwrap();
    let spans = render_spans(&events(&graph, json!({}), InvokeOptions::new()).await, &SpanSettings::new());
    let category = ["openarmature.error.category"];
    assert_eq!(
        trees(&spans, &category),
        [
            "openarmature.invocation ERROR",
            "  ok OK",
            "  sub ERROR \"provider_rate_limit\"",
            "    step ERROR \"provider_rate_limit\"",
        ]
    );
    let node = spans.iter().find(|span| span.name.as_ref() == "step").unwrap();
    // The description is the category of graph-engine §4 (§4.2), the attribute the error's own (§5.2).
    assert_eq!(node.status, SpanStatus::Error { description: Some("node_exception".to_owned()) });
    let exception = node.exception.as_ref().unwrap();
    assert_eq!(exception.exception_type, "provider_rate_limit");
    assert!(exception.message.ends_with("boom"), "{exception:?}");
    let invalid = events(&graph, json!({"v": "text"}), InvokeOptions::new()).await;
    let spans = render_spans(&invalid, &SpanSettings::new());
    assert_eq!(trees(&spans, &category), ["openarmature.invocation ERROR \"state_validation_error\""]);
    assert!(spans[0].exception.is_some(), "at the boundary the invocation itself says why");
}

// spec: observability §4.3: attempts are siblings; §4.2, §5.8: a wait is no failure.
#[tokio::test]
async fn attempts_are_siblings_and_a_wait_is_marked() {
    let flaky = |cx: Ctx<Snapshot>| async move {
        let failed = || NodeError::new("down").with_category("provider_unavailable");
        if cx.attempt_index() == 0 { Err(failed()) } else { Ok(StateUpdate::new()) }
    };
    let waits = |cx: Ctx<Snapshot>| async move {
        cx.suspend(Signal::new("approval").metadata(json!({"kind": "k", "deep": {"a": 1}}))).await
    };
    let retry = Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
    let builder = over(&[int("v")]).node("flaky", flaky).node("waits", waits).node_middleware("flaky", retry);
    let graph = builder.edge("flaky", "waits").edge("waits", END).entry("flaky").compile().unwrap();
    let spans = render_spans(&events(&graph, json!({}), InvokeOptions::new()).await, &SpanSettings::new());
    let shown = [
        "openarmature.node.attempt_index",
        "openarmature.outcome",
        "openarmature.suspension.signal_id",
        "openarmature.suspension.metadata.kind",
        "openarmature.suspension.metadata.deep",
    ];
    assert_eq!(
        trees(&spans, &shown),
        [
            "openarmature.invocation OK \"suspended\"",
            "  flaky ERROR 0",
            "  flaky OK 1",
            r#"  waits OK 0 "suspended" "approval" "k" "{\"a\":1}""#,
        ]
    );
}

// spec: observability §4.4
#[tokio::test]
async fn detached_units_have_traces_of_their_own() {
    let graph = composed(two_branches());
    let told = events(&graph, json!({"items": [7, 8]}), InvokeOptions::new()).await;
    let settings = SpanSettings::new().detach_subgraphs(["inner"]).detach_fan_outs(["each"]);
    let spans = render_spans(&told, &settings);
    let shown = ["openarmature.graph.entry_node", "openarmature.node.fan_out_index"];
    assert_eq!(
        trees(&spans, &shown),
        [
            "openarmature.invocation OK \"sub\"",
            "  sub OK links 1",
            "  each OK links 2",
            "  both OK",
            "    graph OK",
            "      step OK",
            "    alone OK",
            "openarmature.invocation OK \"step\"",
            "  inner OK",
            "    step OK",
            "openarmature.invocation OK \"step\"",
            "  each OK 0",
            "    step OK 0",
            "openarmature.invocation OK \"step\"",
            "  each OK 1",
            "    step OK 1",
        ]
    );
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_id.is_none()).collect();
    let ids: std::collections::BTreeSet<_> = roots
        .iter()
        .map(|root| root.attributes["openarmature.invocation_id"].to_json().to_string())
        .collect();
    assert_eq!(ids.len(), 1, "all of them are of one invocation");
    let linked: Vec<TraceId> = spans.iter().flat_map(|span| &span.links).map(|link| link.trace_id).collect();
    let detached: Vec<TraceId> =
        roots.iter().map(|root| root.trace_id).filter(|it| linked.contains(it)).collect();
    assert_eq!(detached.len(), 3);
}

// spec: observability §3.4: an addition reaches the spans on the way to it, and none that siblings share.
#[tokio::test]
async fn an_addition_is_set_on_the_spans_that_lead_to_it() {
    let adds = |cx: Ctx<Snapshot>| async move {
        let n = cx.snapshot().get("n").unwrap().to_json().unwrap();
        cx.add_metadata("item", n).unwrap();
        Ok(StateUpdate::new())
    };
    let wrapped = over(&[ints("items"), ints("results")])
        .fan_out("each", fan_over(&one_node("per_item", adds)).concurrency(1))
        .edge("each", END)
        .entry("each")
        .compile()
        .unwrap();
    let serial = |cx: Ctx<Snapshot>| async move {
        cx.add_metadata("serial", true).unwrap();
        Ok(StateUpdate::new())
    };
    let graph = over(&[ints("items"), ints("results")])
        .node("first", does_nothing)
        .subgraph("wrap", &wrapped, Projection::by_name().inputs([("items", "items")]))
        .node("last", serial)
        .edge("first", "wrap")
        .edge("wrap", "last")
        .edge("last", END)
        .entry("first")
        .compile()
        .unwrap();
    let options = InvokeOptions::new().metadata("tenant", "t");
    let spans = render_spans(&events(&graph, json!({"items": [7, 8]}), options).await, &SpanSettings::new());
    let shown = ["openarmature.user.tenant", "openarmature.user.item", "openarmature.user.serial"];
    assert_eq!(
        trees(&spans, &shown),
        [
            "openarmature.invocation OK \"t\" true",
            "  first OK \"t\"",
            "  wrap OK \"t\" 8",
            "    each OK \"t\"",
            "      each OK \"t\" 7",
            "        step OK \"t\" 7",
            "      each OK \"t\" 8",
            "        step OK \"t\" 8",
            "  last OK \"t\" true",
        ]
    );
}

// spec: observability §8.4.1, and ids that are no zeros.
#[tokio::test]
async fn a_trace_has_the_digits_of_its_invocation_or_a_hash_of_it() {
    let graph = one_node("any", does_nothing);
    for (id, trace) in [
        ("00000000-0000-4000-8000-00000000000a", "0000000000004000800000000000000a"),
        ("job-42", "f8cbd49e4a1e4d1a"),
    ] {
        let invocation =
            singletree_engine::InvokeOptions::new().invocation(id.to_owned().try_into().unwrap());
        let spans = render_spans(&events(&graph, json!({}), invocation).await, &SpanSettings::new());
        let found = spans[0].trace_id.to_string();
        assert_eq!(found.len(), 32);
        assert!(id.len() != 36 || found == trace, "{found}");
    }
}
