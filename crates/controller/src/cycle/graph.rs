//! The graph of a cycle, and the agent that a chat serves it as.

use std::sync::Arc;

use singletree_engine::{END, Graph, SessionShape, Target};
use singletree_harness::{Durability, GraphAgent, HISTORY, TurnPromptPolicy};

use super::ask::run_ask_node;
use super::decide::run_decide_node;
use super::execute::run_execute_node;
use super::load::run_load_node;
use super::state::{CycleRoute, CycleState};
use super::verify::run_verify_node;
use crate::core::ControllerCore;
use crate::error::Result;

/// The name of the agent that runs cycles.
pub(crate) const CYCLE_AGENT: &str = "campaign";
/// How the ids of the sessions of campaigns begin.
pub(crate) const SESSIONS: &str = "campaign:";
/// How many messages of its session are held in memory: nothing reads them.
const WINDOW: u64 = 4;

const LOAD: &str = "load";
const ASK: &str = "ask";
const VERIFY: &str = "verify";
const DECIDE: &str = "decide";
const EXECUTE: &str = "execute";

/// Makes the agent that runs the cycles of campaigns.
pub(crate) fn build_cycle_agent(core: &Arc<ControllerCore>) -> Result<GraphAgent> {
    let graph = build_cycle_graph(core).map_err(singletree_agent::Error::from)?;
    Ok(GraphAgent::new(CYCLE_AGENT, &graph)
        .durability(Durability::Step)
        .effectful_tools(true)
        .prompt_policy(TurnPromptPolicy::Command)
        .reserve_sessions(SESSIONS)
        .window(WINDOW))
}

fn build_cycle_graph(core: &Arc<ControllerCore>) -> singletree_engine::Result<Graph<CycleState>> {
    let [loading, asking, verifying, deciding, executing] = std::array::from_fn(|_| Arc::clone(core));
    Graph::<CycleState>::builder()
        .node(LOAD, move |cx| run_load_node(Arc::clone(&loading), cx))
        .node(ASK, move |cx| run_ask_node(Arc::clone(&asking), cx))
        .node(VERIFY, move |cx| run_verify_node(Arc::clone(&verifying), cx))
        .node(DECIDE, move |cx| run_decide_node(Arc::clone(&deciding), cx))
        .node(EXECUTE, move |cx| run_execute_node(Arc::clone(&executing), cx))
        .conditional_edge_to(LOAD, [ASK.into(), EXECUTE.into(), Target::from(END)], choose_next_node)
        .edge(ASK, VERIFY)
        .edge(VERIFY, DECIDE)
        .conditional_edge_to(DECIDE, [EXECUTE.into(), Target::from(END)], choose_next_node)
        .edge(EXECUTE, END)
        .session_shape(SessionShape::from_field_names([HISTORY]))
        .env(core.env.clone())
        .entry(LOAD)
        .compile()
}

fn choose_next_node(state: &CycleState) -> Target {
    match state.route.0 {
        CycleRoute::End => END.into(),
        CycleRoute::Ask => ASK.into(),
        CycleRoute::Execute => EXECUTE.into(),
    }
}
