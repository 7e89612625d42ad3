//! Lineages: through which boundaries a node was reached (graph-engine §6).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How one containing node was entered on the way down to a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineageBoundary {
    /// It is a plain subgraph.
    Subgraph,
    /// It is a fan-out, and this is the instance's index.
    Instance(u64),
    /// It dispatches parallel branches, and this is the branch's name.
    Branch(Arc<str>),
}

/// The boundaries between the outermost graph and a node, outermost first: one for each containing node.
///
/// With the namespace it says which of several concurrent inner runs something is about. It names a place and is plain
/// data: events carry it, and stored progress of fan-outs and branches is keyed by it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeLineage(Arc<[LineageBoundary]>);

impl NodeLineage {
    /// Makes a lineage of boundaries, outermost first.
    #[must_use]
    pub fn new(boundaries: impl IntoIterator<Item = LineageBoundary>) -> Self {
        Self(boundaries.into_iter().collect())
    }

    /// Returns the boundaries, outermost first.
    #[must_use]
    pub fn boundaries(&self) -> &[LineageBoundary] {
        &self.0
    }

    /// Returns the lineage one boundary further in.
    #[must_use]
    pub fn with_inner_boundary(&self, boundary: LineageBoundary) -> Self {
        Self(self.0.iter().cloned().chain([boundary]).collect())
    }

    /// Returns the index of the innermost fan-out instance, if there is one.
    #[must_use]
    pub fn fan_out_index(&self) -> Option<u64> {
        self.0.iter().rev().find_map(instance_index)
    }

    /// Returns the name of the innermost parallel branch, if there is one.
    #[must_use]
    pub fn branch_name(&self) -> Option<&str> {
        self.0.iter().rev().find_map(branch_of_boundary)
    }

    /// Returns the index of the fan-out instance at each boundary, or none where it is no fan-out.
    pub fn fan_out_index_chain(&self) -> impl ExactSizeIterator<Item = Option<u64>> {
        self.0.iter().map(instance_index)
    }

    /// Returns the name of the parallel branch at each boundary, or none where it dispatches no branches.
    pub fn branch_name_chain(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.0.iter().map(branch_of_boundary)
    }
}

fn instance_index(boundary: &LineageBoundary) -> Option<u64> {
    match boundary {
        LineageBoundary::Instance(index) => Some(*index),
        LineageBoundary::Subgraph | LineageBoundary::Branch(_) => None,
    }
}

fn branch_of_boundary(boundary: &LineageBoundary) -> Option<&str> {
    match boundary {
        LineageBoundary::Branch(name) => Some(name),
        LineageBoundary::Subgraph | LineageBoundary::Instance(_) => None,
    }
}

impl Default for NodeLineage {
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for NodeLineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.0).finish()
    }
}
