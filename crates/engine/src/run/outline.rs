//! Describing compiled graphs.

use singletree_graph::StateSchema;

use super::branches::BranchBody;
use super::graph::{Graph, GraphCore, NodeWork};
use super::middleware::MiddlewareChain;
use crate::plan::edge::GraphEdge;
use crate::plan::fan_out::{FanOutPlan, FixedOrComputed, InstanceSource};
use crate::plan::outline::{
    BranchOutline, CountOutline, EdgeOutline, GraphOutline, InstanceSourceOutline, NodeKind, NodeOutline,
};
use crate::plan::topology::{TopologyNode, TopologyNodeKind};

impl<S> Graph<S> {
    /// Describes the graph as plain data: nodes, edges, and the graphs nested in nodes, however deep.
    ///
    /// ```
    /// use singletree_engine::{END, FieldSpec, Graph, EdgeOutline, StateSchema, FieldShape, FieldContent, Target, StateUpdate};
    /// # let schema = StateSchema::new("s", vec![FieldSpec::new("n", FieldShape::Int, FieldContent::from_json(0.into()))]);
    /// let graph = Graph::builder_with(schema)
    ///     .node("ask", |_| async { Ok(StateUpdate::new()) })
    ///     .conditional_edge_to("ask", ["ask".into(), END.into()], |_| END)
    ///     .entry("ask")
    ///     .compile()?;
    /// let outline = graph.outline();
    /// let targets = vec![Target::Node("ask".into()), Target::End];
    /// assert_eq!(outline.nodes[0].next, EdgeOutline::OneOf { targets });
    /// # Ok::<(), singletree_engine::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> GraphOutline {
        describe_graph(&self.core)
    }
}

fn describe_graph(core: &GraphCore) -> GraphOutline {
    let topology = &core.topology;
    let parts = topology.nodes.iter().zip(&core.works).zip(&core.chains);
    GraphOutline {
        state: topology.schema.name().to_owned(),
        digest: core.digest().to_owned(),
        entry: topology.nodes[topology.entry].name.as_ref().to_owned(),
        nodes: parts
            .map(|((node, work), chain)| describe_node(&topology.schema, node, work, chain))
            .collect(),
    }
}

fn describe_node(
    schema: &StateSchema,
    node: &TopologyNode,
    work: &NodeWork,
    chain: &MiddlewareChain,
) -> NodeOutline {
    NodeOutline {
        name: node.name.as_ref().to_owned(),
        kind: describe_node_kind(schema, node, work),
        middleware: middleware_names(chain),
        next: match &node.edge {
            Some(GraphEdge::Static(to)) => EdgeOutline::Always { to: to.clone() },
            Some(GraphEdge::Conditional { targets: Some(targets), .. }) => {
                EdgeOutline::OneOf { targets: targets.clone() }
            }
            Some(GraphEdge::Conditional { targets: None, .. }) => EdgeOutline::ByFunction,
            None => EdgeOutline::Nowhere,
        },
    }
}

fn describe_node_kind(schema: &StateSchema, node: &TopologyNode, work: &NodeWork) -> NodeKind {
    match (work, &node.kind) {
        (NodeWork::Subgraph(core), _) => NodeKind::Subgraph { graph: describe_graph(core) },
        (NodeWork::FanOut(fan), TopologyNodeKind::FanOut { plan }) => NodeKind::FanOut {
            over: describe_instance_source(schema, plan),
            concurrency: match &plan.concurrency {
                FixedOrComputed::Fixed(limit) => limit.map_or(CountOutline::Unbounded, CountOutline::Fixed),
                FixedOrComputed::Function(_) => CountOutline::ByFunction,
            },
            error_policy: plan.error_policy,
            instance_middleware: middleware_names(&fan.chain),
            graph: describe_graph(&fan.core),
        },
        (NodeWork::Branches(dispatch), TopologyNodeKind::Branches { plan }) => {
            let branches = dispatch.branches.iter().zip(&plan.branches).map(|(work, plan)| BranchOutline {
                name: work.name.clone(),
                conditional: plan.when.is_some(),
                middleware: middleware_names(&work.chain),
                graph: match &work.doing {
                    BranchBody::Subgraph(core) => Some(describe_graph(core)),
                    BranchBody::Call(_) => None,
                },
            });
            NodeKind::Branches { error_policy: plan.error_policy, branches: branches.collect() }
        }
        // The work of a compiled node always matches its declared kind.
        (NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_), _) => NodeKind::Function,
    }
}

fn describe_instance_source(schema: &StateSchema, plan: &FanOutPlan) -> InstanceSourceOutline {
    match &plan.source {
        InstanceSource::Items { from, .. } => {
            InstanceSourceOutline::Items(schema.fields()[*from].name().to_owned())
        }
        InstanceSource::Count(FixedOrComputed::Fixed(count)) => {
            InstanceSourceOutline::Count(CountOutline::Fixed(*count))
        }
        InstanceSource::Count(FixedOrComputed::Function(_)) => {
            InstanceSourceOutline::Count(CountOutline::ByFunction)
        }
    }
}

fn middleware_names(chain: &MiddlewareChain) -> Vec<String> {
    chain.iter().map(|it| it.name().to_owned()).collect()
}
