//! Graphs: reading them, and building them through the engine's public interface.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use singletree::Graph;
use singletree::engine::{GraphBuilder, Snapshot};

use crate::body;
use crate::edges::EdgeSpec;
use crate::failure::{Failure, Outcome};
use crate::fields::{Fields, Spot};
use crate::nodes::{NodeSpec, Work};
use crate::schema::StateSpec;
use crate::tape::Tape;

/// A graph as the fixture describes it.
#[derive(Debug, Clone)]
pub(crate) struct GraphSpec {
    /// Its state.
    pub(crate) state: StateSpec,
    entry: Option<String>,
    nodes: Vec<NodeSpec>,
    edges: Vec<EdgeSpec>,
}

/// The subgraphs that a case declares, by name.
pub(crate) type Subgraphs = BTreeMap<String, GraphSpec>;

/// What compiling gave.
pub(crate) struct Built {
    /// The outermost graph.
    pub(crate) graph: Graph<Snapshot>,
    /// The subgraphs that it uses, by name.
    pub(crate) inner: BTreeMap<String, Graph<Snapshot>>,
}

impl GraphSpec {
    /// Takes a graph's keys out of a block.
    ///
    /// # Errors
    /// For what is unknown in them.
    pub(crate) fn take(block: &mut Fields) -> Outcome<Self> {
        let state = StateSpec::read(block.need("state")?)?;
        let entry = block.text("entry")?;
        let mut nodes = Vec::new();
        let mut declared = block.need("nodes")?.fields()?;
        while let Some((name, node)) = declared.next() {
            nodes.push(NodeSpec::read(name, node)?);
        }
        let edges = block.need("edges")?.items()?.into_iter().map(EdgeSpec::read).collect::<Outcome<_>>()?;
        Ok(Self { state, entry, nodes, edges })
    }
}

/// Takes `subgraph:` and `subgraphs:` out of a block.
///
/// # Errors
/// For what is unknown in them.
pub(crate) fn take_subgraphs(block: &mut Fields, into: &mut Subgraphs) -> Outcome<()> {
    if let Some(one) = block.take("subgraph") {
        let mut one = one.fields()?;
        let name = one.need("name")?.text()?.to_owned();
        let spec = GraphSpec::take(&mut one)?;
        one.finish()?;
        into.insert(name, spec);
    }
    if let Some(several) = block.take("subgraphs") {
        let mut several = several.fields()?;
        while let Some((name, one)) = several.next() {
            into.insert(name, read_whole(one)?);
        }
    }
    Ok(())
}

fn read_whole(spot: Spot) -> Outcome<GraphSpec> {
    let mut block = spot.fields()?;
    let spec = GraphSpec::take(&mut block)?;
    block.finish()?;
    Ok(spec)
}

/// Builds the graphs of a case.
pub(crate) struct Workshop<'a> {
    /// Where bodies write what they do.
    pub(crate) tape: Tape,
    /// The subgraphs that the case declares.
    pub(crate) subgraphs: &'a Subgraphs,
    inner: BTreeMap<String, Graph<Snapshot>>,
    open: Vec<String>,
    /// The outermost graph, for bodies that drain it.
    whole: Arc<OnceLock<Graph<Snapshot>>>,
}

/// Why no graph came out.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The engine does not compile it.
    Engine(Box<singletree::engine::Error>),
    /// The fixture is not what the runner knows.
    Fixture(Failure),
}

impl<'a> Workshop<'a> {
    /// Opens a workshop.
    #[must_use]
    pub(crate) fn new(tape: Tape, subgraphs: &'a Subgraphs) -> Self {
        Self { tape, subgraphs, inner: BTreeMap::new(), open: Vec::new(), whole: Arc::default() }
    }

    /// Compiles the outermost graph; `finish` adds what only it has.
    ///
    /// # Errors
    /// What the engine refused, or what the fixture does not say.
    pub(crate) fn build(
        mut self,
        spec: &GraphSpec,
        finish: impl FnOnce(GraphBuilder<Snapshot>) -> GraphBuilder<Snapshot>,
    ) -> Result<Built, Refusal> {
        let builder = self.builder("outer", spec)?;
        let graph = finish(builder).compile().map_err(|it| Refusal::Engine(Box::new(it)))?;
        drop(self.whole.set(graph.clone()));
        Ok(Built { graph, inner: self.inner })
    }

    fn builder(&mut self, name: &str, spec: &GraphSpec) -> Result<GraphBuilder<Snapshot>, Refusal> {
        let edge_fields: Vec<String> =
            spec.edges.iter().filter_map(|it| it.reads().map(str::to_owned)).collect();
        let mut builder = Graph::builder_with(spec.state.schema(name, &edge_fields));
        for node in &spec.nodes {
            builder = match &node.work {
                Work::Body(body) => {
                    let part = body::Part {
                        name: node.name.clone(),
                        spec: body.as_ref().clone(),
                        tape: self.tape.clone(),
                        whole: self.whole.clone(),
                    };
                    let part = Arc::new(part);
                    builder.node(node.name.clone(), move |cx| body::run(part.clone(), cx))
                }
                Work::Subgraph { graph, projection } => {
                    let inner = self.inner(graph)?;
                    builder.subgraph(node.name.clone(), &inner, projection.clone())
                }
            };
        }
        for edge in &spec.edges {
            builder = edge.add(builder);
        }
        Ok(match &spec.entry {
            Some(entry) => builder.entry(entry.clone()),
            None => builder,
        })
    }

    fn inner(&mut self, name: &str) -> Result<Graph<Snapshot>, Refusal> {
        if let Some(graph) = self.inner.get(name) {
            return Ok(graph.clone());
        }
        let no = |what: &str| Refusal::Fixture(Failure::build(format!("subgraphs.{name}"), what));
        if self.open.iter().any(|it| it == name) {
            return Err(no("the subgraph contains itself"));
        }
        let spec = self.subgraphs.get(name).ok_or_else(|| no("the subgraph is not declared"))?;
        self.open.push(name.to_owned());
        let graph = self.builder(name, spec)?.compile().map_err(|it| Refusal::Engine(Box::new(it)))?;
        self.open.pop();
        self.inner.insert(name.to_owned(), graph.clone());
        Ok(graph)
    }
}

impl std::fmt::Debug for Workshop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workshop").field("open", &self.open).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built").field("graph", &self.graph).finish_non_exhaustive()
    }
}
