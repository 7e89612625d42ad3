//! From a draft to a checked topology: every structural error, by category (graph-engine §2).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use singletree_graph::StateSchema;

use super::branches::BranchesDraft;
use super::edge::{GraphEdge, Target};
use super::fan_out::FanOutDraft;
use super::problem::{GraphProblem, GraphProblemKind, GraphWarning};
use super::projection::Projection;
use super::session::SessionShape;
use super::topology::{GraphTopology, TopologyNode, TopologyNodeKind};

/// The declarations that a builder has collected.
#[derive(Debug)]
pub(crate) struct GraphDraft {
    pub(crate) schema: Arc<StateSchema>,
    pub(crate) nodes: Vec<DraftNode>,
    pub(crate) edges: Vec<(String, GraphEdge)>,
    pub(crate) entry: Option<String>,
    pub(crate) session: SessionShape,
}

#[derive(Debug)]
pub(crate) struct DraftNode {
    pub(crate) name: String,
    pub(crate) kind: DraftNodeKind,
}

/// The kind of a declared node, with the schema of the graph inside and the declared projection.
#[derive(Debug)]
pub(crate) enum DraftNodeKind {
    Function,
    Subgraph(Arc<StateSchema>, Projection),
    FanOut(Arc<StateSchema>, FanOutDraft),
    Branches(BranchesDraft),
}

/// Checks a draft. Problems come in a fixed order, so that the first one is the same every time (D23): reducers, entry,
/// edges, projections, fan-outs and branches, reachability.
pub(crate) fn compile_draft(
    draft: GraphDraft,
) -> Result<(GraphTopology, Vec<GraphWarning>), Vec<GraphProblem>> {
    let mut problems = Vec::new();
    check_schema(&draft.schema, &mut problems);
    let by_name = index_node_names(&draft, &mut problems);
    let entry = resolve_entry_node(&draft, &by_name, &mut problems);
    let edges = assign_node_edges(&draft, &by_name, &mut problems);
    let mut warnings = Vec::new();
    let mut nodes = Vec::with_capacity(draft.nodes.len());
    for (node, edge) in draft.nodes.iter().zip(edges) {
        let name: Arc<str> = node.name.as_str().into();
        let kind = resolve_node_kind(node, &draft.schema, &mut warnings, &mut problems);
        nodes.push(TopologyNode { alone: Arc::new([name.clone()]), name, kind, edge });
    }
    let session = draft.session.resolve_session_plan(&draft.schema, &mut problems);
    if let Some(entry) = entry {
        check_reachability(&nodes, &by_name, entry, &mut problems);
    }
    match entry {
        Some(entry) if problems.is_empty() => {
            Ok((GraphTopology { schema: draft.schema, nodes, by_name, entry, session }, warnings))
        }
        _ => Err(problems),
    }
}

/// Resolves the fields that cross a node's boundary.
fn resolve_node_kind(
    node: &DraftNode,
    schema: &Arc<StateSchema>,
    warnings: &mut Vec<GraphWarning>,
    problems: &mut Vec<GraphProblem>,
) -> TopologyNodeKind {
    match &node.kind {
        DraftNodeKind::Function => TopologyNodeKind::Function,
        DraftNodeKind::Subgraph(child, projection) => {
            let crossing = projection.resolve_projection(&node.name, schema, child, problems);
            let round = crossing.find_round_trips(schema).into_iter();
            warnings.extend(round.map(|round| GraphWarning::for_round_trip(&node.name, round)));
            TopologyNodeKind::Subgraph { crossing }
        }
        DraftNodeKind::FanOut(child, fan_out) => {
            match fan_out.resolve_fan_out(&node.name, schema, child, problems) {
                Some(plan) => {
                    warnings.extend(plan.round_trip_warnings(&node.name));
                    TopologyNodeKind::FanOut { plan: Arc::new(plan) }
                }
                // A problem was found: nothing is made of this topology.
                None => TopologyNodeKind::Function,
            }
        }
        DraftNodeKind::Branches(branches) => match branches.resolve_branches(&node.name, schema, problems) {
            Some(plan) => {
                warnings.extend(plan.round_trip_warnings(&node.name));
                TopologyNodeKind::Branches { plan: Arc::new(plan) }
            }
            None => TopologyNodeKind::Function,
        },
    }
}

fn check_schema(schema: &StateSchema, problems: &mut Vec<GraphProblem>) {
    let faults = schema.fields().iter().flat_map(|field| {
        let name = field.name().to_owned();
        let faults = field
            .declared_reducers()
            .iter()
            .filter_map(|reducer| Some((reducer.name(), reducer.configuration_problem()?)));
        faults.map(move |(reducer, fault)| format!("field '{name}', reducer {reducer}: {fault}"))
    });
    problems.extend(faults.map(|it| GraphProblem::new(GraphProblemKind::ReducerConfigurationInvalid, it)));
    for field in schema.fields().iter().filter(|field| field.declared_reducers().len() > 1) {
        let message =
            format!("field '{}' declares {} reducers", field.name(), field.declared_reducers().len());
        problems.push(GraphProblem::new(GraphProblemKind::ConflictingReducers, message));
    }
    for field in schema.fields() {
        if let Some(Err(fault)) = field.default_content().map(|it| field.check_content(it)) {
            let message = format!("the default of field '{}' is not of its type: {fault}", field.name());
            problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
        }
    }
    for name in schema.repeated_field_names() {
        let message = format!("field '{name}' is declared twice");
        problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
    }
}

fn index_node_names(draft: &GraphDraft, problems: &mut Vec<GraphProblem>) -> HashMap<Arc<str>, usize> {
    let mut by_name = HashMap::with_capacity(draft.nodes.len());
    for (at, node) in draft.nodes.iter().enumerate() {
        if by_name.insert(Arc::from(node.name.as_str()), at).is_some() {
            let message = format!("node '{}' is declared twice", node.name);
            problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
        }
    }
    by_name
}

fn resolve_entry_node(
    draft: &GraphDraft,
    by_name: &HashMap<Arc<str>, usize>,
    problems: &mut Vec<GraphProblem>,
) -> Option<usize> {
    let Some(entry) = &draft.entry else {
        problems.push(GraphProblem::new(GraphProblemKind::NoDeclaredEntry, "no entry node is declared"));
        return None;
    };
    let found = by_name.get(entry.as_str()).copied();
    if found.is_none() {
        let message = format!("the entry '{entry}' is not a declared node");
        problems.push(GraphProblem::new(GraphProblemKind::NoDeclaredEntry, message));
    }
    found
}

/// Gives each node its one edge; a node may have none (R20), which is found when it completes.
fn assign_node_edges(
    draft: &GraphDraft,
    by_name: &HashMap<Arc<str>, usize>,
    problems: &mut Vec<GraphProblem>,
) -> Vec<Option<GraphEdge>> {
    let mut edges: Vec<Option<GraphEdge>> = draft.nodes.iter().map(|_| None).collect();
    let mut several = Vec::new();
    for (from, edge) in &draft.edges {
        let dangling = |name: &str| {
            GraphProblem::new(
                GraphProblemKind::DanglingEdge,
                format!("an edge names node '{name}', which is not declared"),
            )
        };
        let targets = match edge {
            GraphEdge::Static(target) => std::slice::from_ref(target),
            GraphEdge::Conditional { targets, .. } => targets.as_deref().unwrap_or_default(),
        };
        for target in targets {
            match target {
                Target::Node(name) if !by_name.contains_key(name.as_str()) => problems.push(dangling(name)),
                Target::Node(_) | Target::End => {}
            }
        }
        match by_name.get(from.as_str()) {
            None => problems.push(dangling(from)),
            Some(at) if edges[*at].is_some() => {
                let message = format!("node '{from}' has more than one outgoing edge");
                several.push(GraphProblem::new(GraphProblemKind::MultipleOutgoingEdges, message));
            }
            Some(at) => edges[*at] = Some(edge.clone()),
        }
    }
    problems.extend(several);
    edges
}

/// Finds nodes without a path from the entry. A conditional edge that declares no targets may lead anywhere.
fn check_reachability(
    nodes: &[TopologyNode],
    by_name: &HashMap<Arc<str>, usize>,
    entry: usize,
    problems: &mut Vec<GraphProblem>,
) {
    let mut seen = HashSet::from([entry]);
    let mut queue = VecDeque::from([entry]);
    while let Some(at) = queue.pop_front() {
        let targets: Vec<&Target> = match &nodes[at].edge {
            None => Vec::new(),
            Some(GraphEdge::Static(target)) => vec![target],
            Some(GraphEdge::Conditional { targets: Some(targets), .. }) => targets.iter().collect(),
            Some(GraphEdge::Conditional { targets: None, .. }) => return,
        };
        let found = targets.into_iter().filter_map(|target| match target {
            Target::Node(name) => by_name.get(name.as_str()).copied(),
            Target::End => None,
        });
        queue.extend(found.filter(|found| seen.insert(*found)));
    }
    // Of two nodes with one name, which is told of already, an edge reaches only one.
    let named = |at: usize, node: &TopologyNode| by_name.get(&node.name) == Some(&at);
    for (_, node) in nodes.iter().enumerate().filter(|(at, node)| !seen.contains(at) && named(*at, node)) {
        let message = format!("node '{}' has no path from the entry", node.name);
        problems.push(GraphProblem::new(GraphProblemKind::UnreachableNode, message));
    }
}
