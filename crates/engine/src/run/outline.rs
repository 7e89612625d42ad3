//! Describing compiled graphs.

use super::branches::Doing;
use super::graph::{Core, Graph, Work};
use super::middleware::Chain;
use crate::plan::edge::Edge;
use crate::plan::fan_out::{By, FanOutPlan, Source};
use crate::plan::outline::{Amount, BranchOutline, NextOutline, NodeKind, NodeOutline, Outline, Over};
use crate::plan::schema::Schema;
use crate::plan::topology::{Kind, Node};

impl<S> Graph<S> {
    /// Describes the graph as plain data: nodes, edges, and the graphs nested in nodes, however deep.
    ///
    /// ```
    /// use singletree_engine::{END, FieldSpec, Graph, NextOutline, Schema, Shape, Slot, Target, Update};
    /// # let schema = Schema::new("s", vec![FieldSpec::new("n", Shape::Int, Slot::from_json(0.into()))]);
    /// let graph = Graph::builder_with(schema)
    ///     .node("ask", |_| async { Ok(Update::new()) })
    ///     .conditional_edge_to("ask", ["ask".into(), END.into()], |_| END)
    ///     .entry("ask")
    ///     .compile()?;
    /// let outline = graph.outline();
    /// let targets = vec![Target::Node("ask".into()), Target::End];
    /// assert_eq!(outline.nodes[0].next, NextOutline::OneOf { targets });
    /// # Ok::<(), singletree_engine::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> Outline {
        outline(&self.core)
    }
}

fn outline(core: &Core) -> Outline {
    let topology = &core.topology;
    let parts = topology.nodes.iter().zip(&core.works).zip(&core.chains);
    Outline {
        state: topology.schema.name().to_owned(),
        digest: core.digest().to_owned(),
        entry: topology.nodes[topology.entry].name.as_ref().to_owned(),
        nodes: parts.map(|((node, work), chain)| node_outline(&topology.schema, node, work, chain)).collect(),
    }
}

fn node_outline(schema: &Schema, node: &Node, work: &Work, chain: &Chain) -> NodeOutline {
    NodeOutline {
        name: node.name.as_ref().to_owned(),
        kind: kind(schema, node, work),
        middleware: names(chain),
        next: match &node.edge {
            Some(Edge::Static(to)) => NextOutline::Always { to: to.clone() },
            Some(Edge::Conditional { targets: Some(targets), .. }) => {
                NextOutline::OneOf { targets: targets.clone() }
            }
            Some(Edge::Conditional { targets: None, .. }) => NextOutline::ByFunction,
            None => NextOutline::Nowhere,
        },
    }
}

fn kind(schema: &Schema, node: &Node, work: &Work) -> NodeKind {
    match (work, &node.kind) {
        (Work::Subgraph(core), _) => NodeKind::Subgraph { graph: outline(core) },
        (Work::FanOut(fan), Kind::FanOut { plan }) => NodeKind::FanOut {
            over: over(schema, plan),
            concurrency: match &plan.concurrency {
                By::Fixed(limit) => limit.map_or(Amount::Unbounded, Amount::Fixed),
                By::Function(_) => Amount::ByFunction,
            },
            error_policy: plan.error_policy,
            instance_middleware: names(&fan.chain),
            graph: outline(&fan.core),
        },
        (Work::Branches(dispatch), Kind::Branches { plan }) => {
            let branches = dispatch.branches.iter().zip(&plan.branches).map(|(work, plan)| BranchOutline {
                name: work.name.clone(),
                conditional: plan.when.is_some(),
                middleware: names(&work.chain),
                graph: match &work.doing {
                    Doing::Subgraph(core) => Some(outline(core)),
                    Doing::Call(_) => None,
                },
            });
            NodeKind::Branches { error_policy: plan.error_policy, branches: branches.collect() }
        }
        // The work of a compiled node always matches its declared kind.
        (Work::Function(_) | Work::FanOut(_) | Work::Branches(_), _) => NodeKind::Function,
    }
}

fn over(schema: &Schema, plan: &FanOutPlan) -> Over {
    match &plan.source {
        Source::Items { from, .. } => Over::Items(schema.fields()[*from].name().to_owned()),
        Source::Count(By::Fixed(count)) => Over::Count(Amount::Fixed(*count)),
        Source::Count(By::Function(_)) => Over::Count(Amount::ByFunction),
    }
}

fn names(chain: &Chain) -> Vec<String> {
    chain.iter().map(|it| it.name().to_owned()).collect()
}
