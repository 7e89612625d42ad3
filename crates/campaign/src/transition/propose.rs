//! What becomes of a proposal, and of the call that follows from one.

use serde_json::{Map, Value, json};

use super::refuse_by_status;
use crate::board::{ActionStage, CampaignBoard, CampaignStep, TaskStatus};
use crate::campaign::{CampaignStatus, PauseReason};
use crate::error::{Error, Result};
use crate::event::{CampaignAction, CampaignEvent};
use crate::plan::{Plan, PlanTask, digest_json};
use crate::proof::{Proof, ProofPolicy};
use crate::proposal::CampaignProposal;
use crate::recent::{RESULT_BYTES_MAX, abridge_text};

/// How often in a row an agent may propose nothing; the last time pauses the campaign.
const IDLE_MAX: u64 = 3;

/// How the controller treats a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionTerms {
    /// Whether the agent has such a tool, and the arguments fit it.
    pub is_possible: bool,
    /// Whether a person decides first.
    pub needs_approval: bool,
}

/// The positions of the proofs of a task that were read when it is to be completed, and have what is expected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletionReads(pub Vec<usize>);

/// Decides about a proposal, over the board behind the measure of its cycle.
///
/// `terms` says how a call is treated, `policy` which proofs are permitted; `reads` are the proofs that were read just
/// now, for a task that is to be completed.
///
/// # Errors
/// `campaign_status_unfit` when the campaign is paused or over by now. Every other error is a reason to refuse the
/// proposal by [`refuse_proposal`]: `campaign_proposal_invalid`, `campaign_plan_invalid`, `campaign_proof_invalid`,
/// `campaign_proof_missing`, `campaign_task_unknown`.
pub fn accept_proposal(
    board: &CampaignBoard,
    proposal: &CampaignProposal,
    (terms, policy, reads): (ActionTerms, &ProofPolicy, &CompletionReads),
) -> Result<Vec<CampaignEvent>> {
    if board.next_step() != CampaignStep::Ask {
        return Err(refuse_by_status(board.status, "nothing is proposed"));
    }
    if !board.is_plan_approved() && !proposal.needs_no_plan() {
        let why = format!("`{}` needs an approved plan", proposal.word());
        return Err(Error::Proposal { why });
    }
    match proposal {
        CampaignProposal::AddTasks { after, tasks } => {
            let tasks = insert_tasks(board, after.as_deref(), tasks)?;
            propose_plan(board, tasks, policy)
        }
        CampaignProposal::ReplacePlan { tasks } => propose_plan(board, tasks.clone(), policy),
        CampaignProposal::SelectTask { task } => select_task(board, task),
        CampaignProposal::ExecuteTool { task, tool, args } => {
            check_in_hand(board, task)?;
            if !terms.is_possible {
                let why = format!("there is no tool '{tool}' that takes these arguments");
                return Err(Error::Proposal { why });
            }
            let action = make_action(board, task, tool, args);
            Ok(vec![CampaignEvent::ActionProposed { action, needs_approval: terms.needs_approval }])
        }
        CampaignProposal::ProposeArtifact { task, kind, key, .. } => {
            check_in_hand(board, task)?;
            // The store numbers the versions; the caller puts the number in.
            let (task, kind, key) = (task.clone(), kind.clone(), key.clone());
            Ok(vec![CampaignEvent::ArtifactProposed { task, kind, key, version: 0 }])
        }
        CampaignProposal::AskUser { task, question, schema } => {
            if let Some(task) = task {
                find_definition(board, task)?;
            }
            let (task, question, schema) = (task.clone(), question.clone(), schema.clone());
            Ok(vec![CampaignEvent::QuestionAsked { task, question, schema }])
        }
        CampaignProposal::CompleteTask { task } => complete_task(board, task, reads),
        CampaignProposal::BlockTask { task, why } => {
            check_in_hand(board, task)?;
            Ok(vec![CampaignEvent::TaskBlocked { task: task.clone(), why: why.clone() }])
        }
        CampaignProposal::NoOp {} => Ok(propose_nothing(board)),
    }
}

/// Refuses a proposal: the agent is asked again, `repairs` times at most in a row; one more is an error of the campaign
/// (D30).
#[must_use]
pub fn refuse_proposal(board: &CampaignBoard, error: &Error, repairs: u64) -> Vec<CampaignEvent> {
    let (category, why) = (error.category().to_owned(), abridge_text(&error.to_string(), RESULT_BYTES_MAX));
    let refused = CampaignEvent::ProposalRefused { category, why };
    if board.refusals < repairs {
        return vec![refused];
    }
    vec![refused, CampaignEvent::Failed { category: "campaign_proposal_invalid".to_owned() }]
}

/// Records that a call begins: from then on it may have had its effect.
///
/// # Errors
/// `campaign_changed` when the call is not the granted one any more: it was decided otherwise, the plan has changed, or
/// it was begun before; `campaign_status_unfit` when the campaign is paused or over.
pub fn begin_action(board: &CampaignBoard, digest: &str) -> Result<Vec<CampaignEvent>> {
    if !matches!(board.status, CampaignStatus::Initializing | CampaignStatus::Active) {
        return Err(refuse_by_status(board.status, "no call begins"));
    }
    match &board.action {
        Some(open) if open.action.digest == digest && open.stage == ActionStage::Granted => {
            Ok(vec![CampaignEvent::ActionBegan { digest: digest.to_owned() }])
        }
        _ => Err(Error::Changed { why: "this call is not the granted one".to_owned() }),
    }
}

/// Records how a call ended that was begun, whatever the status is by now. `result` says where its result is, `text` is
/// the beginning of it.
///
/// # Errors
/// `campaign_changed` when it was not begun, or has ended.
pub fn finish_action(
    board: &CampaignBoard,
    digest: &str,
    (success, reads): (bool, bool),
    (result, text): (&str, &str),
) -> Result<Vec<CampaignEvent>> {
    match &board.action {
        Some(open) if open.action.digest == digest && open.stage == ActionStage::Begun => {
            let (digest, tool, result) = (digest.to_owned(), open.action.tool.clone(), result.to_owned());
            let text = abridge_text(text, RESULT_BYTES_MAX);
            Ok(vec![CampaignEvent::ActionDone { digest, tool, success, reads, result, text }])
        }
        _ => Err(Error::Changed { why: "this call was not begun, or has ended".to_owned() }),
    }
}

fn propose_plan(
    board: &CampaignBoard,
    tasks: Vec<PlanTask>,
    policy: &ProofPolicy,
) -> Result<Vec<CampaignEvent>> {
    let version = board.plan.as_ref().map_or(0, |plan| plan.version) + 1;
    let plan = Plan::new(&board.campaign.id, version, tasks, policy)?;
    Ok(vec![CampaignEvent::PlanChanged { plan: Box::new(plan), by: None }])
}

fn insert_tasks(board: &CampaignBoard, after: Option<&str>, added: &[PlanTask]) -> Result<Vec<PlanTask>> {
    let mut tasks = board.plan.as_ref().map(|plan| plan.tasks.clone()).unwrap_or_default();
    let at = match after {
        None => tasks.len(),
        Some(after) => find_definition(board, after)?.0 + 1,
    };
    tasks.splice(at..at, added.iter().cloned());
    Ok(tasks)
}

fn select_task(board: &CampaignBoard, task: &str) -> Result<Vec<CampaignEvent>> {
    find_definition(board, task)?;
    let refuse = |why: String| Err(Error::Proposal { why });
    if let Some(other) = board.task_in_hand() {
        return refuse(format!("'{}' is in hand: complete or block it first", other.task));
    }
    if board.ready_tasks().all(|ready| ready.task != task) {
        return refuse(format!(
            "'{task}' is not ready: it is done, blocked, or needs a task that is not done"
        ));
    }
    Ok(vec![CampaignEvent::TaskSelected { task: task.to_owned() }])
}

fn complete_task(board: &CampaignBoard, task: &str, reads: &CompletionReads) -> Result<Vec<CampaignEvent>> {
    check_in_hand(board, task)?;
    let missing: Vec<String> = board
        .missing_proofs(task)
        .into_iter()
        .filter(|(at, proof)| !(matches!(proof, Proof::McpRead { .. }) && reads.0.contains(at)))
        .map(|(_, proof)| proof.describe())
        .collect();
    if !missing.is_empty() {
        return Err(Error::ProofMissing { missing: missing.join("; ") });
    }
    let found = board.find_progress(task).and_then(|progress| progress.found.iter().flatten().max());
    let result = found.map(|seq| format!("log:{seq}"));
    Ok(vec![CampaignEvent::TaskCompleted { task: task.to_owned(), result }])
}

fn propose_nothing(board: &CampaignBoard) -> Vec<CampaignEvent> {
    let nothing = CampaignEvent::NothingProposed;
    if board.has_unseen_news() || board.idle + 1 < IDLE_MAX {
        return vec![nothing];
    }
    vec![nothing, CampaignEvent::Paused { reason: PauseReason::NothingToPropose }]
}

fn find_definition<'a>(board: &'a CampaignBoard, task: &str) -> Result<(usize, &'a PlanTask)> {
    let found = board.plan.as_ref().and_then(|plan| plan.find_task(task));
    found.ok_or_else(|| Error::TaskUnknown { task: task.to_owned() })
}

fn check_in_hand(board: &CampaignBoard, task: &str) -> Result<()> {
    find_definition(board, task)?;
    match board.find_progress(task) {
        Some(progress) if progress.status == TaskStatus::InProgress => Ok(()),
        _ => Err(Error::Proposal { why: format!("'{task}' is not in hand: select it first") }),
    }
}

fn make_action(board: &CampaignBoard, task: &str, tool: &str, args: &Map<String, Value>) -> CampaignAction {
    let plan_version = board.plan.as_ref().map_or(0, |plan| plan.version);
    let cycle = board.usage.cycles;
    let digest = digest_json(&json!({
        "campaign": board.campaign.id, "task": task, "plan_version": plan_version, "cycle": cycle,
        "tool": tool, "args": args,
    }));
    let (task, tool, args) = (task.to_owned(), tool.to_owned(), args.clone());
    CampaignAction { task, plan_version, cycle, tool, args, digest }
}
