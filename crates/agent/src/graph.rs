//! The graph of the loop.

use std::sync::Arc;

use singletree_engine::{END, Graph, GraphBuilder, SessionShape, Target};
use singletree_harness::HISTORY;

use crate::compact::{choose_node_after_compact, run_compact_node};
use crate::error::Result;
use crate::gate::run_gate_node;
use crate::model::run_model_node;
use crate::parts::{AgentLoopParts, COMPACT, GATE, MODEL, TOOLS};
use crate::state::AgentState;
use crate::tools::run_tools_node;

/// Makes the graph of one agent or several.
pub(crate) fn build_graph(parts: AgentLoopParts) -> Result<Graph<AgentState>> {
    let parts = Arc::new(parts);
    let [asking, deciding, running, compacting] = std::array::from_fn(|_| Arc::clone(&parts));
    let builder = Graph::<AgentState>::builder()
        .node(MODEL, move |cx| run_model_node(Arc::clone(&asking), cx))
        .node(GATE, move |cx| run_gate_node(Arc::clone(&deciding), cx))
        .node(TOOLS, move |cx| run_tools_node(Arc::clone(&running), cx))
        .conditional_edge_to(MODEL, next_targets(), AgentLoopParts::choose_next_node)
        .conditional_edge_to(GATE, next_targets(), AgentLoopParts::choose_next_node)
        .edge(TOOLS, MODEL)
        // The approval is no part of the conversation; the current agent and the summary are kept beside it.
        .session_shape(SessionShape::from_field_names(session_fields(&parts)));
    let builder = set_environment(builder, &parts);
    let builder = match parts.compaction {
        None => builder.entry(MODEL),
        Some(_) => builder
            .node(COMPACT, move |cx| run_compact_node(Arc::clone(&compacting), cx))
            .conditional_edge_to(COMPACT, [Target::from(MODEL), END.into()], choose_node_after_compact)
            .entry(COMPACT),
    };
    Ok(builder.compile()?)
}

/// Makes the graph of the same agents for answers in no session: a loop without a gate (D16).
pub(crate) fn build_stateless_graph(parts: &AgentLoopParts) -> Result<Graph<AgentState>> {
    let parts = Arc::new(parts.to_stateless());
    let (asking, running) = (Arc::clone(&parts), Arc::clone(&parts));
    let builder = Graph::<AgentState>::builder()
        .node(MODEL, move |cx| run_model_node(Arc::clone(&asking), cx))
        .node(TOOLS, move |cx| run_tools_node(Arc::clone(&running), cx))
        .conditional_edge_to(
            MODEL,
            [Target::from(TOOLS), END.into()],
            AgentLoopParts::choose_next_stateless_node,
        )
        .edge(TOOLS, MODEL)
        .session_shape(SessionShape::from_field_names([HISTORY]))
        .entry(MODEL);
    Ok(set_environment(builder, &parts).compile()?)
}

fn set_environment(builder: GraphBuilder<AgentState>, parts: &AgentLoopParts) -> GraphBuilder<AgentState> {
    match &parts.env {
        Some(env) => builder.env(env.clone()),
        None => builder,
    }
}

fn session_fields(parts: &AgentLoopParts) -> Vec<&'static str> {
    let agent = parts.is_team().then_some("agent");
    let summary = parts.compaction.as_ref().map(|_| "summary");
    [HISTORY].into_iter().chain(agent).chain(summary).collect()
}

fn next_targets() -> [Target; 3] {
    [GATE.into(), TOOLS.into(), END.into()]
}
