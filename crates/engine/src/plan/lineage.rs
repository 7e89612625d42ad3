//! Lineages: through which boundaries a node was reached (graph-engine §6).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How one containing node was entered on the way down to a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
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
pub struct Lineage(Arc<[Boundary]>);

impl Lineage {
    /// Makes a lineage of boundaries, outermost first.
    #[must_use]
    pub fn new(boundaries: impl IntoIterator<Item = Boundary>) -> Self {
        Self(boundaries.into_iter().collect())
    }

    /// Returns the boundaries, outermost first.
    #[must_use]
    pub fn boundaries(&self) -> &[Boundary] {
        &self.0
    }

    /// Returns the lineage one boundary further in.
    #[must_use]
    pub fn below(&self, boundary: Boundary) -> Self {
        Self(self.0.iter().cloned().chain([boundary]).collect())
    }

    /// Returns the index of the innermost fan-out instance, if there is one.
    #[must_use]
    pub fn fan_out_index(&self) -> Option<u64> {
        self.0.iter().rev().find_map(index)
    }

    /// Returns the name of the innermost parallel branch, if there is one.
    #[must_use]
    pub fn branch_name(&self) -> Option<&str> {
        self.0.iter().rev().find_map(branch)
    }

    /// Returns the index of the fan-out instance at each boundary, or none where it is no fan-out.
    pub fn fan_out_index_chain(&self) -> impl ExactSizeIterator<Item = Option<u64>> {
        self.0.iter().map(index)
    }

    /// Returns the name of the parallel branch at each boundary, or none where it dispatches no branches.
    pub fn branch_name_chain(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.0.iter().map(branch)
    }
}

fn index(boundary: &Boundary) -> Option<u64> {
    match boundary {
        Boundary::Instance(index) => Some(*index),
        Boundary::Subgraph | Boundary::Branch(_) => None,
    }
}

fn branch(boundary: &Boundary) -> Option<&str> {
    match boundary {
        Boundary::Branch(name) => Some(name),
        Boundary::Subgraph | Boundary::Instance(_) => None,
    }
}

impl Default for Lineage {
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.0).finish()
    }
}
