//! Graphs: reading them, and building them through the engine's public interface.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use singletree::Graph;
use singletree::engine::{GraphBuilder, Snapshot};

use crate::around::{self, NodeTools};
use crate::body;
use crate::branch_sets;
use crate::edges::GraphEdgeSpec;
use crate::failure::{CaseFailure, Outcome};
use crate::fan_outs;
use crate::fields::{LocatedNode, YamlMapReader};
use crate::middleware::{MiddlewareSites, MiddlewareSpec};
use crate::mocks::MockCallCounters;
use crate::nodes::{BranchSpec, GraphNodeSpec, NodeBodySpec, NodeWorkSpec};
use crate::schema::StateSchemaSpec;

/// A graph as the fixture describes it.
#[derive(Debug, Clone)]
pub(crate) struct FixtureGraphSpec {
    /// Its state.
    pub(crate) state: StateSchemaSpec,
    /// Its first node.
    pub(crate) entry: Option<String>,
    /// Its nodes.
    pub(crate) nodes: Vec<GraphNodeSpec>,
    edges: Vec<GraphEdgeSpec>,
    middleware: MiddlewareSites,
}

/// The name of the outermost graph among those of a case; it has none for telemetry.
const OUTERMOST: &str = "outer";

/// The subgraphs that a case declares, by name.
pub(crate) type Subgraphs = BTreeMap<String, FixtureGraphSpec>;

/// The compiled graphs of a case.
pub(crate) struct CompiledGraphs {
    /// The outermost graph.
    pub(crate) graph: Graph<Snapshot>,
    /// Whether it keeps checkpoints.
    pub(crate) has_checkpoints: bool,
    /// The subgraphs that it uses, by name.
    pub(crate) inner: BTreeMap<String, Graph<Snapshot>>,
}

impl FixtureGraphSpec {
    /// Takes a graph's keys out of a block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let state = StateSchemaSpec::from_yaml_node(block.take_required("state")?)?;
        Self::take_with_state(block, state)
    }

    /// As [`take_from_block`](Self::take_from_block), of a graph whose state may be left to the adapter.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    fn take_inner_graph(block: &mut YamlMapReader) -> Outcome<Self> {
        let state = block.take_value("state").map(StateSchemaSpec::from_yaml_node).transpose()?;
        Self::take_with_state(block, state.unwrap_or_else(StateSchemaSpec::empty))
    }

    fn take_with_state(block: &mut YamlMapReader, state: StateSchemaSpec) -> Outcome<Self> {
        let entry = block.take_text("entry")?;
        let mut nodes = Vec::new();
        let mut declared = block.take_required("nodes")?.into_map_reader()?;
        while let Some((name, node)) = declared.take_next_entry() {
            nodes.push(GraphNodeSpec::from_yaml_node(name, node)?);
        }
        let edges = block
            .take_required("edges")?
            .into_items()?
            .into_iter()
            .map(GraphEdgeSpec::from_yaml_node)
            .collect::<Outcome<_>>()?;
        let edges = GraphEdgeSpec::join_guarded_edges(edges);
        let middleware = MiddlewareSites::take_from_block(block)?;
        Ok(Self { state, entry, nodes, edges, middleware })
    }

    /// Returns the names of its nodes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        self.nodes.iter().map(|node| node.name.clone())
    }

    /// Returns the names of the parallel branches that have a condition.
    #[must_use]
    pub(crate) fn conditional_branches(&self) -> Vec<String> {
        let dispatchers = self.nodes.iter().filter_map(|node| match &node.work {
            NodeWorkSpec::Branches(node) => Some(&node.branches),
            NodeWorkSpec::Body(_) | NodeWorkSpec::Subgraph { .. } | NodeWorkSpec::FanOut(_) => None,
        });
        dispatchers
            .flatten()
            .filter(|dispatcher| dispatcher.when.is_some())
            .map(|it| it.name.clone())
            .collect()
    }

    /// Returns the fields that get the failure records of fan-outs and branches.
    #[must_use]
    pub(crate) fn error_fields(&self) -> Vec<String> {
        let fields = self.nodes.iter().filter_map(|node| match &node.work {
            NodeWorkSpec::FanOut(node) => node.errors.clone(),
            NodeWorkSpec::Branches(node) => node.errors.clone(),
            NodeWorkSpec::Body(_) | NodeWorkSpec::Subgraph { .. } => None,
        });
        fields.collect()
    }

    /// Returns the fan-out and the instance after which the case ends the process, when it does.
    #[must_use]
    pub(crate) fn abort_point(&self) -> Option<(String, u64)> {
        self.nodes.iter().find_map(|node| match &node.work {
            NodeWorkSpec::FanOut(fan_out) => Some((node.name.clone(), fan_out.abort_after?)),
            NodeWorkSpec::Body(_) | NodeWorkSpec::Subgraph { .. } | NodeWorkSpec::Branches(_) => None,
        })
    }

    /// Tells whether it is more than bodies and plain subgraphs: whether there is middleware, or a node that runs
    /// several graphs at once.
    #[must_use]
    pub(crate) fn is_composed(&self) -> bool {
        let composed = |it: &GraphNodeSpec| {
            !it.middleware.is_empty()
                || matches!(it.work, NodeWorkSpec::FanOut(_) | NodeWorkSpec::Branches(_))
        };
        !self.middleware.is_empty() || self.nodes.iter().any(composed)
    }
}

/// Takes `subgraph:` and `subgraphs:` out of a block.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn take_subgraphs(block: &mut YamlMapReader, into: &mut Subgraphs) -> Outcome<()> {
    // pipeline-utilities 022 shares two.
    for one in
        ["subgraph", "subgraph_with_idx"].iter().filter_map(|it| block.take_value(it)).collect::<Vec<_>>()
    {
        let mut one = one.into_map_reader()?;
        let name = one.take_required("name")?.as_text()?.to_owned();
        let spec = FixtureGraphSpec::take_from_block(&mut one)?;
        one.reject_remaining_keys()?;
        into.insert(name, spec);
    }
    if let Some(several) = block.take_value("subgraphs") {
        let mut several = several.into_map_reader()?;
        while let Some((name, one)) = several.take_next_entry() {
            into.insert(name, parse_graph_block(one)?);
        }
    }
    if let Some(several) = block.take_value("inner_subgraphs") {
        let mut several = several.into_map_reader()?;
        while let Some((name, one)) = several.take_next_entry() {
            let mut one = one.into_map_reader()?;
            let spec = FixtureGraphSpec::take_inner_graph(&mut one)?;
            one.reject_remaining_keys()?;
            into.insert(name, spec);
        }
    }
    Ok(())
}

fn parse_graph_block(spot: LocatedNode) -> Outcome<FixtureGraphSpec> {
    let mut block = spot.into_map_reader()?;
    let spec = FixtureGraphSpec::take_from_block(&mut block)?;
    block.reject_remaining_keys()?;
    Ok(spec)
}

/// Builds the graphs of a case.
pub(crate) struct FixtureGraphBuilder<'a> {
    tools: NodeTools,
    /// The subgraphs that the case declares.
    pub(crate) subgraphs: &'a Subgraphs,
    inner: BTreeMap<String, Graph<Snapshot>>,
    open: Vec<String>,
    /// The outermost graph, for bodies that drain it.
    whole: Arc<OnceLock<Graph<Snapshot>>>,
    mocks: MockCallCounters,
    /// The fields that fan-outs put their items into, by the name of the subgraph.
    items: BTreeMap<String, Vec<String>>,
}

/// Why no graph came out.
#[derive(Debug)]
pub(crate) enum GraphBuildError {
    /// The engine does not compile it.
    Engine(Box<singletree::engine::Error>),
    /// The reader does not know a part of the fixture.
    Fixture(CaseFailure),
}

impl<'a> FixtureGraphBuilder<'a> {
    /// Opens a workshop.
    #[must_use]
    pub(crate) fn new(tools: NodeTools, subgraphs: &'a Subgraphs, mocks: MockCallCounters) -> Self {
        let (inner, open, whole) = (BTreeMap::new(), Vec::new(), Arc::default());
        let items = collect_item_fields(subgraphs.values());
        Self { tools, subgraphs, inner, open, whole, mocks, items }
    }

    /// Compiles the outermost graph; `finish` adds the parts that only the outermost graph has.
    ///
    /// # Errors
    /// The error of the engine that refused the graph, or a failure about a part that the fixture lacks.
    pub(crate) fn compile_outermost(
        mut self,
        spec: &FixtureGraphSpec,
        has_checkpoints: bool,
        finish: impl FnOnce(GraphBuilder<Snapshot>) -> GraphBuilder<Snapshot>,
    ) -> Result<CompiledGraphs, GraphBuildError> {
        self.items.extend(collect_item_fields([spec]));
        let builder = self.build_graph(OUTERMOST, spec)?;
        let graph = finish(builder).compile().map_err(|error| GraphBuildError::Engine(Box::new(error)))?;
        drop(self.whole.set(graph.clone()));
        Ok(CompiledGraphs { graph, has_checkpoints, inner: self.inner })
    }

    fn build_graph(
        &mut self,
        name: &str,
        spec: &FixtureGraphSpec,
    ) -> Result<GraphBuilder<Snapshot>, GraphBuildError> {
        let edges: Vec<String> =
            spec.edges.iter().filter_map(|edge| edge.target_field().map(str::to_owned)).collect();
        let items = self.items.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut builder = Graph::builder_with(spec.state.build_schema(name, &edges, items));
        if name != OUTERMOST {
            builder = builder.name(name);
        }
        for node in &spec.nodes {
            builder = match &node.work {
                NodeWorkSpec::Body(body) => {
                    let part = Arc::new(self.build_body_context(name, &node.name, body));
                    builder.node(node.name.clone(), move |cx| body::run_node_body(part.clone(), cx))
                }
                NodeWorkSpec::Subgraph { graph, projection, .. } => {
                    let inner = self.compile_subgraph(graph)?;
                    builder.subgraph(node.name.clone(), &inner, projection.clone())
                }
                NodeWorkSpec::FanOut(fan_out) => {
                    let inner = self.compile_subgraph(&fan_out.subgraph)?;
                    let built = fan_outs::build_fan_out(fan_out, &inner, &self.tools);
                    builder.fan_out(node.name.clone(), built)
                }
                NodeWorkSpec::Branches(branches) => {
                    let parts =
                        branches.branches.iter().map(|branch| self.build_branch_parts(&node.name, branch));
                    let parts = parts.collect::<Result<_, _>>()?;
                    builder.branches(node.name.clone(), branch_sets::build_branches(branches, parts))
                }
            };
        }
        builder = self.add_middleware(spec, builder);
        for edge in &spec.edges {
            builder = edge.add_to_graph(builder);
        }
        Ok(match &spec.entry {
            Some(entry) => builder.entry(entry.clone()),
            None => builder,
        })
    }

    fn build_branch_parts(
        &mut self,
        node: &str,
        spec: &BranchSpec,
    ) -> Result<branch_sets::BuiltBranch, GraphBuildError> {
        Ok(branch_sets::BuiltBranch {
            subgraph: spec.subgraph.as_deref().map(|subgraph| self.compile_subgraph(subgraph)).transpose()?,
            call: spec.call.as_ref().map(|call| Arc::new(self.build_body_context(node, &spec.name, call))),
            middleware: spec
                .middleware
                .iter()
                .map(|middleware| around::build_middleware(middleware, &self.tools))
                .collect(),
        })
    }

    fn build_body_context(&self, graph: &str, node: &str, body: &NodeBodySpec) -> body::NodeBodyContext {
        body::NodeBodyContext {
            name: node.to_owned(),
            graph: graph.to_owned(),
            spec: body.clone(),
            tape: self.tools.tape.clone(),
            telemetry: self.tools.telemetry.clone(),
            mocks: self.mocks.clone(),
            whole: self.whole.clone(),
        }
    }

    /// Puts the middleware around the nodes.
    fn add_middleware(
        &self,
        spec: &FixtureGraphSpec,
        mut builder: GraphBuilder<Snapshot>,
    ) -> GraphBuilder<Snapshot> {
        let build = |middleware: &MiddlewareSpec| around::build_middleware(middleware, &self.tools);
        for it in &spec.middleware.per_graph {
            builder = builder.middleware(build(it));
        }
        let inline = spec.nodes.iter().map(|node| (&node.name, &node.middleware));
        let named = spec.middleware.per_node.iter().map(|(node, list)| (node, list));
        for (node, list) in named.chain(inline) {
            for it in list {
                builder = builder.node_middleware(node.clone(), build(it));
            }
        }
        builder
    }

    fn compile_subgraph(&mut self, name: &str) -> Result<Graph<Snapshot>, GraphBuildError> {
        if let Some(graph) = self.inner.get(name) {
            return Ok(graph.clone());
        }
        let no = |what: &str| {
            GraphBuildError::Fixture(CaseFailure::build_error(format!("subgraphs.{name}"), what))
        };
        if self.open.iter().any(|item| item == name) {
            return Err(no("the subgraph contains itself"));
        }
        let spec = self.subgraphs.get(name).ok_or_else(|| no("the subgraph is not declared"))?;
        self.open.push(name.to_owned());
        let graph = self
            .build_graph(name, spec)?
            .compile()
            .map_err(|error| GraphBuildError::Engine(Box::new(error)))?;
        self.open.pop();
        self.inner.insert(name.to_owned(), graph.clone());
        Ok(graph)
    }
}

/// The fields that fan-outs put their items into, by the name of the subgraph.
fn collect_item_fields<'a>(
    specs: impl IntoIterator<Item = &'a FixtureGraphSpec>,
) -> BTreeMap<String, Vec<String>> {
    let nodes = specs.into_iter().flat_map(|spec| &spec.nodes);
    nodes.fold(BTreeMap::new(), |mut fields, node| {
        if let NodeWorkSpec::FanOut(fan_out) = &node.work
            && let Some((_, item)) = &fan_out.items
        {
            fields.entry(fan_out.subgraph.clone()).or_insert_with(Vec::new).push(item.clone());
        }
        fields
    })
}

impl std::fmt::Debug for FixtureGraphBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FixtureGraphBuilder").field("open", &self.open).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CompiledGraphs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledGraphs").field("graph", &self.graph).finish_non_exhaustive()
    }
}
