//! A compiled graph as data: nodes by number, edges, crossings.

use std::collections::HashMap;
use std::sync::Arc;

use super::branches::BranchesPlan;
use super::edge::Edge;
use super::fan_out::FanOutPlan;
use super::projection::Crossing;
use super::schema::Schema;
use super::session::SessionPlan;

/// The structure of a graph, compiled and checked.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) schema: Arc<Schema>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) by_name: HashMap<Arc<str>, usize>,
    pub(crate) entry: usize,
    pub(crate) session: SessionPlan,
}

/// One node, without its body.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: Arc<str>,
    /// The path to the node where its graph is the outermost one.
    pub(crate) alone: Arc<[Arc<str>]>,
    pub(crate) kind: Kind,
    pub(crate) edge: Option<Edge>,
}

/// The kind of a node.
#[derive(Debug)]
pub(crate) enum Kind {
    Function,
    Subgraph { crossing: Crossing },
    FanOut { plan: Arc<FanOutPlan> },
    Branches { plan: Arc<BranchesPlan> },
}

impl Topology {
    pub(crate) fn index(&self, node: &str) -> Option<usize> {
        self.by_name.get(node).copied()
    }
}
