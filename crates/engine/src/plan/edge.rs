//! Edges: where a run goes after a node (graph-engine §2).

use std::fmt;
use std::sync::Arc;

use durable::BoxError;
use serde::{Deserialize, Serialize};
use singletree_durable as durable;
use singletree_graph::Snapshot;

/// The end of a graph, as a routing target. It is no node name: a node may be called "END".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphEnd;

/// The end of a graph, as a routing target.
pub const END: GraphEnd = GraphEnd;

/// Where an edge leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// To a node.
    Node(String),
    /// To the end.
    End,
}

impl From<GraphEnd> for Target {
    fn from(GraphEnd: GraphEnd) -> Self {
        Self::End
    }
}

impl From<&str> for Target {
    fn from(node: &str) -> Self {
        Self::Node(node.to_owned())
    }
}

impl From<String> for Target {
    fn from(node: String) -> Self {
        Self::Node(node)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => f.write_str(name),
            Self::End => f.write_str("END"),
        }
    }
}

/// The return type of a conditional edge's function: a target, or a failure (`edge_exception`).
pub trait IntoTarget {
    /// Returns the target.
    ///
    /// # Errors
    /// Whatever the function failed with.
    fn route(self) -> Result<Target, BoxError>;
}

macro_rules! routes {
    ($($type:ty),*) => {$(
        impl IntoTarget for $type {
            fn route(self) -> Result<Target, BoxError> {
                Ok(self.into())
            }
        }
    )*};
}

routes!(Target, GraphEnd, String, &str);

impl<T: Into<Target>, E: Into<BoxError>> IntoTarget for Result<T, E> {
    fn route(self) -> Result<Target, BoxError> {
        self.map(Into::into).map_err(Into::into)
    }
}

/// A function that chooses the target by the state after the node's update.
pub(crate) type TargetFunction = Arc<dyn Fn(&Snapshot) -> Result<Target, BoxError> + Send + Sync>;

/// The one outgoing edge of a node.
#[derive(Clone)]
pub(crate) enum GraphEdge {
    /// Always to the same target.
    Static(Target),
    /// To where the function says; the targets that it may name, when they were declared.
    Conditional { choose: TargetFunction, targets: Option<Vec<Target>> },
}

impl fmt::Debug for GraphEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(target) => write!(f, "-> {target}"),
            Self::Conditional { targets, .. } => write!(f, "-> one of {targets:?}"),
        }
    }
}
