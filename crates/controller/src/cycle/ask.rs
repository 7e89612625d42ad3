//! The node that asks the model for one proposal.

use std::sync::Arc;

use singletree_campaign::{PROPOSE, propose_tool};
use singletree_engine::{Ctx, JsonField, NodeResult};
use singletree_llm::{ChatMessage, Request, ToolChoicePolicy};

use super::prompt::build_campaign_prompt_of;
use super::state::{CycleAnswer, CycleState, campaign_of_turn, node_error};
use crate::core::ControllerCore;

/// Asks the model. It is shown the rules, the snapshot, the artifacts of the task in hand and the command, and nothing
/// of any earlier cycle but what the snapshot has.
pub(super) async fn run_ask_node(core: Arc<ControllerCore>, cx: Ctx<CycleState>) -> NodeResult<CycleState> {
    let key = campaign_of_turn(&cx)?;
    let began = core.env.monotonic.elapsed_since_origin();
    let board = core.load_campaign(&key).await.map_err(node_error)?.board;
    let agent = core.find_agent(&board.campaign.agent).map_err(node_error)?;
    let prompt = build_campaign_prompt_of(&core, agent, (&key, &board)).await.map_err(node_error)?;
    let propose = propose_tool().map_err(|error| node_error(error.into()))?;
    let request = Request::new(prompt.messages())
        .with_tools([propose])
        .with_tool_choice(ToolChoicePolicy::Tool(PROPOSE.to_owned()));
    let answered = agent.ask_model(&cx, request).await?;
    let spent = core.env.monotonic.elapsed_since_origin().saturating_sub(began);
    let (arguments, problem) = match (&answered.message, answered.problem) {
        (Some(message), None) => read_proposal(message),
        (_, problem) => (None, problem),
    };
    let calls = answered.message.iter().flat_map(|message| &message.tool_calls);
    let answer = CycleAnswer {
        cycle: board.usage.cycles,
        seen: Some(board.seq),
        arguments,
        problem,
        calls: calls.map(|call| call.id.clone()).collect(),
        tokens: answered.tokens,
        time_ms: u64::try_from(spent.as_millis()).unwrap_or(u64::MAX),
    };
    let update = CycleState::update().answer(JsonField(Some(answer)));
    let said = answered
        .message
        .filter(|message| !message.tool_calls.is_empty() || !message.text().trim().is_empty());
    Ok(match said {
        Some(message) => update.messages([message]),
        None => update,
    })
}

type ReadProposal = (Option<serde_json::Map<String, serde_json::Value>>, Option<String>);

/// Takes the arguments of the one call of `propose`, or says why there is no proposal.
fn read_proposal(message: &ChatMessage) -> ReadProposal {
    let refuse = |why: &str| (None, Some(why.to_owned()));
    match message.tool_calls.as_slice() {
        [] => refuse("a cycle needs exactly one call of `propose`, and there was none"),
        [call] if call.name != PROPOSE => refuse("`propose` is the only tool; others are proposed by it"),
        [call] => match &call.arguments {
            Some(arguments) => (Some(arguments.clone()), None),
            None => refuse("the arguments of `propose` are no JSON object"),
        },
        _ => refuse("a cycle needs exactly one call of `propose`, and there were several"),
    }
}
