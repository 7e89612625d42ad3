//! Cases that must fail: whatever is changed in this one, it does not pass.

use crate::dialect::FixtureDialect;
use crate::trial::failures_in;

fn failures(text: &str) -> Vec<String> {
    failures_in(FixtureDialect::Prompts, text)
}

fn changed(case: &str, from: &str, to: &str) -> Vec<String> {
    assert!(case.contains(from), "{from}");
    failures(&case.replacen(from, to, 1))
}

const CASE: &str = "
backends:
  - name: local
    prompts:
      - {name: p, version: v1, template: 'Hello, {{ user }}!', sampling: {temperature: 1.0}}
      - {name: c, version: v1, chat_template: [{placeholder: h}, {role: user, content: [{type: text, text: x}]}]}
  - {name: away, simulate_unavailable: true}
manager: {backends: [away, local]}
calls:
  - {target: manager, operation: get, name: p, variables: {user: Ann}, capture_as: a}
  - {target: manager, operation: get, name: p, variables: {user: Bob}, capture_as: b}
  - target: manager
    operation: get
    name: c
    expected: {raises: {category: prompt_render_error, carries: {name: c, description_mentions: h}}}
  - {target: construct_prompt_group, group_name: g, members_refs: [a, b], capture_as: g}
expected:
  a: {messages: [{role: user, content: 'Hello, Ann!'}], sampling: {temperature: 1.0}, token_budget_absent: true}
  prompt_group: {of: g, member_count: 2, member_names: [p, p], member_order_preserved: true}
  result_equivalence: {of: [a, b], fields_must_match: [template_hash]}
  rendered_hash_different: [[a, b]]
  backend_call_counts: {away: 3}
expected_backend_state: {local: {source_read_count: 3}}
expected_shared_prefix: {between: [a, b], message_index: 0, prefix: 'Hello, '}
";

#[test]
fn the_case_itself_passes() {
    assert_eq!(failures(CASE), [""; 0]);
}

#[test]
fn what_is_unknown_fails_by_name() {
    for (from, to, told) in [
        ("manager: {", "whatever: 1\nmanager: {", "unknown key 'whatever'"),
        ("simulate_unavailable: true", "simulates: true", "unknown key 'simulates'"),
        ("version: v1, template", "variant: v1, version: v1, template", "unknown key 'variant'"),
        ("template: 'Hello", "chat_template: [], template: 'Hello", "either 'template' or 'chat_template'"),
        ("role: user, content: [", "role: tool, content: [", "expected system, user or assistant"),
        ("{type: text, text: x}", "{type: thinking, text: x}", "expected text or image"),
        ("backends: [away, local]", "backends: [away, here]", "there is no backend 'here'"),
        ("backends: [away, local]", "label_resolver_ref: r", "there is no label resolver 'r'"),
        ("backends: [away, local]", "default_cache_ttl_seconds: -1", "expected a number from 0 on"),
        ("operation: get, name: p", "operation: put, name: p", "unknown operation 'put'"),
        ("target: manager, operation", "target: somebody, operation", "unknown target 'somebody'"),
        ("target: manager, operation", "target: {manager: other}, operation", "there is no manager 'other'"),
        ("variables: {user: Ann}", "variables: {user: Ann}, strict: false", "unknown key 'strict'"),
        ("carries: {name: c", "carries: {title: c", "unknown key 'title'"),
        ("description_mentions: h", "description_says: h", "unknown key 'description_says'"),
        ("token_budget_absent", "budget_absent", "unknown key 'budget_absent'"),
        ("member_count: 2", "members: 2", "unknown key 'members'"),
        ("backends: [away, local]", "label_resolvers: [r]", "there is no label resolver 'r'"),
        ("backends: [away, local]", "label_resolver: {name: r}", "has a 'mapping' or a 'default'"),
        ("backends: [away, local]", "label_resolver: {mapping: {}, more: 1}", "unknown key 'more'"),
        (
            "manager: {",
            "label_resolver: {mapping: {}, fallback: label_resolver}\nmanager: {label_resolver: label_resolver, ",
            "fall back to each other",
        ),
        ("  rendered_hash_different", "  hash_different", "unknown key 'hash_different'"),
        ("source_read_count", "read_count", "key 'source_read_count' is missing"),
    ] {
        let failed = changed(CASE, from, to);
        let is = failed.iter().any(|it| it.starts_with("not understood") && it.contains(told));
        assert!(is, "{to}: {failed:?}");
    }
}

#[test]
fn what_is_not_so_fails_in_its_assertion() {
    for (from, to, at) in [
        ("category: prompt_render_error", "category: prompt_not_found", "raises.category"),
        ("carries: {name: c", "carries: {name: p", "raises.carries.name"),
        ("description_mentions: h", "description_mentions: other", "raises.carries.description_mentions"),
        (
            "expected: {raises: {category: prompt_render_error, carries: {name: c, description_mentions: h}}}",
            "expected: {}",
            "calls[2]",
        ),
        (
            "capture_as: a}",
            "capture_as: a, expected: {raises: {category: prompt_not_found}}}",
            "calls[0].expected.raises",
        ),
        ("capture_as: a}", "capture_as: a, expected: {prompt_group: {}}}", "calls[0].expected.prompt_group"),
        ("content: 'Hello, Ann!'", "content: 'Hello, Bob!'", "expected.a.messages"),
        ("{temperature: 1.0}, token", "{}, token", "expected.a.sampling"),
        ("token_budget_absent: true", "token_budget_absent: false", "expected.a.token_budget_absent"),
        ("{of: g,", "{of: h,", "expected.prompt_group.of"),
        ("member_count: 2", "member_count: 3", "expected.prompt_group.member_count"),
        ("[p, p]", "[p, c]", "expected.prompt_group.member_names"),
        ("{of: [a, b], f", "{of: [a], f", "expected.result_equivalence.of"),
        ("[template_hash]", "[hash]", "expected.result_equivalence"),
        ("[template_hash]", "[template_hash, template_hash]", "fields_must_match"),
        ("[template_hash]", "[]", "fields_must_match"),
        ("[template_hash]", "[rendered_hash]", "expected.result_equivalence.fields_must_match[0]"),
        ("different: [[a, b]]", "different: [[a, a]]", "expected.rendered_hash_different[0]"),
        ("different: [[a, b]]", "equal: [[a, b]]", "expected.rendered_hash_equal[0]"),
        ("{away: 3}", "{away: 2}", "expected.backend_call_counts.away"),
        ("source_read_count: 3", "source_read_count: 2", "expected_backend_state.local.source_read_count"),
        ("prefix: 'Hello, '", "prefix: 'Hello, A'", "expected_shared_prefix.prefix"),
        ("message_index: 0", "message_index: 1", "expected_shared_prefix"),
    ] {
        let failed = changed(CASE, from, to);
        let told = failed.iter().any(|it| it.starts_with("assertion: ") && it.contains(at));
        assert!(told, "{to}: {failed:?}");
    }
}

#[test]
fn a_case_that_asserts_nothing_fails() {
    let text = &CASE[..CASE.find("  - target: manager\n").unwrap()];
    assert_eq!(failures(text), ["assertion: the case: nothing was asserted"]);
}

// A group is checked against the prompts of which it was made, not against its own member list.
#[test]
fn the_order_of_a_group_is_that_of_its_references() {
    let failed = changed(CASE, "member_order_preserved: true", "member_order_preserved: false");
    assert!(failed[0].starts_with("assertion: expected.prompt_group.member_order_preserved"), "{failed:?}");
}
