//! The node that makes a granted call and records its result.

use std::sync::Arc;

use serde_json::json;
use singletree_agent::ToolCallTerms;
use singletree_campaign::{
    ActionStage, CampaignAction, CampaignStep, Error as CampaignError, OpenAction, begin_action,
    campaign_session, finish_action,
};
use singletree_engine::{Ctx, NodeResult};
use singletree_llm::ToolCall;
use singletree_tools::{Effect, IdempotencyKey, Output, Recovery};

use super::state::{CycleState, campaign_of_turn, node_error};
use crate::core::{CampaignKey, ControllerCore};
use crate::error::{Error, Result};

/// How often a result is recorded that the store refuses.
const ATTEMPTS: u32 = 3;

/// How a call ended.
struct CallResult {
    success: bool,
    /// Whether its tool only reads.
    reads: bool,
    text: String,
}

impl CallResult {
    fn not_made(reason: &str) -> Self {
        let text = json!({ "status": "denied", "reason": reason }).to_string();
        Self { success: false, reads: false, text }
    }
}

/// Makes the granted call: its beginning is recorded before it runs, and its result after. A call that an earlier process
/// has begun is made again where its tool may be called again with the same key; of any other one is recorded that its
/// outcome is not known (D7).
pub(super) async fn run_execute_node(
    core: Arc<ControllerCore>,
    cx: Ctx<CycleState>,
) -> NodeResult<CycleState> {
    let key = campaign_of_turn(&cx)?;
    let board = core.load_campaign(&key).await.map_err(node_error)?.board;
    let CampaignStep::Execute(action) = board.next_step() else { return Ok(CycleState::update()) };
    let Some(open) = board.action.as_ref() else { return Ok(CycleState::update()) };
    let agent = core.find_agent(&board.campaign.agent).map_err(node_error)?;
    let tools = agent.current_tools().await;
    let call = ToolCall::new(short_id(&action), action.tool.as_str(), action.args.clone());
    let terms = tools.find_terms(&call);
    let was_begun = open.stage == ActionStage::Begun;
    if !was_begun && !record_beginning(&core, &key, &action).await.map_err(node_error)? {
        return Ok(CycleState::update());
    }
    let result = match refuse_call(open, terms) {
        Some(refused) => refused,
        None => {
            let effect = terms.map(|terms| terms.effect);
            let id = IdempotencyKey::new(&campaign_session(&key.id), &action.digest, 0, 0);
            let Output { success, text, .. } = tools.run_call(&cx, &call, &id).await;
            CallResult { success, reads: effect == Some(Effect::Read), text }
        }
    };
    record_result(&core, &key, (&action, &result)).await.map_err(node_error)?;
    Ok(CycleState::update())
}

/// Returns the result of a call that is not made, or not made again.
fn refuse_call(open: &OpenAction, terms: Option<ToolCallTerms>) -> Option<CallResult> {
    let is_permitted = terms.is_some_and(|terms| !terms.needs_approval || open.is_approved);
    let may_repeat =
        terms.is_some_and(|terms| terms.recovery == Recovery::Rerun || !terms.effect.has_side_effects());
    match open.stage {
        // It may have had its effect, whatever its tool is by now.
        ActionStage::Begun if !is_permitted || !may_repeat => {
            let reason = "the process ended while this ran; whether it took effect is not known, and it was not run again";
            let text = json!({ "status": "unknown", "reason": reason }).to_string();
            Some(CallResult { success: false, reads: false, text })
        }
        _ if terms.is_none() => {
            Some(CallResult::not_made("there is no such tool any more; nothing was done"))
        }
        _ if !is_permitted => {
            let reason =
                "this tool has changed and needs an approval that nobody was asked for; nothing was done";
            Some(CallResult::not_made(reason))
        }
        ActionStage::Asked | ActionStage::Granted | ActionStage::Begun => None,
    }
}

/// Records that the call begins. Returns false when it is not the granted one any more: the campaign was paused, or its
/// plan was changed.
async fn record_beginning(
    core: &Arc<ControllerCore>,
    key: &CampaignKey,
    action: &CampaignAction,
) -> Result<bool> {
    let begun = core.decide(key, |board| Ok(begin_action(board, &action.digest)?.into())).await;
    match begun {
        Ok(_) => Ok(true),
        Err(Error::Campaign(CampaignError::Changed { .. } | CampaignError::Status { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Records the result. It is tried more than once: a result that is not recorded is a call in doubt.
async fn record_result(
    core: &Arc<ControllerCore>,
    key: &CampaignKey,
    (action, result): (&CampaignAction, &CallResult),
) -> Result<()> {
    let place = format!("cycle:{}", action.cycle);
    let mut attempt = 1;
    loop {
        let done = core.decide(key, |board| {
            let ended = (result.success, result.reads);
            Ok(finish_action(board, &action.digest, ended, (&place, &result.text))?.into())
        });
        match done.await {
            Err(Error::Campaign(CampaignError::Store(_))) if attempt < ATTEMPTS => {
                attempt += 1;
                core.env.timer.sleep_for(core.limits.store_retry).await;
            }
            // An attempt whose answer was lost has recorded it.
            Err(Error::Campaign(CampaignError::Changed { .. })) if attempt > 1 => return Ok(()),
            done => return done.map(drop),
        }
    }
}

/// Returns the id of the call for the tool: the beginning of its digest.
fn short_id(action: &CampaignAction) -> String {
    action.digest.chars().take(16).collect()
}
