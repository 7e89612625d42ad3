//! Tests of the checker of llm-provider's cases: an unknown key fails by name, and a wrong value fails at its path.

use crate::dialect::FixtureDialect;
use crate::trial::failures_in;

const CASE: &str = r#"
mock_provider:
  capabilities: {supports_image_input: true}
  responses:
    - status: 200
      headers: {X-Kind: a}
      body:
        id: x
        model: test-model
        choices: [{index: 0, message: {role: assistant, content: "Hello."}, finish_reason: stop}]
        usage: {prompt_tokens: 1, completion_tokens: 2, total_tokens: 3}
call:
  operation: complete
  messages: [{role: user, content: "Hi"}]
  tools: [{name: t, description: d, parameters: {type: object}}]
  tool_choice: auto
  config: {temperature: 0.5, stop_sequences: [S], extras: {stop: [E], k: 1}}
  retry: {max_attempts: 2, backoff: {type: deterministic, seconds: 0}, reask: {template: r}, per_attempt_override: [{seed: 1}]}
expected_wire_request:
  model: test-model
  messages: [{role: user, content: "*"}]
  tools: [{type: function, function: {name: t, description: d, parameters: {type: object}}}]
  tool_choice: auto
  temperature: 0.5
  stop: [S, E]
  k: 1
expected_wire_request_checks: {response_format_absent: true}
expected_wire_request_absent_keys: [stream]
expected:
  response:
    message: {role: assistant, content: "Hello.", tool_calls: null}
    finish_reason: stop
    usage: {prompt_tokens: 1}
    parsed: null
    raw_check: {required_keys: [id]}
  provider_call_count: 1
  caller_messages_unmodified: true
  no_token_events_emitted: true
  wire_requests: [{sampling: {temperature: 0.5}, appended_messages: []}]
  invariants: {wire_stop_is_merged_union: true}
"#;

fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(CASE.contains(from), "{from}");
    failures_in(FixtureDialect::Llm, &CASE.replacen(from, to, 1))
}

#[test]
fn the_case_passes_as_it_is() {
    assert_eq!(failures_in(FixtureDialect::Llm, CASE), Vec::<String>::new());
}

// spec: conformance-adapter §8.2: fixture_directive_unknown
#[test]
fn whatever_is_unknown_fails_the_case_by_name() {
    for (from, to, name) in [
        ("mock_provider:", "mapping: cohere\nmock_provider:", "cohere"),
        ("capabilities: {", "capabilities: {supports_wishes: true, ", "supports_wishes"),
        ("  responses:", "  wishes: 1\n  responses:", "wishes"),
        ("    - status: 200", "    - stream_status: 1\n      status: 200", "stream_status"),
        ("status: 200", "status: 2000", "no status"),
        ("operation: complete", "operation: embed", "embed"),
        ("operation: complete", "operation: complete\n  priority: 1", "priority"),
        ("role: user, content: \"Hi\"", "role: user, content: \"Hi\", nmae: x", "nmae"),
        ("[{role: user, content: \"Hi\"}]", "[{role: user, content: [{type: text, txt: x}]}]", "txt"),
        ("{name: t, ", "{name: t, strict: true, ", "strict"),
        ("config: {", "config: {top_k: 1, ", "top_k"),
        ("retry: {", "retry: {jitter: 1, ", "jitter"),
        ("type: deterministic", "type: exponential", "exponential"),
        ("template: r", "template: r, tone: kind", "tone"),
        ("[{seed: 1}]", "[{speed: 1}]", "speed"),
        ("response_format_absent: true", "response_format_present: true", "response_format_present"),
        ("tool_calls: null", "tool_calls: null, name: x", "name"),
        ("    parsed: null", "    reasoning: null", "reasoning"),
        ("raw_check: {", "raw_check: {exactly: x, ", "exactly"),
        ("  provider_call_count: 1", "  provider_calls: 1", "provider_calls"),
        ("sampling: {temperature: 0.5},", "sampled: {},", "sampled"),
        ("wire_stop_is_merged_union", "wire_stop_is_fine", "wire_stop_is_fine"),
        ("expected_wire_request_checks", "expected_wire_request_notes", "expected_wire_request_notes"),
    ] {
        let found = changed(from, to);
        assert!(
            found.iter().any(|it| it.contains("not understood") && it.contains(name)),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn whatever_is_not_so_fails_where_it_stands() {
    for (from, to, place) in [
        ("content: \"*\"", "content: \"Hi!\"", "expected_wire_request"),
        ("stop: [S, E]", "stop: [E, S]", "expected_wire_request"),
        ("response_format_absent: true", "response_format_absent: false", "expected_wire_request_checks"),
        ("[stream]", "[stream, k]", "expected_wire_request_absent_keys"),
        ("[stream]", "[steam]", "expected_wire_request_absent_keys"),
        ("[stream]", "[stream, stream]", "expected_wire_request_absent_keys"),
        ("[stream]", "[]", "expected_wire_request_absent_keys"),
        (
            "content: \"Hello.\", tool_calls",
            "content: \"Hello\", tool_calls",
            "expected.response.message.content",
        ),
        ("tool_calls: null", "tool_calls: [{id: x}]", "expected.response.message.tool_calls"),
        ("    finish_reason: stop\n", "    finish_reason: length\n", "expected.response.finish_reason"),
        ("usage: {prompt_tokens: 1}", "usage: {cached_tokens: 0}", "expected.response.usage"),
        ("parsed: null", "parsed: {}", "expected.response.parsed"),
        ("required_keys: [id]", "required_keys: [created]", "expected.response.raw_check.required_keys"),
        ("provider_call_count: 1", "provider_call_count: 0", "expected.provider_call_count"),
        ("caller_messages_unmodified: true", "caller_messages_unmodified: false", "expected.caller_messages"),
        ("no_token_events_emitted: true", "no_token_events_emitted: false", "expected.no_token_events"),
        ("appended_messages: []}]", "appended_messages: []}, {}]", "expected.wire_requests"),
        ("merged_union: true", "merged_union: false", "expected.invariants.wire_stop_is_merged_union"),
    ] {
        let found = changed(from, to);
        let there = |it: &String| it.starts_with(&format!("assertion: {place}"));
        assert!(!found.is_empty() && found.iter().all(there), "{place}: {found:?}");
    }
}

// A case that must fail and does not, and one that fails and must not.
#[test]
fn an_error_is_expected_or_it_fails_the_case() {
    let raises = "raises: {category: provider_unavailable}\n  ignored:";
    let found = changed("response:\n    message", &format!("{raises}\n    message"));
    assert!(found.iter().any(|it| it.contains("expected.raises: it did not fail")), "{found:?}");
    let found = changed("status: 200", "status: 401");
    assert!(found.iter().any(|it| it.contains("provider_authentication")), "{found:?}");
}

#[test]
fn a_request_that_the_server_has_no_answer_to_fails_the_case() {
    let answer = CASE.find("  responses:").unwrap()..CASE.find("call:").unwrap();
    let mut text = CASE.to_owned();
    text.replace_range(answer, "  responses: []\n");
    let found = failures_in(FixtureDialect::Llm, &text);
    assert!(found.iter().any(|it| it.contains("the case has no answer to it")), "{found:?}");
}

// spec: conformance-adapter §5.11
#[test]
fn each_attempt_has_the_span_that_the_case_expects() {
    let expecting = |spans: &str| {
        let spans = format!("  provider_call_count: 1\n  llm_spans: [{spans}]");
        changed("  provider_call_count: 1", &spans)
    };
    let right = "{attempt_index: 0, attributes: {openarmature.llm.model: test-model}, attributes_absent: \
                 [openarmature.llm.retry_reason], error_category: null}";
    assert_eq!(expecting(right), Vec::<String>::new());
    for (wrong, path) in [
        (right.replace("attempt_index: 0", "attempt_index: 1"), "llm_spans[0].attempt_index"),
        (right.replace("test-model", "other"), "attributes.openarmature.llm.model"),
        (right.replace("retry_reason", "retry_cause"), "attributes_absent"),
        (right.replace("null", "provider_unavailable"), "error_category"),
        (format!("{right}, {right}"), "expected 2 spans, found 1"),
    ] {
        let found = expecting(&wrong);
        assert!(found.len() == 1 && found[0].contains(path), "{path}: {found:?}");
    }
}

#[test]
fn bytes_that_must_be_the_same_are_of_two_calls() {
    let call = |order: &str| format!("{{operation: complete, messages: [{order}], expected: {{}}}}");
    let answer =
        "{status: 200, body: {model: m, choices: [{index: 0, message: {content: x}, finish_reason: stop}]}}";
    let case = |second: &str, calls: &str| {
        let text = format!(
            "mock_provider: {{responses: [{answer}, {answer}]}}\ncalls: [{}, {}]\nexpected_wire_bytes_identical: {{calls: {calls}}}",
            call("{role: user, content: a}"),
            call(second),
        );
        failures_in(FixtureDialect::Llm, &text)
    };
    assert_eq!(case("{content: a, role: user}", "[0, 1]"), Vec::<String>::new());
    for (second, calls) in [
        ("{role: user, content: b}", "[0, 1]"),
        ("{role: user, content: a}", "[0, 0]"),
        ("{role: user, content: a}", "[0]"),
        ("{role: user, content: a}", "[0, 2]"),
    ] {
        assert_eq!(case(second, calls).len(), 1, "{second} {calls}");
    }
}
