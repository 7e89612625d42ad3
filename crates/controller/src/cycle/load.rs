//! The node that reads the board and begins a cycle.

use std::sync::Arc;

use singletree_campaign::{CampaignBoard, CampaignStep, begin_cycle};
use singletree_engine::{Ctx, JsonField, NodeResult};

use super::state::{CycleRoute, CycleState, campaign_of_turn, node_error};
use crate::core::{CampaignDecision, ControllerCore};

/// Begins a cycle, or goes on with the one that an earlier process has begun. A campaign that cannot go on is paused or
/// completed here.
pub(super) async fn run_load_node(core: Arc<ControllerCore>, cx: Ctx<CycleState>) -> NodeResult<CycleState> {
    let key = campaign_of_turn(&cx)?;
    let begun = core.decide(&key, |board| match board.next_step() {
        CampaignStep::Ask if !board.is_cycle_open => Ok(begin_cycle(board)?.into()),
        _ => Ok(CampaignDecision::default()),
    });
    let board = begun.await.map_err(node_error)?.board;
    Ok(CycleState::update().route(JsonField(choose_route(&board))))
}

/// Says what a turn does next about a campaign.
pub(super) fn choose_route(board: &CampaignBoard) -> CycleRoute {
    match board.next_step() {
        CampaignStep::Ask if board.is_cycle_open => CycleRoute::Ask,
        CampaignStep::Execute(_) => CycleRoute::Execute,
        CampaignStep::Ask | CampaignStep::Await | CampaignStep::Sleep(_) | CampaignStep::Rest => {
            CycleRoute::End
        }
    }
}
