//! A description of a compiled graph as plain data: names, edges and nested graphs.

use serde::{Deserialize, Serialize};

use super::edge::Target;
use super::policy::ErrorPolicy;

/// A compiled graph as plain data, for pictures and tools.
///
/// The same graph always gives the same outline, and the JSON form is stable: fields and kinds may be added, existing
/// ones keep their names and meanings. A graph that is a node in several places is described in each of them.
///
/// Bodies, reducers and projections are no part of it. Decisions by a function of the state are marked as such.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphOutline {
    /// The name of the schema of its state.
    pub state: String,
    /// The digest of its structure ([`Graph::digest`](crate::Graph::digest)).
    pub digest: String,
    /// The node at which a run begins.
    pub entry: String,
    /// The nodes, in the order of declaration.
    pub nodes: Vec<NodeOutline>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOutline {
    /// Its name, its own within its graph.
    pub name: String,
    /// Its kind.
    #[serde(flatten)]
    pub kind: NodeKind,
    /// The names of the middleware around it, outermost first ([`Middleware::name`](crate::Middleware::name)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub middleware: Vec<String>,
    /// Where a run goes after it.
    pub next: EdgeOutline,
}

/// The kind of a node. In JSON `kind` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NodeKind {
    /// A function.
    Function,
    /// A graph (graph-engine §2).
    Subgraph {
        /// The graph.
        graph: GraphOutline,
    },
    /// One graph, run for each item of a list or a number of times (pipeline-utilities §9).
    FanOut {
        /// The source of its instances.
        over: InstanceSourceOutline,
        /// How many instances run at once.
        concurrency: CountOutline,
        /// The treatment of failed instances.
        error_policy: ErrorPolicy,
        /// The names of the middleware around each instance, outermost first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        instance_middleware: Vec<String>,
        /// The graph that each instance runs.
        graph: GraphOutline,
    },
    /// Several graphs or functions at once (pipeline-utilities §11).
    Branches {
        /// The treatment of failed branches.
        error_policy: ErrorPolicy,
        /// The branches, in the order of declaration.
        branches: Vec<BranchOutline>,
    },
}

/// The source of a fan-out's instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceSourceOutline {
    /// The items of this list field.
    Items(String),
    /// A number of them.
    Count(CountOutline),
}

/// A number, as far as it is known before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountOutline {
    /// This many.
    Fixed(i64),
    /// As many as a function of the state says.
    ByFunction,
    /// Without a bound.
    Unbounded,
}

/// One parallel branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchOutline {
    /// Its name, its own among the branches of its node.
    pub name: String,
    /// Whether a function of the state decides that it runs at all.
    pub conditional: bool,
    /// The names of the middleware around it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub middleware: Vec<String>,
    /// The graph that it runs; none when it calls a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphOutline>,
}

/// Where a run goes after a node. In JSON `edge` names it; a target is `"end"` or `{"node": NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edge", rename_all = "snake_case")]
pub enum EdgeOutline {
    /// Always to the same target.
    Always {
        /// The target.
        to: Target,
    },
    /// To one of several, by a function of the state.
    OneOf {
        /// The targets that were declared.
        targets: Vec<Target>,
    },
    /// By a function of the state whose targets were not declared: to any node of the graph, or to its end.
    ByFunction,
    /// Nowhere: a run that comes here fails (`routing_error`).
    Nowhere,
}

impl EdgeOutline {
    /// Returns the targets that are known.
    #[must_use]
    pub fn known_targets(&self) -> &[Target] {
        match self {
            Self::Always { to } => std::slice::from_ref(to),
            Self::OneOf { targets } => targets,
            Self::ByFunction | Self::Nowhere => &[],
        }
    }
}

impl NodeKind {
    /// Returns the word that JSON has for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Subgraph { .. } => "subgraph",
            Self::FanOut { .. } => "fan_out",
            Self::Branches { .. } => "branches",
        }
    }
}
