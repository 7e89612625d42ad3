//! The places of nodes and inner runs, as they are stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singletree_engine::{EventSource, Identity, LineageBoundary, NodeLineage};

/// A place in a run: a path of names, the boundaries to it, the step and the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoredPlace {
    #[serde(rename = "n")]
    pub(crate) namespace: Vec<Arc<str>>,
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    lineage: Vec<StoredBoundary>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<u64>,
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
}

/// The boundary of a subgraph (`null`), an instance (its number) or a branch (its name).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
enum StoredBoundary {
    Instance(u64),
    Branch(Arc<str>),
    Subgraph(()),
}

impl StoredPlace {
    pub(crate) fn new(
        namespace: &[Arc<str>],
        lineage: &NodeLineage,
        step: Option<u64>,
        attempt: u32,
    ) -> Self {
        let stored = |boundary: &LineageBoundary| match boundary {
            LineageBoundary::Subgraph => StoredBoundary::Subgraph(()),
            LineageBoundary::Instance(index) => StoredBoundary::Instance(*index),
            LineageBoundary::Branch(name) => StoredBoundary::Branch(name.clone()),
        };
        let lineage = lineage.boundaries().iter().map(stored).collect();
        Self { namespace: namespace.to_vec(), lineage, step, attempt }
    }

    /// Returns the place of a node of the outermost graph.
    pub(crate) fn of_outermost_node(name: &str, step: u64) -> Self {
        Self { namespace: vec![name.into()], lineage: Vec::new(), step: Some(step), attempt: 0 }
    }

    /// Tells whether this is the first attempt of a node of the outermost graph.
    pub(crate) fn is_outermost_node(&self) -> bool {
        self.namespace.len() == 1 && self.lineage.is_empty() && self.attempt == 0 && self.step.is_some()
    }

    /// Tells whether it is a node of the outermost graph, whatever its attempt.
    pub(crate) fn is_in_outermost_graph(&self) -> bool {
        self.namespace.len() == 1 && self.lineage.is_empty()
    }

    /// Tells whether the other place is the same node or inner run, whatever its step and attempt.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.lineage == other.lineage
    }

    pub(crate) fn node_name(&self) -> Arc<str> {
        self.namespace.last().cloned().unwrap_or_else(|| "".into())
    }

    pub(crate) fn node_lineage(&self) -> NodeLineage {
        NodeLineage::new(self.lineage.iter().map(|boundary| match boundary {
            StoredBoundary::Subgraph(()) => LineageBoundary::Subgraph,
            StoredBoundary::Instance(index) => LineageBoundary::Instance(*index),
            StoredBoundary::Branch(name) => LineageBoundary::Branch(name.clone()),
        }))
    }

    /// Returns the place as the source of a call.
    pub(crate) fn to_source(&self, identity: &Arc<Identity>) -> EventSource {
        EventSource {
            identity: identity.clone(),
            node_name: self.node_name(),
            namespace: self.namespace.clone().into(),
            step: self.step,
            attempt_index: self.attempt,
            lineage: self.node_lineage(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
