//! Tests of the checker of telemetry: a wrong expectation fails at its path, and an unknown one by its name.

use crate::trial::{changed, failures};

const CASE: &str = r#"
state: {fields: {msg: {type: string, default: ""}, seen: {type: dict, default: {}}}}
entry: ask
nodes:
  ask:
    augment_metadata: {step_of: first}
    calls_llm: {messages: [{role: user, content: hi}], stores_response_in: msg}
    emits_log: {message: asked, level: INFO}
    capture_invocation_metadata_into: seen
edges: [{from: ask, to: END}]
initial_state: {}
caller_metadata: {tenant: t}
enable_metrics: true
mock_llm:
  - status: 200
    body:
      id: r
      model: test-model
      choices: [{index: 0, message: {role: assistant, content: hello}, finish_reason: stop}]
      usage: {prompt_tokens: 5, completion_tokens: 1, total_tokens: 6}
typed_observers: [{name: c, kind: typed_event_collector}]
expected:
  span_tree:
    - name: openarmature.invocation
      status: OK
      children:
        - name: ask
          status: OK
          attributes: {openarmature.user.step_of: first}
          children:
            - name: openarmature.llm.complete
              attributes: {openarmature.llm.model: test-model}
              attributes_absent: [openarmature.llm.output.content]
              children: []
  langfuse_trace:
    observations: [{type: span, name: ask, children: [{type: generation, children: []}]}]
  log_records: [{body: asked, attributes: {openarmature.user.tenant: t}}]
  metrics: [{instrument: openarmature.gen_ai.client.token.usage, value: 1, dimensions: {openarmature.gen_ai.operation: chat, openarmature.gen_ai.token.type: output, gen_ai.request.model: test-model, gen_ai.system: openai}}]
  observers: {c: {event_count: {event_type: LlmCompletionEvent, count: 1}}}
  invariants: {correlation_id_consistency: true, capture_after_augment_sees_write: true}
"#;

#[test]
fn a_case_with_all_recorders_passes() {
    assert_eq!(failures(CASE), Vec::<String>::new());
}

#[test]
fn a_wrong_expectation_fails_at_its_path() {
    for (from, to, path) in [
        ("- name: ask\n", "- name: other\n", "expected.span_tree[0].children[0].name"),
        (
            "status: OK\n          attr",
            "status: ERROR\n          attr",
            "expected.span_tree[0].children[0].status",
        ),
        (
            "step_of: first}\n          children",
            "step_of: x}\n          children",
            "openarmature.user.step_of",
        ),
        ("[openarmature.llm.output.content]", "[openarmature.llm.finish]", "attributes_absent"),
        ("[openarmature.llm.output.content]", "[gen_ai.system]", "attributes_absent"),
        ("children: [{type: generation, children: []}]", "children: []", "observations[0].children"),
        ("body: asked", "body: told", "expected.log_records[0].body"),
        ("value: 1", "value: 2", "expected.metrics[0]"),
        ("count: 1", "count: 2", "event_count.count"),
        ("LlmCompletionEvent, count", "LlmEvent, count", "event_count.event_type"),
        ("consistency: true", "consistency: false", "correlation_id_consistency"),
    ] {
        let found = changed(CASE, from, to);
        assert!(
            found.iter().any(|failure| failure.starts_with("assertion") && failure.contains(path)),
            "{to}: {found:?}"
        );
    }
}

#[test]
fn unknown_words_fail_by_their_names() {
    for (from, to, name) in [
        ("correlation_id_consistency", "correlation_id_beauty", "unknown invariant 'correlation_id_beauty'"),
        ("log_records:", "log_lines:", "unknown key 'log_lines'"),
        ("event_count:", "event_sum:", "unknown key 'event_sum'"),
        ("{c: {event", "{d: {event", "no collector is called 'd'"),
        ("kind: typed_event_collector", "kind: other", "unknown kind 'other'"),
        ("emits_log:", "emits_line:", "unknown key 'emits_line'"),
        ("type: generation, children: []", "type: generation, colour: red", "unknown key 'colour'"),
    ] {
        let found = changed(CASE, from, to);
        assert!(found.iter().any(|failure| failure.contains(name)), "{to}: {found:?}");
    }
}

/// A node that calls the model more often than the case has answers fails the case.
#[test]
fn a_call_without_an_answer_is_told() {
    let found = changed(CASE, "mock_llm:", "mock_llm_stream: []\nmock_llm: []\nclock_stub:");
    assert!(!found.is_empty());
    let found = changed(
        CASE,
        "edges: [{from: ask, to: END}]",
        "edges: [{from: ask, to: more}, {from: more, to: END}]",
    );
    assert!(!found.is_empty());
    let twice = CASE.replacen("edges: [{from: ask, to: END}]", "  more:\n    calls_llm: {messages: [{role: user, content: hi}]}\nedges: [{from: ask, to: more}, {from: more, to: END}]", 1);
    let found = failures(&twice);
    assert!(found.iter().any(|failure| failure.contains("has no answer")), "{found:?}");
}

#[test]
fn a_node_runs_its_directives_in_the_order_of_the_document() {
    let later = CASE.replacen("    augment_metadata: {step_of: first}\n", "", 1).replacen(
        "capture_invocation_metadata_into: seen\n",
        "capture_invocation_metadata_into: seen\n    augment_metadata_from_field: {step_of: msg}\n",
        1,
    );
    let found = failures(&later);
    assert!(found.iter().any(|failure| failure.contains("capture_after_augment_sees_write")), "{found:?}");
}

/// What a shared provider would get is seen there: the case of a client of credentials fails with a client on the global
/// provider.
#[test]
fn observations_on_the_global_provider_are_seen() {
    let (begin, end) = CASE.split_once("expected:").unwrap();
    assert!(end.contains("langfuse_trace"));
    let begin = begin.replacen(
        "enable_metrics: true",
        "caller_global_otel_active: true\nlangfuse_client: {mode: credentials}",
        1,
    );
    let case = format!(
        "{begin}expected: {{no_langfuse_observations_on_global: true, no_langfuse_observations_on_private: true}}\n"
    );
    assert_eq!(failures(&case), Vec::<String>::new());
    let leaking = changed(&case, "mode: credentials", "mode: supplied");
    assert!(leaking.len() == 1 && leaking[0].contains("there are 2 observations"), "{leaking:?}");
    let isolated = changed(&case, "mode: credentials", "mode: supplied, provider: isolated");
    assert_eq!(isolated, Vec::<String>::new());
}
