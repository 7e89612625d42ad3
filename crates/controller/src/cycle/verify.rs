//! The node that reads the proofs which have to be read when a task is to be completed.

use std::sync::Arc;

use serde_json::Value;
use singletree_agent::AgentTools;
use singletree_campaign::{CampaignProposal, Proof, ReasonedProposal, fits_expectation};
use singletree_engine::{Ctx, JsonField, NodeResult};
use singletree_llm::ToolCall;
use singletree_tools::IdempotencyKey;

use super::state::{CycleState, campaign_of_turn, node_error};
use crate::core::ControllerCore;

/// Reads the proofs of the kind `mcp_read` that the task still needs: with the arguments of the approved plan, by tools
/// that the operator lists, within the time limit. A proof that cannot be read is one that is missing.
pub(super) async fn run_verify_node(
    core: Arc<ControllerCore>,
    cx: Ctx<CycleState>,
) -> NodeResult<CycleState> {
    let proposed = cx.state().answer.0.as_ref().and_then(|answer| answer.arguments.as_ref());
    let proposed = proposed.and_then(|arguments| ReasonedProposal::from_arguments(arguments).ok());
    let Some(CampaignProposal::CompleteTask { task }) = proposed.map(|proposed| proposed.proposal) else {
        return Ok(CycleState::update());
    };
    let key = campaign_of_turn(&cx)?;
    let board = core.load_campaign(&key).await.map_err(node_error)?.board;
    if !board.is_plan_approved() {
        return Ok(CycleState::update());
    }
    let agent = core.find_agent(&board.campaign.agent).map_err(node_error)?;
    let tools = agent.current_tools().await;
    let mut reads = Vec::new();
    for (at, proof) in board.missing_proofs(&task) {
        let Proof::McpRead { server, tool, args, expect } = proof else { continue };
        if !core.verify_tools.contains(&(server.clone(), tool.clone())) {
            continue;
        }
        let Some(name) = tools.find_server_tool(server, tool) else { continue };
        let call = ToolCall::new(format!("proof-{at}"), name, args.clone());
        let id = format!("{}:{}:{at}", board.usage.cycles, board.seq);
        let read = read_proof(&core, &cx, (&tools, &call), &id).await;
        if read.is_some_and(|result| fits_expectation(&result, expect)) {
            reads.push(at);
        }
    }
    Ok(CycleState::update().reads(JsonField(reads)))
}

/// Reads one proof; none when the tool fails or takes too long. A result that is no JSON is a text.
async fn read_proof(
    core: &ControllerCore,
    cx: &Ctx<CycleState>,
    (tools, call): (&AgentTools<'_>, &ToolCall),
    id: &str,
) -> Option<Value> {
    let key = IdempotencyKey::new("campaign-proof", id, 0, 0);
    let running = tools.run_call(cx, call, &key);
    let output = core.env.timer.run_with_timeout(core.limits.proof_time, running).await.ok()?;
    if !output.success {
        return None;
    }
    Some(serde_json::from_str(&output.text).unwrap_or(Value::String(output.text)))
}
