//! A compiled graph as data: nodes by number, edges, crossings.

use std::collections::HashMap;
use std::sync::Arc;

use singletree_graph::StateSchema;

use super::branches::BranchesPlan;
use super::edge::GraphEdge;
use super::fan_out::FanOutPlan;
use super::projection::ResolvedProjection;
use super::session::SessionPlan;

/// The structure of a graph, compiled and checked.
#[derive(Debug)]
pub(crate) struct GraphTopology {
    pub(crate) schema: Arc<StateSchema>,
    pub(crate) nodes: Vec<TopologyNode>,
    pub(crate) by_name: HashMap<Arc<str>, usize>,
    pub(crate) entry: usize,
    pub(crate) session: SessionPlan,
}

/// One node, without its body.
#[derive(Debug)]
pub(crate) struct TopologyNode {
    pub(crate) name: Arc<str>,
    /// The path to the node where its graph is the outermost one.
    pub(crate) alone: Arc<[Arc<str>]>,
    pub(crate) kind: TopologyNodeKind,
    pub(crate) edge: Option<GraphEdge>,
}

/// The kind of a node.
#[derive(Debug)]
pub(crate) enum TopologyNodeKind {
    Function,
    Subgraph { crossing: ResolvedProjection },
    FanOut { plan: Arc<FanOutPlan> },
    Branches { plan: Arc<BranchesPlan> },
}

impl GraphTopology {
    pub(crate) fn find_node_index(&self, node: &str) -> Option<usize> {
        self.by_name.get(node).copied()
    }
}
