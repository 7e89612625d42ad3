//! Templates that make the engine recurse: they end in text or in an error, never on the stack.

use serde_json::json;
use singletree_prompts::PromptInputs;

use crate::support::text;

/// Close to the number of operators that a template may have.
const CHAIN: usize = 49_000;

fn inputs() -> PromptInputs {
    let nested = (0..100).fold(json!([]), |inner, _| json!([inner]));
    PromptInputs::new().variable("n", 1).variable("xs", nested)
}

// INV-12
#[test]
fn chains_of_every_kind_end() {
    for (begin, link, count, end) in [
        ("{{ ", "-", CHAIN, "1 }}"),
        ("{{ ", "not ", CHAIN, "1 }}"),
        ("{{ 1", "+1", CHAIN, " }}"),
        ("{{ 1", "~1", CHAIN, " }}"),
        ("{{ 1", "**1", CHAIN / 2, " }}"),
        ("{{ 1", " and 1", CHAIN, " }}"),
        ("{{ 1", " if 1 else 1", CHAIN / 2, " }}"),
        ("{{ 1", " is odd", CHAIN, " }}"),
        ("{{ 1", "<1", CHAIN, " }}"),
        ("{{ n", ".a", CHAIN, " }}"),
        ("{{ n", "[1]", CHAIN, " }}"),
        ("{{ n", "()", CHAIN, " }}"),
        ("{{ n", "|string", CHAIN, " }}"),
        ("{{ ", "(", CHAIN, ""),
        ("{{ ", "[", CHAIN, ""),
        ("{{ ", "{'a':", CHAIN / 2, ""),
        ("{% if 0 %}", "{% elif 0 %}", CHAIN / 5, "{% endif %}x"),
        ("", "{% if n %}", CHAIN / 5, ""),
        ("", "{% for a in n %}", CHAIN / 5, ""),
        ("{% set a = [] %}", "{% set a=[a] %}", CHAIN / 6, "{{ a ~ a }}"),
    ] {
        let template = format!("{begin}{}{end}", link.repeat(count));
        let ended = text(&template, &inputs());
        let refused = ended.as_ref().is_err_and(|it| it.contains("operators"));
        assert!(!refused, "{link} is not tried: {ended:?}");
    }
}

#[test]
fn more_operators_than_there_is_room_for_are_refused() {
    let told = text(&format!("{{{{ {}1 }}}}", "-".repeat(50_001)), &inputs()).unwrap_err();
    assert_eq!(told, "the template may have more than 50000 operators");
}

#[test]
fn values_that_steps_nest_can_be_printed_compared_and_dropped() {
    let nest = "{% set ns = namespace(a=[]) %}{% for i in range(20000) %}{% set ns.a = [ns.a] %}{% endfor %}";
    for end in [
        "x",
        "{{ ns.a }}",
        "{{ ns.a ~ 'x' }}",
        "{{ ns.a | tojson }}",
        "{{ ns.a | string }}",
        "{{ ns.a == [1] }}",
        "{{ [ns.a, ns.a] | sort | length }}",
        "{{ [ns.a, ns.a] | unique | list | length }}",
    ] {
        let ended = text(&format!("{nest}{end}"), &inputs());
        assert!(!ended.as_ref().is_err_and(|it| it.contains("fuel")), "{end} is not tried: {ended:?}");
    }
}

#[test]
fn a_loop_may_call_itself_as_deep_as_data_go() {
    let walk = "{% for x in xs recursive %}({{ loop(x) }}){% endfor %}.";
    assert_eq!(text(walk, &inputs()), Ok(format!("{}{}.", "(".repeat(100), ")".repeat(100))));
}
