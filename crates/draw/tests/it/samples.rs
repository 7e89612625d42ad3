//! Graphs to draw.

use serde_json::{Value, json};
use singletree_engine::GraphOutline;

/// Reads an outline as tools do.
pub(crate) fn outline(entry: &str, nodes: Vec<Value>) -> GraphOutline {
    serde_json::from_value(graph(entry, nodes)).unwrap()
}

fn graph(entry: &str, nodes: Vec<Value>) -> Value {
    json!({ "state": "State", "digest": "0123456789abcdef", "entry": entry, "nodes": nodes })
}

fn target(name: &str) -> Value {
    if name == "END" { json!("end") } else { json!({ "node": name }) }
}

fn always(to: &str) -> Value {
    json!({ "edge": "always", "to": target(to) })
}

fn one_of(targets: &[&str]) -> Value {
    let targets: Vec<Value> = targets.iter().map(|it| target(it)).collect();
    json!({ "edge": "one_of", "targets": targets })
}

fn function(name: &str, next: Value) -> Value {
    json!({ "name": name, "kind": "function", "next": next })
}

fn subgraph(name: &str, graph: Value, next: Value) -> Value {
    json!({ "name": name, "kind": "subgraph", "graph": graph, "next": next })
}

/// The loop of an agent: a box that leads to itself, long edges, an edge back.
pub(crate) fn agent() -> GraphOutline {
    let chosen = one_of(&["gate", "tools", "END"]);
    let mut model = function("model", chosen.clone());
    model["middleware"] = json!(["Retry"]);
    outline("model", vec![model, function("gate", chosen), function("tools", always("model"))])
}

/// Subgraphs two deep, and a cycle around and inside of them.
pub(crate) fn nested() -> GraphOutline {
    let check =
        graph("read", vec![function("read", always("score")), function("score", one_of(&["read", "END"]))]);
    let draft = graph(
        "outline",
        vec![
            function("outline", always("write")),
            function("write", always("check")),
            subgraph("check", check, one_of(&["write", "END"])),
        ],
    );
    let mut draft = subgraph("draft", draft, always("review"));
    draft["middleware"] = json!(["FailureIsolation", "Timing"]);
    outline(
        "plan",
        vec![
            function("plan", always("draft")),
            draft,
            function("review", one_of(&["draft", "publish", "plan"])),
            function("publish", always("END")),
        ],
    )
}

/// A fan-out with branches inside.
pub(crate) fn fan_out() -> GraphOutline {
    let search = graph("query", vec![function("query", always("rank")), function("rank", always("END"))]);
    let branches = json!({
        "name": "gather", "kind": "branches", "error_policy": "collect", "next": always("merge"),
        "branches": [
            { "name": "documents", "conditional": false, "graph": search },
            { "name": "web", "conditional": true, "graph": search, "middleware": ["Retry"] },
            { "name": "notes", "conditional": false },
            { "name": "calendar", "conditional": true },
        ],
    });
    let each = graph("gather", vec![branches, function("merge", always("END"))]);
    let fan_out = json!({
        "name": "research", "kind": "fan_out", "over": { "items": "questions" },
        "concurrency": { "fixed": 10 }, "error_policy": "fail_fast", "instance_middleware": ["Retry"],
        "graph": each, "next": always("answer"),
    });
    outline("split", vec![function("split", always("research")), fan_out, function("answer", always("END"))])
}

/// Functions that choose freely, a node without an edge, nodes that nothing is known to lead to.
pub(crate) fn free() -> GraphOutline {
    outline(
        "route",
        vec![
            function("route", json!({ "edge": "by_function" })),
            function("left", always("right")),
            function("right", always("left")),
            function("stop", json!({ "edge": "nowhere" })),
        ],
    )
}

/// Many edges over many layers, several of them back.
pub(crate) fn wide() -> GraphOutline {
    let names = ["intake", "triage", "billing", "technical", "refund", "escalate", "reply", "survey"];
    let next = [
        one_of(&["triage"]),
        one_of(&["billing", "technical", "reply", "escalate"]),
        one_of(&["refund", "reply", "triage"]),
        one_of(&["technical", "escalate", "reply", "triage"]),
        one_of(&["reply", "escalate"]),
        one_of(&["reply", "intake", "END"]),
        one_of(&["survey", "END", "triage"]),
        always("END"),
    ];
    outline("intake", names.into_iter().zip(next).map(|(name, next)| function(name, next)).collect())
}

/// Names that would be markup, or the end of a string, if they were not escaped.
pub(crate) fn hostile() -> GraphOutline {
    let names = [
        "</text><script>alert(1)</script>",
        "\"; } digraph x { \"",
        "a]b[c\"] --> d%%{init}%%",
        "&amp; #quot; \\n \\",
        "line\nbreak\ttab\u{0}nul\u{1b}[31m\u{202e}turned",
        "",
        "end",
        "END",
        "a name that is so long that nobody would want to see all of it in a picture at once",
        "\u{4e16}\u{754c} \u{1f333}",
    ];
    let mut nodes: Vec<Value> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let next = names.get(at + 1).map_or_else(|| json!("end"), |it| json!({ "node": it }));
        let mut node = function(name, json!({ "edge": "always", "to": next }));
        node["middleware"] = json!([name]);
        nodes.push(node);
    }
    let inner = json!({ "state": "<b>&\"'", "digest": "0", "entry": names[0], "nodes": nodes });
    let branches = json!({
        "name": names[0], "kind": "branches", "error_policy": "fail_fast",
        "branches": [{ "name": names[1], "conditional": true, "graph": inner }],
        "next": { "edge": "one_of", "targets": [{ "node": names[0] }, "end"] },
    });
    serde_json::from_value(
        json!({ "state": "<b>&\"'", "digest": "]]>", "entry": names[0], "nodes": [branches] }),
    )
    .unwrap()
}

/// All of them, by name.
pub(crate) fn all() -> Vec<(&'static str, GraphOutline)> {
    vec![
        ("agent", agent()),
        ("nested", nested()),
        ("fan-out", fan_out()),
        ("free", free()),
        ("wide", wide()),
        ("hostile", hostile()),
    ]
}
