//! A graph as a run has entered it: the data that its nodes' executions share.

use std::fmt::Write;
use std::sync::Arc;

use singletree_graph::{LineageBoundary, NodeLineage, Snapshot};

use super::graph::GraphCore;
use super::metadata::MetadataScope;
use super::observe::Subscription;
use super::scope::{NodeAttempt, RunContext};
use super::strand::SequentialWalk;
use crate::error::NodeLocation;
use crate::plan::topology::TopologyNode;

/// A graph as a run has entered it.
#[derive(Clone)]
pub(crate) struct GraphLevel {
    pub(crate) core: Arc<GraphCore>,
    /// The names of the nodes that contain the graph, outermost first.
    pub(crate) path: Arc<[Arc<str>]>,
    /// How each of them was entered.
    pub(crate) lineage: NodeLineage,
    /// The state of each containing graph when it was left for this one, outermost first.
    pub(crate) parents: Arc<[Snapshot]>,
    /// Attached to the outermost graph, …, to this one.
    attached: Arc<[Subscription]>,
    /// Attached to the outermost graph, …, to this one, then the invocation's own.
    pub(crate) observers: Arc<[Subscription]>,
    /// The caller's metadata as the nodes of the graph see it.
    pub(crate) metadata: Arc<MetadataScope>,
    /// The walk that the graph is part of.
    pub(crate) strand: Arc<SequentialWalk>,
    /// How many of the containing nodes are outside of the strand.
    base: usize,
    /// The attempt of the node or member that contains the graph: that of its nodes, unless their own chains number
    /// theirs.
    pub(crate) attempt: u32,
    /// The attempt of the innermost container that the graph is inside of.
    pub(crate) within: Option<Arc<NodeAttempt>>,
    /// Whether the run is saved when a node of the graph ends. Never inside of branches, which begin again as a whole
    /// (pipeline-utilities §11.9).
    pub(crate) saves: bool,
}

impl GraphLevel {
    /// The outermost graph of a run.
    pub(crate) fn for_outermost_graph(run: &RunContext) -> Self {
        let attached: Arc<[_]> = run.observers.observers_attached_to(&run.core).collect();
        Self {
            core: run.core.clone(),
            path: Arc::new([]),
            lineage: NodeLineage::default(),
            parents: Arc::new([]),
            observers: attached.iter().chain(&run.observers.own).cloned().collect(),
            attached,
            metadata: run.metadata.clone(),
            strand: run.main.clone(),
            base: 0,
            attempt: 0,
            within: None,
            saves: run.port.keeps_checkpoints(),
        }
    }

    /// A graph below a node of this one, which stands at `state`, entered as a plain subgraph on the same strand.
    pub(crate) fn subgraph_level(
        &self,
        run: &RunContext,
        node: &TopologyNode,
        core: &Arc<GraphCore>,
        state: &Snapshot,
    ) -> Self {
        let attached: Arc<[_]> =
            self.attached.iter().cloned().chain(run.observers.observers_attached_to(core)).collect();
        Self {
            core: core.clone(),
            // Observers attached to a graph see events of the graphs below it, before observers attached further in
            // (graph-engine §6).
            observers: attached.iter().chain(&run.observers.own).cloned().collect(),
            attached,
            ..self.nested_level(node, state)
        }
    }

    /// The same graph, seen from below a node of its own, which stands at `state`.
    fn nested_level(&self, node: &TopologyNode, state: &Snapshot) -> Self {
        Self {
            path: self.path.iter().cloned().chain([node.name.clone()]).collect(),
            lineage: self.lineage.with_inner_boundary(LineageBoundary::Subgraph),
            parents: self.parents.iter().cloned().chain([state.clone()]).collect(),
            ..self.clone()
        }
    }

    /// A graph that several inner runs of a container walk, each with a lineage, a strand and an attempt of its own.
    pub(crate) fn container_level(
        &self,
        node: &TopologyNode,
        core: &Arc<GraphCore>,
        scope: &Arc<NodeAttempt>,
    ) -> Self {
        let below = self.subgraph_level(&scope.run, node, core, scope.graph_state());
        Self { lineage: self.lineage.clone(), base: below.path.len(), within: Some(scope.clone()), ..below }
    }

    /// The level of a function that is a member of a container: it has no graph of its own, and no observers of one.
    pub(crate) fn function_member_level(
        &self,
        node: &TopologyNode,
        scope: &Arc<NodeAttempt>,
        lineage: NodeLineage,
    ) -> Self {
        let nested = self.nested_level(node, scope.graph_state());
        let (base, within) = (nested.path.len(), Some(scope.clone()));
        Self { lineage, strand: Arc::default(), base, within, ..nested }
    }

    /// The graph as one inner run walks it.
    pub(crate) fn member_level(
        &self,
        lineage: NodeLineage,
        (strand, metadata): (Arc<SequentialWalk>, Arc<MetadataScope>),
        attempt: u32,
    ) -> Self {
        let saves = self.saves && !matches!(lineage.boundaries().last(), Some(LineageBoundary::Branch(_)));
        Self { lineage, strand, metadata, attempt, saves, ..self.clone() }
    }

    /// Numbers a node execution among those of its strand; the number tells the facts of members apart. The main
    /// strand's executions need no numbers, since it runs one node at a time.
    pub(crate) fn take_ordinal(&self) -> u64 {
        if self.is_on_main_walk() { 0 } else { self.strand.take_execution_number() }
    }

    /// Returns the prefix for the names of facts that a node execution records; empty on the main strand.
    pub(crate) fn fact_name_prefix(&self, node: &str, ordinal: u64) -> String {
        if self.is_on_main_walk() {
            return String::new();
        }
        let mut path = String::new();
        for (name, boundary) in self.path.iter().zip(self.lineage.boundaries()) {
            let _ = match boundary {
                LineageBoundary::Subgraph => write!(path, "{name}/"),
                LineageBoundary::Instance(index) => write!(path, "{name}[{index}]/"),
                LineageBoundary::Branch(branch) => write!(path, "{name}[{branch}]/"),
            };
        }
        let _ = write!(path, "{node}#{ordinal}:");
        path
    }

    /// Returns how many graphs of the strand contain this one.
    pub(crate) fn depth_in_walk(&self) -> usize {
        self.path.len() - self.base
    }

    /// Tells whether the graph is walked on the run's main strand, whose place is the run's.
    pub(crate) fn is_on_main_walk(&self) -> bool {
        self.within.is_none()
    }

    /// Returns the place of a node of the graph.
    pub(crate) fn node_location(&self, node: &TopologyNode) -> NodeLocation {
        let namespace = if self.path.is_empty() {
            node.alone.clone()
        } else {
            self.path.iter().cloned().chain([node.name.clone()]).collect()
        };
        NodeLocation { node: node.name.clone(), namespace }
    }

    /// Returns the attempts of the containers that the graph is inside of, innermost first.
    pub(crate) fn enclosing_containers(&self) -> Vec<Arc<NodeAttempt>> {
        containers_outwards(self.within.clone())
    }
}

/// Returns a container's attempt and those of the containers around it, innermost first.
pub(crate) fn containers_outwards(within: Option<Arc<NodeAttempt>>) -> Vec<Arc<NodeAttempt>> {
    std::iter::successors(within, |it| it.level.within.clone()).collect()
}
