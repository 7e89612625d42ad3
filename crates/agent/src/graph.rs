//! The graph of the loop.

use std::sync::Arc;

use singletree_engine::{END, Graph, SessionShape, Target};
use singletree_harness::HISTORY;

use crate::compact::{after, compact};
use crate::error::Result;
use crate::gate::gate;
use crate::model::model;
use crate::parts::{AgentLoopParts, COMPACT, GATE, MODEL, TOOLS};
use crate::state::AgentState;
use crate::tools::tools;

/// Makes the graph of one agent or several.
pub(crate) fn graph_of(parts: AgentLoopParts) -> Result<Graph<AgentState>> {
    let parts = Arc::new(parts);
    let [asking, deciding, running, compacting] = std::array::from_fn(|_| Arc::clone(&parts));
    let builder = Graph::<AgentState>::builder()
        .node(MODEL, move |cx| model(Arc::clone(&asking), cx))
        .node(GATE, move |cx| gate(Arc::clone(&deciding), cx))
        .node(TOOLS, move |cx| tools(Arc::clone(&running), cx))
        .conditional_edge_to(MODEL, targets(), AgentLoopParts::next)
        .conditional_edge_to(GATE, targets(), AgentLoopParts::next)
        .edge(TOOLS, MODEL)
        // The approval is no part of the conversation; the current agent and the summary are kept beside it.
        .session_shape(SessionShape::fields(kept(&parts)));
    let builder = match parts.compaction {
        None => builder.entry(MODEL),
        Some(_) => builder
            .node(COMPACT, move |cx| compact(Arc::clone(&compacting), cx))
            .conditional_edge_to(COMPACT, [Target::from(MODEL), END.into()], after)
            .entry(COMPACT),
    };
    Ok(builder.compile()?)
}

/// Makes the graph of the same agents for answers in no session: a loop without a gate (D16).
pub(crate) fn stateless_graph_of(parts: &AgentLoopParts) -> Result<Graph<AgentState>> {
    let parts = Arc::new(parts.stateless());
    let (asking, running) = (Arc::clone(&parts), Arc::clone(&parts));
    let builder = Graph::<AgentState>::builder()
        .node(MODEL, move |cx| model(Arc::clone(&asking), cx))
        .node(TOOLS, move |cx| tools(Arc::clone(&running), cx))
        .conditional_edge_to(MODEL, [Target::from(TOOLS), END.into()], AgentLoopParts::next_stateless)
        .edge(TOOLS, MODEL)
        .session_shape(SessionShape::fields([HISTORY]))
        .entry(MODEL);
    Ok(builder.compile()?)
}

fn kept(parts: &AgentLoopParts) -> Vec<&'static str> {
    let agent = parts.is_team().then_some("agent");
    let summary = parts.compaction.as_ref().map(|_| "summary");
    [HISTORY].into_iter().chain(agent).chain(summary).collect()
}

fn targets() -> [Target; 3] {
    [GATE.into(), TOOLS.into(), END.into()]
}
