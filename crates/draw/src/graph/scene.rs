//! The shared content of all pictures of a graph: its arrows, and the captions of nodes.

use std::collections::HashMap;

use singletree_engine::{
    BranchOutline, CountOutline, EdgeOutline, ErrorPolicy, GraphOutline, InstanceSourceOutline, NodeKind,
    NodeOutline, Target,
};

/// Where an arrow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ArrowTarget {
    Node(usize),
    End,
    /// Wherever a function says.
    Unknown,
    /// The node has no edge.
    Nowhere,
}

/// An arrow between the nodes of one graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GraphArrow {
    /// The node; none for the entry.
    pub(super) from: Option<usize>,
    pub(super) to: ArrowTarget,
    /// Whether a function chooses it.
    pub(super) chosen: bool,
}

/// Returns the arrows of a graph, that of the entry first, each once.
pub(super) fn collect_arrows(outline: &GraphOutline) -> Vec<GraphArrow> {
    let numbers: HashMap<&str, usize> =
        outline.nodes.iter().enumerate().map(|(at, it)| (it.name.as_str(), at)).collect();
    // A dangling name, which no compiled graph has, is drawn as an arrow to nowhere.
    let node = |name: &str| numbers.get(name).map_or(ArrowTarget::Nowhere, |at| ArrowTarget::Node(*at));
    let mut arrows = vec![GraphArrow { from: None, to: node(&outline.entry), chosen: false }];
    for (at, it) in outline.nodes.iter().enumerate() {
        let chosen = matches!(it.next, EdgeOutline::OneOf { .. } | EdgeOutline::ByFunction);
        let goals = it.next.known_targets().iter().map(|target| match target {
            Target::Node(name) => node(name),
            Target::End => ArrowTarget::End,
        });
        let unnamed = match &it.next {
            EdgeOutline::ByFunction => Some(ArrowTarget::Unknown),
            EdgeOutline::Nowhere => Some(ArrowTarget::Nowhere),
            EdgeOutline::OneOf { targets } if targets.is_empty() => Some(ArrowTarget::Nowhere),
            EdgeOutline::Always { .. } | EdgeOutline::OneOf { .. } => None,
        };
        for to in goals.chain(unnamed) {
            let arrow = GraphArrow { from: Some(at), to, chosen };
            if !arrows.contains(&arrow) {
                arrows.push(arrow);
            }
        }
    }
    arrows
}

/// Tells whether a graph has an arrow to this kind of place.
pub(super) fn has_arrow_to(arrows: &[GraphArrow], goal: ArrowTarget) -> bool {
    arrows.iter().any(|arrow| arrow.to == goal)
}

/// Returns the kind of a node, when the node is more than a function.
pub(super) fn node_caption(node: &NodeOutline) -> Option<String> {
    match &node.kind {
        NodeKind::Function => None,
        NodeKind::FanOut { over, concurrency, error_policy, instance_middleware, .. } => {
            let count = match over {
                InstanceSourceOutline::Items(field) => format!("fan-out: each of {field}"),
                InstanceSourceOutline::Count(CountOutline::Fixed(count)) => format!("fan-out: {count} times"),
                InstanceSourceOutline::Count(CountOutline::ByFunction | CountOutline::Unbounded) => {
                    "fan-out: as often as a function says".into()
                }
            };
            let limit = match concurrency {
                CountOutline::Fixed(limit) => format!("{limit} at once"),
                CountOutline::ByFunction => "as many at once as a function says".into(),
                CountOutline::Unbounded => "all at once".into(),
            };
            let each = middleware_note(instance_middleware)
                .map(|around| format!(" \u{b7} each {around}"))
                .unwrap_or_default();
            Some(format!("{count} \u{b7} {limit}{}{each}", error_policy_note(*error_policy)))
        }
        NodeKind::Branches { error_policy, .. } => {
            Some(format!("branches, all at once{}", error_policy_note(*error_policy)))
        }
        NodeKind::Subgraph { .. } => Some("subgraph".into()),
    }
}

fn error_policy_note(policy: ErrorPolicy) -> &'static str {
    match policy {
        ErrorPolicy::FailFast => "",
        ErrorPolicy::Collect => " \u{b7} failures are collected",
    }
}

/// Returns the kind of a branch, shown beside its name.
pub(super) fn branch_caption(branch: &BranchOutline) -> Option<String> {
    match (branch.conditional, branch.graph.is_some()) {
        (true, _) => Some("branch, if a function says so".into()),
        (false, true) => Some("branch".into()),
        (false, false) => None,
    }
}

/// Says which middleware stands around something, outermost first.
pub(super) fn middleware_note(middleware: &[String]) -> Option<String> {
    (!middleware.is_empty()).then(|| format!("in {}", middleware.join(" \u{203a} ")))
}

/// Joins the notes about a node or a branch.
pub(super) fn join_notes(parts: [Option<String>; 2]) -> Vec<String> {
    parts.into_iter().flatten().collect()
}

/// The content of a node.
pub(super) enum NodeContent<'a> {
    Nothing,
    Graph(&'a GraphOutline),
    Branches(&'a [BranchOutline]),
}

/// Returns the content of a node.
pub(super) fn node_content(node: &NodeOutline) -> NodeContent<'_> {
    match &node.kind {
        NodeKind::Subgraph { graph } | NodeKind::FanOut { graph, .. } => NodeContent::Graph(graph),
        NodeKind::Branches { branches, .. } => NodeContent::Branches(branches),
        NodeKind::Function => NodeContent::Nothing,
    }
}
