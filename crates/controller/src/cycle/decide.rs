//! The node that accepts or refuses the proposal.

use std::sync::Arc;

use singletree_agent::{ArtifactDraft, ArtifactName, ArtifactOrigin};
use singletree_campaign::{
    ActionTerms, CampaignBoard, CampaignEvent, CampaignProposal, CampaignStep, CompletionReads, CycleCost,
    Error as CampaignError, ProofPolicy, ReasonedProposal, accept_proposal, measure_cycle, refuse_proposal,
};
use singletree_engine::{Ctx, JsonField, NodeResult};
use singletree_llm::{ChatMessage, ToolCall};

use super::load::choose_route;
use super::state::{CycleAnswer, CycleRoute, CycleState, campaign_of_turn, node_error};
use crate::core::{CampaignDecision, CampaignKey, ControllerCore};
use crate::error::{Error, Result};

/// Everything that the decision needs beside the board, read before it.
struct ProposalTerms {
    proposed: std::result::Result<ReasonedProposal, CampaignError>,
    action: ActionTerms,
    policy: ProofPolicy,
    reads: CompletionReads,
    /// The number of the version that a proposed artifact gets; the refusal of the store of artifacts otherwise.
    artifact: std::result::Result<u64, CampaignError>,
    agent: String,
}

/// Decides about the answer of the model over the board as it is now, and records the decision with the cost of the
/// cycle. When the cycle was decided about before, by a run of this node that was interrupted, nothing is recorded.
/// When the campaign was paused or has ended in the meantime, only the cost is.
pub(super) async fn run_decide_node(
    core: Arc<ControllerCore>,
    cx: Ctx<CycleState>,
) -> NodeResult<CycleState> {
    let key = campaign_of_turn(&cx)?;
    let Some(answer) = cx.state().answer.0.clone() else { return Ok(CycleState::update()) };
    let terms = read_terms(&core, &key, (&answer, &cx.state().reads.0)).await.map_err(node_error)?;
    if let Ok(ReasonedProposal { why: Some(why), .. }) = &terms.proposed {
        core.narrator.narrate_rationale(&key, why, core.env.clock.now());
    }
    let decided = core.decide(&key, |board| decide_answer(&core, (&key, board), (&answer, &terms)));
    let board = decided.await.map_err(node_error)?.board;
    let verdict = if board.refusals == 0 { "taken down" } else { "refused: see the log of the campaign" };
    let verdicts = answer.calls.iter().map(|call| ChatMessage::tool(call.as_str(), verdict));
    Ok(CycleState::update()
        .messages(verdicts)
        .route(JsonField(choose_route_after(&board)))
        .answer(JsonField(None))
        .reads(JsonField(Vec::new())))
}

/// A granted call is made in the same turn; everything else is for the next one.
fn choose_route_after(board: &CampaignBoard) -> CycleRoute {
    match choose_route(board) {
        CycleRoute::Ask => CycleRoute::End,
        other => other,
    }
}

fn decide_answer(
    core: &ControllerCore,
    (key, board): (&CampaignKey, &CampaignBoard),
    (answer, terms): (&CycleAnswer, &ProposalTerms),
) -> Result<CampaignDecision> {
    if !board.is_cycle_open || board.usage.cycles != answer.cycle {
        return Ok(CampaignDecision::default());
    }
    let CycleAnswer { tokens, time_ms, seen, .. } = *answer;
    let mut events = measure_cycle(CycleCost { tokens, time_ms, seen });
    if board.next_step() != CampaignStep::Ask {
        return Ok(events.into());
    }
    let board = &board.after_events(&events, core.env.clock.now())?;
    let mut changes = Vec::new();
    match accept_answer(core, (key, board), terms) {
        Ok((accepted, change)) => {
            events.extend(accepted);
            changes.extend(change);
        }
        Err(Error::Campaign(refusal)) => {
            events.extend(refuse_proposal(board, &refusal, core.limits.repairs));
        }
        Err(other) => return Err(other),
    }
    Ok(CampaignDecision { events, changes })
}

/// Returns the events of an accepted proposal, and the artifact that it proposes.
fn accept_answer(
    core: &ControllerCore,
    (key, board): (&CampaignKey, &CampaignBoard),
    terms: &ProposalTerms,
) -> Result<(Vec<CampaignEvent>, Option<singletree_durable::DocumentChange>)> {
    let ReasonedProposal { proposal, .. } = terms.proposed.as_ref().map_err(copy_refusal)?;
    let mut events = accept_proposal(board, proposal, (terms.action, &terms.policy, &terms.reads))?;
    let CampaignProposal::ProposeArtifact { task, kind, key: name, content } = proposal else {
        return Ok((events, None));
    };
    let numbered = *terms.artifact.as_ref().map_err(copy_refusal)?;
    for event in &mut events {
        if let CampaignEvent::ArtifactProposed { version, .. } = event {
            *version = numbered;
        }
    }
    let draft = ArtifactDraft {
        name: ArtifactName { kind: kind.clone(), key: name.clone(), version: numbered },
        source: ArtifactOrigin::Agent,
        task: Some(task.clone()),
        proposed_by: Some(terms.agent.clone()),
        content: content.clone(),
        approved_by: None,
    };
    Ok((events, Some(core.artifacts.build_draft_change(&key.session_key()?, draft)?)))
}

async fn read_terms(
    core: &ControllerCore,
    key: &CampaignKey,
    (answer, reads): (&CycleAnswer, &[usize]),
) -> Result<ProposalTerms> {
    let head = core.store.load_head(&key.tenant, &key.id).await?;
    let head = head.ok_or_else(|| Error::Unknown { id: key.id.clone() })?;
    let agent = core.find_agent(&head.campaign.agent)?;
    let proposed = match (&answer.arguments, &answer.problem) {
        (Some(arguments), _) => ReasonedProposal::from_arguments(arguments),
        (None, problem) => {
            let why = problem.clone().unwrap_or_else(|| "the model proposed nothing".to_owned());
            Err(CampaignError::Proposal { why })
        }
    };
    let proposal = proposed.as_ref().ok().map(|proposed| &proposed.proposal);
    let action = match proposal {
        Some(CampaignProposal::ExecuteTool { tool, args, .. }) => {
            let call = ToolCall::new("proposed", tool.as_str(), args.clone());
            let terms = agent.current_tools().await.find_terms(&call);
            let needs_approval = terms.is_some_and(|terms| terms.needs_approval);
            ActionTerms { is_possible: terms.is_some(), needs_approval }
        }
        _ => ActionTerms { is_possible: false, needs_approval: true },
    };
    let artifact = match proposal {
        Some(CampaignProposal::ProposeArtifact { kind, key: name, .. }) => {
            match core.artifacts.find_next_version(&key.session_key()?, (kind, name)).await {
                Err(singletree_agent::Error::Artifact { why }) => Err(CampaignError::Proposal { why }),
                found => Ok(found?),
            }
        }
        _ => Ok(1),
    };
    let policy = core.read_proof_policy(agent).await;
    let (reads, agent) = (CompletionReads(reads.to_vec()), agent.name().to_owned());
    Ok(ProposalTerms { proposed, action, policy, reads, artifact, agent })
}

/// Refusals are made once and may be recorded after several attempts.
fn copy_refusal(refusal: &CampaignError) -> Error {
    let why = match refusal {
        CampaignError::Proposal { why } => why.clone(),
        other => other.to_string(),
    };
    CampaignError::Proposal { why }.into()
}
