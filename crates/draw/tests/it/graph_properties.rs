//! Properties of the picture of every graph.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_draw::GraphPicture;
use singletree_engine::{BranchOutline, EdgeOutline, GraphOutline, NodeKind};

use crate::xml;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z_]{1,12}",
        1 => "[ -~]{0,60}",
        1 => any::<String>(),
    ]
}

fn graphs() -> impl Strategy<Value = Value> {
    let leaf = graph_of(Just(json!({ "kind": "function" })).boxed()).boxed();
    leaf.prop_recursive(3, 24, 4, |inner| {
        let kinds = prop_oneof![
            3 => Just(json!({ "kind": "function" })),
            1 => inner.clone().prop_map(|it| json!({ "kind": "subgraph", "graph": it })),
            1 => (inner.clone(), name()).prop_map(|(it, field)| json!({
                "kind": "fan_out", "over": { "items": field }, "concurrency": "unbounded",
                "error_policy": "collect", "graph": it,
            })),
            1 => proptest::collection::vec((name(), any::<bool>(), proptest::option::of(inner)), 1..4).prop_map(branches),
        ];
        graph_of(kinds.boxed())
    })
}

fn branches(branches: Vec<(String, bool, Option<Value>)>) -> Value {
    let branches = branches.into_iter().map(|(name, conditional, graph)| {
        let mut branch = json!({ "name": name, "conditional": conditional });
        if let Some(graph) = graph {
            branch["graph"] = graph;
        }
        branch
    });
    json!({ "kind": "branches", "error_policy": "fail_fast", "branches": branches.collect::<Vec<_>>() })
}

fn graph_of(kind: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let targets = proptest::collection::vec(0..9_usize, 0..4);
    let node = (kind, name(), 0..4_u8, targets, proptest::collection::vec(name(), 0..2));
    proptest::collection::vec(node, 1..6).prop_map(|nodes| {
        let names: Vec<String> =
            nodes.iter().enumerate().map(|(at, (_, name, ..))| format!("{name}{at}")).collect();
        let target = |at: usize| match names.get(at) {
            Some(name) => json!({ "node": name }),
            None => json!("end"),
        };
        let nodes = nodes.iter().zip(&names).map(|((kind, _, edge, targets, middleware), name)| {
            let mut node = kind.clone();
            let first = targets.first().copied().unwrap_or(usize::MAX);
            let targets: Vec<Value> = targets.iter().map(|it| target(*it)).collect();
            node["name"] = json!(name);
            node["middleware"] = json!(middleware);
            node["next"] = match edge {
                0 => json!({ "edge": "nowhere" }),
                1 => json!({ "edge": "by_function" }),
                2 => json!({ "edge": "always", "to": target(first) }),
                _ => json!({ "edge": "one_of", "targets": targets }),
            };
            node
        });
        json!({ "state": "S", "digest": "d", "entry": names[0], "nodes": nodes.collect::<Vec<_>>() })
    })
}

/// The expected content of a picture.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    names: Vec<String>,
    arrows: usize,
    functions: usize,
    ends: usize,
    graphs: usize,
}

fn expect(outline: &GraphOutline, expected: &mut Expected) {
    expected.graphs += 1;
    expected.arrows += 1;
    let mut leads_to_end = false;
    for node in &outline.nodes {
        expected.names.push(node.name.clone());
        let mut targets: Vec<String> = node.next.known_targets().iter().map(|it| format!("{it:?}")).collect();
        leads_to_end |= targets.iter().any(|it| it == "End");
        targets.sort();
        targets.dedup();
        let unnamed =
            matches!(node.next, EdgeOutline::ByFunction | EdgeOutline::Nowhere) || targets.is_empty();
        expected.arrows += targets.len() + usize::from(unnamed);
        match &node.kind {
            NodeKind::Function => expected.functions += 1,
            NodeKind::Subgraph { graph } | NodeKind::FanOut { graph, .. } => expect(graph, expected),
            NodeKind::Branches { branches, .. } => {
                for BranchOutline { name, graph, conditional, .. } in branches {
                    expected.names.push(name.clone());
                    match graph {
                        Some(graph) => expect(graph, expected),
                        None => expected.functions += usize::from(!conditional),
                    }
                }
            }
        }
    }
    expected.ends += usize::from(leads_to_end);
}

fn outline(graph: Value) -> GraphOutline {
    serde_json::from_value(graph).unwrap()
}

/// A name as pictures show it, where it has nothing that they replace.
fn is_plain(name: &str) -> bool {
    name.chars().all(|it| it.is_ascii_graphic() || it == ' ') && name.trim() == name && !name.contains("  ")
}

proptest! {
    #[test]
    fn an_svg_is_well_formed_and_has_every_node_and_every_edge(graph in graphs()) {
        let outline = outline(graph);
        let mut expected = Expected::default();
        expect(&outline, &mut expected);
        let picture = GraphPicture::new("<&>", &outline).render_svg();
        let events = xml::read(&picture);
        let titles = xml::texts(&events, "title");
        for name in expected.names.iter().filter(|it| is_plain(it) && !it.is_empty()) {
            prop_assert!(titles.contains(name), "{} is missing", name);
        }
        // One title for the picture, one for each node and branch; the legend has arrows, too.
        prop_assert_eq!(titles.len(), expected.names.len() + 1);
        let legend = xml::count(&events, "path", "line") - expected.arrows;
        prop_assert!(legend <= 3, "{} arrows in the legend", legend);
        prop_assert_eq!(xml::count(&events, "g", "node"), expected.functions);
        prop_assert_eq!(xml::count(&events, "rect", "end"), expected.ends);
        prop_assert_eq!(xml::count(&events, "circle", "start"), expected.graphs);
        prop_assert_eq!(picture, GraphPicture::new("<&>", &outline).render_svg());
    }

    #[test]
    fn a_chart_for_mermaid_has_every_node_and_every_edge(graph in graphs()) {
        let outline = outline(graph);
        let mut expected = Expected::default();
        expect(&outline, &mut expected);
        let chart = GraphPicture::new("", &outline).render_mermaid();
        // A box around others that leads to itself does so in two.
        let again = chart.matches("([\"again\"])").count();
        prop_assert_eq!(chart.matches("-->").count() + chart.matches("-.->").count(), expected.arrows + again);
        let boxes = chart.lines().filter(|it| it.contains("[\"") && !it.contains("->")).count();
        prop_assert_eq!(boxes, expected.names.len() + expected.graphs + expected.ends);
        let open = chart.lines().filter(|it| it.trim_start().starts_with("subgraph ")).count();
        prop_assert_eq!(open, chart.lines().filter(|it| it.trim() == "end").count());
        for line in chart.lines() {
            let quotes = line.matches('"').count();
            prop_assert!(quotes == 0 || quotes == 2, "{}", line);
        }
    }

    #[test]
    fn a_graph_for_graphviz_has_every_node_and_every_edge(graph in graphs()) {
        let outline = outline(graph);
        let mut expected = Expected::default();
        expect(&outline, &mut expected);
        let chart = GraphPicture::new("", &outline).render_dot();
        let is_arrow = |it: &&str| it.split('"').next().is_some_and(|it| it.contains(" -> "));
        let again = chart.matches("label=\"again\"").count();
        prop_assert_eq!(chart.lines().filter(is_arrow).count(), expected.arrows + again);
        let clusters = chart.lines().filter(|it| it.trim_start().starts_with("subgraph cluster_")).count();
        let plain = chart.lines().filter(|it| it.contains(" [label=\"")).count();
        prop_assert_eq!(clusters + plain, expected.names.len());
        let depth = chart.lines().map(|it| i64::from(it.ends_with('{')) - i64::from(it.trim() == "}")).sum::<i64>();
        prop_assert_eq!(depth, 0);
    }
}
