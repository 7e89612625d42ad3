//! Spans and measurements of calls (observability §5.5, §5.5.11, §11).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, FanOut, GraphEvent, InvokeOptions, Next, NodeError, Snapshot, StateUpdate, SystemRandomSource,
    ToolRun, around,
};
use singletree_llm::{
    ActivePrompt, InstantTimer, ModelRetryPolicy, ProviderCall, Request, RetryBackoff, RuntimeConfig,
    TokenBudget,
};
use singletree_telemetry::{
    Attributes, RecorderLimits, SpanSettings, TraceSpan, measure_calls, render_spans,
};

use crate::rig::{
    Model, asking, asks, does_nothing, events, ints, one_node, over, says, store, trees, unavailable,
};

fn find<'a>(spans: &'a [TraceSpan], name: &str) -> &'a TraceSpan {
    spans.iter().find(|span| span.name.as_ref() == name).unwrap()
}

fn json_of(attributes: &Attributes, prefix: &str) -> Value {
    let of = attributes.iter().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value)));
    Value::Object(of.map(|(name, value)| (name.to_owned(), value.to_json())).collect())
}

fn budgeted() -> Request {
    let prompt = ActivePrompt {
        name: "p".into(),
        token_budget: Some(TokenBudget { input_max_tokens: Some(10), total_max_tokens: Some(48) }),
        ..ActivePrompt::default()
    };
    let config = RuntimeConfig {
        max_tokens: Some(5),
        extras: json!({"top_k": 1}).as_object().unwrap().clone(),
        ..RuntimeConfig::default()
    };
    asks().with_config(config).with_prompt(prompt)
}

// spec: observability §5.5.1–§5.5.4, §5.5.15
#[tokio::test]
async fn a_model_call_has_a_span_whose_payloads_are_off_unless_asked_for() {
    let graph = one_node("any", asking(&Model::answers([says("Done.")]), budgeted()));
    let told = events(&graph, json!({}), InvokeOptions::new()).await;
    let plain = render_spans(&told, &SpanSettings::new());
    assert_eq!(
        trees(&plain, &[]),
        ["openarmature.invocation OK", "  step OK", "    openarmature.llm.complete OK"]
    );
    let span = find(&plain, "openarmature.llm.complete");
    let llm = json!({
        "attempt_index": 0, "finish_reason": "stop", "model": "tested", "token_budget.exceeded": true,
        "usage.prompt_tokens": 20, "usage.completion_tokens": 4, "usage.total_tokens": 24,
        "cache_read.input_tokens": 0,
    });
    assert_eq!(json_of(&span.attributes, "openarmature.llm."), llm);
    assert_eq!(
        json_of(&span.attributes, "gen_ai."),
        json!({
            "system": "vllm", "request.model": "tested", "request.max_tokens": 5, "response.model": "tested-2026",
            "response.id": "r-1", "response.finish_reasons": ["stop"], "usage.input_tokens": 20,
            "usage.output_tokens": 4,
        })
    );
    let settings = SpanSettings::new().disable_provider_payload(false).disable_genai_semconv(true);
    let spans = render_spans(&told, &settings);
    let attributes = &find(&spans, "openarmature.llm.complete").attributes;
    assert_eq!(json_of(attributes, "gen_ai."), json!({}));
    assert_eq!(
        attributes["openarmature.llm.input.messages"].to_json(),
        json!(r#"[{"content":"hello","role":"user"}]"#)
    );
    assert_eq!(attributes["openarmature.llm.output.content"].to_json(), json!("Done."));
    assert_eq!(attributes["openarmature.llm.request.extras"].to_json(), json!(r#"{"top_k":1}"#));
    assert!(!attributes.contains_key("openarmature.llm.cache_read.input_tokens"));
    let without = render_spans(&told, &SpanSettings::new().disable_llm_spans(true));
    assert_eq!(trees(&without, &[]), ["openarmature.invocation OK", "  step OK"]);
}

fn retrying(
    model: Arc<Model>,
) -> impl Fn(Ctx<Snapshot>) -> singletree_env::BoxFuture<'static, Result<StateUpdate, NodeError>> + Send + Sync
{
    move |cx| {
        let model = model.clone();
        Box::pin(async move {
            let retry = ModelRetryPolicy::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
            let call = ProviderCall::of(model.as_ref()).retrying(&retry, &InstantTimer, &SystemRandomSource);
            cx.calls().complete(call, &budgeted()).await?;
            Ok(StateUpdate::new())
        })
    }
}

// spec: observability §5.5, §11.2, §11.3: a span and a duration for each attempt, tokens where there are any.
#[tokio::test]
async fn each_attempt_has_a_span_and_a_duration() {
    let graph = one_node("any", retrying(Model::answers([unavailable(), says("Done.")])));
    let told = events(&graph, json!({}), InvokeOptions::new()).await;
    let shown =
        ["openarmature.llm.attempt_index", "openarmature.llm.retry_reason", "openarmature.error.category"];
    assert_eq!(
        trees(&render_spans(&told, &SpanSettings::new()), &shown),
        [
            "openarmature.invocation OK",
            "  step OK",
            "    openarmature.llm.complete ERROR 0 \"provider_unavailable\"",
            "    openarmature.llm.complete OK 1 \"transient\"",
        ]
    );
    let measured = |events: &[GraphEvent]| -> Vec<String> {
        let one = |it: &singletree_telemetry::CallMeasurement| {
            let name = it.instrument.name().rsplit_once("client.").unwrap().1;
            let value = if name == "operation.duration" { String::new() } else { format!(" {}", it.value) };
            let more = it.dimensions.iter().filter(|(key, _)| {
                !["openarmature.gen_ai.operation", "gen_ai.request.model", "gen_ai.system"].contains(key)
            });
            format!("{name}{value}{}", more.map(|(_, value)| format!(" {value}")).collect::<String>())
        };
        measure_calls(events).iter().map(one).collect()
    };
    let expected = [
        "operation.duration provider_unavailable",
        "token.usage 20 input",
        "token.usage 4 output",
        "operation.duration",
        "token_budget.exceeded 1 input",
        "token_budget.utilization 2 input",
        "token_budget.utilization 0.5 total",
    ];
    assert_eq!(measured(&told), expected);
    let without: Vec<_> =
        told.into_iter().filter(|event| !matches!(event, GraphEvent::LlmAttempt(_))).collect();
    assert_eq!(measured(&without), expected[1..], "without attempts the call stands for its last one");
}

// spec: observability §5.5: a call of a middleware is under the innermost inner run, never under a node that dispatches.
#[tokio::test]
async fn a_call_of_a_middleware_is_under_the_instance_around_its_node() {
    let model = Model::answers([says("a"), says("b")]);
    let guard = |model: Arc<Model>| {
        around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
            let model = model.clone();
            Box::pin(async move {
                next.calls().complete(ProviderCall::of(model.as_ref()), &asks()).await?;
                next.run(&state).await
            })
        })
    };
    let builder = over(&[crate::rig::int("n"), crate::rig::int("out")]).node("step", does_nothing);
    let inner = builder
        .node_middleware("step", guard(model.clone()))
        .edge("step", END)
        .entry("step")
        .compile()
        .unwrap();
    let fan =
        FanOut::over(&inner).items("items", "n").collect("out", "results").instance_middleware(guard(model));
    let graph = over(&[ints("items"), ints("results")]).fan_out("each", fan).edge("each", END).entry("each");
    let told = events(&graph.compile().unwrap(), json!({"items": [1]}), InvokeOptions::new()).await;
    assert_eq!(
        trees(&render_spans(&told, &SpanSettings::new()), &["openarmature.node.fan_out_index"]),
        [
            "openarmature.invocation OK",
            "  each OK",
            "    each OK 0",
            "      openarmature.llm.complete OK 0",
            "      openarmature.llm.complete OK 0",
            "      step OK 0",
        ]
    );
}

// spec: observability §5.5.11
#[tokio::test]
async fn a_tool_has_a_span_whose_arguments_are_a_payload() {
    let node = |cx: Ctx<Snapshot>| async move {
        let arguments = json!({"city": "Paris"}).as_object().cloned().unwrap();
        let tool =
            ToolRun { tool_name: "weather", arguments: Some(&arguments), tool_call_id: Some("call-1") };
        cx.calls().begin_tool_call(tool).complete(|| json!({"c": 20}));
        cx.calls().begin_tool_call(tool).fail(Some("Timeout"), || "too late".into());
        Ok(StateUpdate::new())
    };
    let told = events(&one_node("any", node), json!({}), InvokeOptions::new()).await;
    let plain = render_spans(&told, &SpanSettings::new());
    assert_eq!(
        trees(&plain, &["openarmature.tool.name", "openarmature.tool.call.id", "error.type"]),
        [
            "openarmature.invocation OK",
            "  step OK",
            "    openarmature.tool.call OK \"weather\" \"call-1\"",
            "    openarmature.tool.call ERROR \"weather\" \"call-1\" \"Timeout\"",
        ]
    );
    assert!(!format!("{plain:?}").contains("\"openarmature.tool.call.arguments\""));
    let full = render_spans(&told, &SpanSettings::new().disable_provider_payload(false));
    let attributes = &find(&full, "openarmature.tool.call").attributes;
    assert_eq!(attributes["openarmature.tool.call.arguments"].to_json(), json!(r#"{"city":"Paris"}"#));
    assert_eq!(attributes["openarmature.tool.call.result"].to_json(), json!(r#"{"c":20}"#));
}

// INV-12: a turn with more events than are recorded says how many were left out.
#[tokio::test]
async fn events_beyond_the_bound_are_counted() {
    let events = events(&one_node("n", does_nothing), json!({}), InvokeOptions::new()).await;
    assert_eq!(store(&events, RecorderLimits::default()).left_out_count(), 0);
    let stored = store(&events, RecorderLimits { turn_bytes: 0 });
    assert_eq!(stored.left_out_count(), 1, "{:?}", stored.pieces);
}
