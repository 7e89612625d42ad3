//! Langfuse traces (observability §8).

use serde_json::{Value, json};
use singletree_engine::{END, InvokeOptions, Projection};
use singletree_llm::{ActivePrompt, TokenBudget};
use singletree_telemetry::{LangfuseObservation, LangfuseSettings, StateView, render_langfuse_traces};

use crate::rig::{Model, asking, asks, does_nothing, events, fails, int, one_node, over, says};

fn shape(observation: &LangfuseObservation) -> Value {
    json!([
        observation.observation_type,
        observation.name,
        observation.level.as_str(),
        observation.children.iter().map(shape).collect::<Vec<_>>()
    ])
}

// spec: observability §8.3, §8.4.1–§8.4.4
#[tokio::test]
async fn a_run_is_a_trace_of_observations() {
    let prompt = ActivePrompt {
        name: "p".into(),
        version: "1".into(),
        token_budget: Some(TokenBudget { input_max_tokens: Some(10), total_max_tokens: None }),
        observability_entities: json!({"langfuse_prompt": "lf-1"}).as_object().cloned(),
        ..ActivePrompt::default()
    };
    let graph = one_node("any", asking(&Model::answers([says("Done.")]), asks().with_prompt(prompt)));
    let options = InvokeOptions::new().label("nightly").metadata("userId", "u");
    let told = events(&graph, json!({"v": 7}), options).await;
    let traces = render_langfuse_traces(&told, &LangfuseSettings::new());
    let [trace] = traces.as_slice() else { panic!("{traces:?}") };
    assert_eq!((trace.name.as_str(), &trace.user_id), ("nightly", &Some(json!("u"))));
    assert_eq!(trace.metadata["entry_node"], json!("step"));
    assert_eq!(trace.metadata["userId"], json!("u"));
    assert_eq!(trace.input, Some(json!({"entry_node": "step", "correlation_id": "c"})));
    assert_eq!(trace.output, Some(json!({"final_node": "step", "status": "completed"})));
    let call = json!(["generation", "openarmature.llm.complete", "WARNING", []]);
    assert_eq!(shape(&trace.observations[0]), json!(["span", "step", "DEFAULT", [call]]));
    let generation = &trace.observations[0].children[0];
    assert_eq!(generation.status_message.as_deref(), Some("token budget exceeded: input 20 > 10"));
    assert_eq!(generation.prompt_entity, Some(json!("lf-1")));
    assert_eq!(Value::Object(generation.usage.clone()), json!({"input": 20, "output": 4, "total": 24}));
    assert_eq!(generation.metadata["token_budget_exceeded"], json!(true));
    assert_eq!(generation.metadata["prompt"]["version"], json!("1"));
    assert_eq!((&generation.input, &generation.output), (&None, &None), "payloads are off");

    let shown = LangfuseSettings::new().disable_provider_payload(false).disable_state_payload(false);
    let shown = shown.trace_output_from_state(StateView::new(|state| state.get("v")?.to_json().ok()));
    let traces = render_langfuse_traces(&told, &shown);
    let generation = &traces[0].observations[0].children[0];
    assert_eq!(generation.input, Some(json!([{"role": "user", "content": "hello"}])));
    assert_eq!(generation.output, Some(json!("Done.")));
    assert_eq!(traces[0].input, Some(json!({"v": 7, "n": 0, "out": 0})));
    assert_eq!(traces[0].output, Some(json!(7)));
}

// spec: observability §8.4.1, §8.5: a detached unit is a trace that says which invocation it is of.
#[tokio::test]
async fn a_detached_unit_is_a_trace_of_its_own() {
    let graph = over(&[int("v")])
        .node("first", does_nothing)
        .subgraph("sub", &one_node("inner", fails), Projection::by_name())
        .edge("first", "sub")
        .edge("sub", END)
        .entry("first")
        .compile()
        .unwrap();
    let options = InvokeOptions::new().invocation("job-42".to_owned().try_into().unwrap());
    let told = events(&graph, json!({}), options).await;
    let traces = render_langfuse_traces(&told, &LangfuseSettings::new().detach_subgraphs(["inner"]));
    let [outer, inner] = traces.as_slice() else { panic!("{traces:?}") };
    assert_eq!(outer.metadata["invocation_id"], json!("job-42"));
    assert_eq!(outer.output, Some(json!({"final_node": "sub", "status": "failed"})));
    assert_eq!(outer.observations[1].metadata["detached_child_trace_ids"], json!([inner.id]));
    assert_eq!(outer.observations[1].metadata["detached"], json!(true));
    assert_eq!(inner.metadata["detached_from_invocation_id"], json!("job-42"));
    assert_eq!(inner.output, Some(json!({"final_node": "step", "status": "failed"})));
    let failed = json!(["span", "inner", "ERROR", [["span", "step", "ERROR", []]]]);
    assert_eq!(shape(&inner.observations[0]), failed);
    assert_eq!(inner.observations[0].status_message.as_deref(), Some("provider_rate_limit"));
}
