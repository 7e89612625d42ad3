//! Commands of people.

use serde_json::Value;
use singletree_llm::Schema;

use super::{refuse_by_status, resume_by_news};
use crate::board::{CampaignBoard, CampaignWait, TaskStatus};
use crate::campaign::{CampaignBudget, CampaignStatus, PauseReason};
use crate::error::{Error, Result};
use crate::event::CampaignEvent;
use crate::plan::{Plan, PlanTask};
use crate::proof::{Proof, ProofPolicy};

/// How many bytes a command or a reason may have.
const TEXT_BYTES: usize = 16 << 10;

/// What a person wants of a campaign.
#[derive(Debug, Clone, PartialEq)]
pub enum PersonCommand {
    /// The next cycle carries this out.
    Free {
        /// What it says.
        text: String,
    },
    /// Approves the plan: exactly this version, by its digest.
    ApprovePlan {
        /// The version.
        version: u64,
        /// Its digest.
        digest: String,
    },
    /// Rejects the plan.
    RejectPlan {
        /// The version.
        version: u64,
        /// Why.
        reason: Option<String>,
    },
    /// Replaces the plan; nobody has approved the new version.
    EditPlan {
        /// The version that was edited; 0 where there was none.
        version: u64,
        /// The tasks.
        tasks: Vec<PlanTask>,
    },
    /// Decides about the call that waits, by its digest.
    DecideAction {
        /// The digest of the call.
        digest: String,
        /// Whether it may be made.
        approved: bool,
        /// Why not.
        reason: Option<String>,
    },
    /// Answers the question that waits. The caller keeps the answer as an approved artifact.
    Answer {
        /// The question, as it was read.
        question: String,
        /// The answer.
        answer: Value,
    },
    /// Confirms the question of a proof.
    Confirm {
        /// Of which task.
        task: String,
        /// The question.
        question: String,
    },
    /// Lets a blocked task go on.
    Unblock {
        /// Which one.
        task: String,
    },
    /// Has a task done anew that is done or blocked.
    Retry {
        /// Which one.
        task: String,
    },
    /// Changes the budget.
    EditBudget {
        /// To what.
        budget: CampaignBudget,
    },
    /// Pauses.
    Pause,
    /// Resumes.
    Resume,
    /// Ends it.
    Cancel,
}

/// What a caller must be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignScope {
    /// To write.
    Write,
    /// To approve.
    Approve,
    /// To administer.
    Admin,
}

impl PersonCommand {
    /// Returns what a caller must be permitted. The agent's own calls are never permitted any of it.
    #[must_use]
    pub fn required_scope(&self) -> CampaignScope {
        match self {
            Self::Free { .. }
            | Self::EditPlan { .. }
            | Self::Answer { .. }
            | Self::Unblock { .. }
            | Self::Retry { .. }
            | Self::Pause
            | Self::Resume => CampaignScope::Write,
            Self::ApprovePlan { .. }
            | Self::RejectPlan { .. }
            | Self::DecideAction { .. }
            | Self::Confirm { .. } => CampaignScope::Approve,
            Self::EditBudget { .. } | Self::Cancel => CampaignScope::Admin,
        }
    }
}

/// Decides about the command of a person who is permitted it.
///
/// # Errors
/// `campaign_status_unfit` when the status does not permit it; `campaign_log_full` for everything but a cancellation when
/// the log may not grow any more; `campaign_changed` when it is about a version, a call or
/// a question that is not the open one any more: of two that race, one wins; `campaign_plan_invalid`,
/// `campaign_proof_invalid`, `campaign_task_unknown`, `campaign_record_invalid`.
pub fn decide_command(
    board: &CampaignBoard,
    command: &PersonCommand,
    (by, policy): (&str, &ProofPolicy),
) -> Result<Vec<CampaignEvent>> {
    if board.status.is_over() {
        return Err(refuse_by_status(board.status, "it takes no commands"));
    }
    if board.is_log_full() && *command != PersonCommand::Cancel {
        return Err(Error::LogFull);
    }
    let mut events = match command {
        PersonCommand::Pause | PersonCommand::Resume | PersonCommand::Cancel => {
            return decide_status(board, command, by);
        }
        PersonCommand::Free { text } => {
            check_text(text)?;
            vec![CampaignEvent::CommandGiven { text: text.clone(), by: by.to_owned() }]
        }
        PersonCommand::ApprovePlan { version, digest } => {
            let plan = find_version(board, *version)?;
            if plan.digest != *digest {
                return Err(Error::Changed {
                    why: "the plan says something else than was approved".to_owned(),
                });
            }
            if board.is_plan_approved() {
                return Err(Error::Changed { why: "this version is approved already".to_owned() });
            }
            vec![CampaignEvent::PlanApproved { version: *version, digest: digest.clone(), by: by.to_owned() }]
        }
        PersonCommand::RejectPlan { version, reason } => {
            find_version(board, *version)?;
            if board.is_plan_approved() {
                return Err(Error::Changed { why: "this version is approved already".to_owned() });
            }
            reason.as_deref().map_or(Ok(()), check_text)?;
            vec![CampaignEvent::PlanRejected { version: *version, reason: reason.clone(), by: by.to_owned() }]
        }
        PersonCommand::EditPlan { version, tasks } => {
            if board.plan.as_ref().map_or(0, |plan| plan.version) != *version {
                return Err(Error::Changed { why: "there is another version of the plan by now".to_owned() });
            }
            let plan = Plan::new(&board.campaign.id, version + 1, tasks.clone(), policy)?;
            vec![CampaignEvent::PlanChanged { plan: Box::new(plan), by: Some(by.to_owned()) }]
        }
        PersonCommand::EditBudget { budget } => decide_budget(board, *budget, by),
        other => decide_work(board, other, by)?,
    };
    events.extend(resume_by_news(board, by));
    Ok(events)
}

/// Decides about calls, questions and tasks.
fn decide_work(board: &CampaignBoard, command: &PersonCommand, by: &str) -> Result<Vec<CampaignEvent>> {
    let by = by.to_owned();
    Ok(match command {
        PersonCommand::DecideAction { digest, approved, reason } => {
            let is_open = board.wait == Some(CampaignWait::Action)
                && board.action.as_ref().is_some_and(|open| open.action.digest == *digest);
            if !is_open {
                return Err(Error::Changed { why: "this call does not wait for a decision".to_owned() });
            }
            reason.as_deref().map_or(Ok(()), check_text)?;
            let (digest, approved, reason) = (digest.clone(), *approved, reason.clone());
            vec![CampaignEvent::ActionDecided { digest, approved, reason, by }]
        }
        PersonCommand::Answer { question, answer } => {
            let schema = match &board.wait {
                Some(CampaignWait::Question { question: open, schema, .. }) if open == question => schema,
                _ => {
                    let why = "this question does not wait for an answer".to_owned();
                    return Err(Error::Changed { why });
                }
            };
            check_answer(answer, schema.as_ref())?;
            check_text(&answer.to_string())?;
            vec![CampaignEvent::QuestionAnswered { answer: answer.clone(), by }]
        }
        PersonCommand::Confirm { task, question } => {
            let (_, definition) = board
                .plan
                .as_ref()
                .filter(|_| board.is_plan_approved())
                .and_then(|plan| plan.find_task(task))
                .ok_or_else(|| Error::TaskUnknown { task: task.clone() })?;
            let is_it =
                |proof: &Proof| matches!(proof, Proof::UserConfirmed { question: it } if it == question);
            if !definition.proof.iter().any(is_it) {
                return Err(Error::Changed { why: "no proof of the task asks this".to_owned() });
            }
            vec![CampaignEvent::Confirmed { task: task.clone(), question: question.clone(), by }]
        }
        PersonCommand::Unblock { task } => {
            check_task_status(board, task, &[TaskStatus::Blocked])?;
            vec![CampaignEvent::TaskUnblocked { task: task.clone(), by }]
        }
        PersonCommand::Retry { task } => {
            check_task_status(board, task, &[TaskStatus::Blocked, TaskStatus::Done])?;
            vec![CampaignEvent::TaskRetried { task: task.clone(), by }]
        }
        _ => Vec::new(),
    })
}

fn decide_status(board: &CampaignBoard, command: &PersonCommand, by: &str) -> Result<Vec<CampaignEvent>> {
    let by = by.to_owned();
    Ok(vec![match (command, board.status) {
        (PersonCommand::Pause, CampaignStatus::Initializing | CampaignStatus::Active) => {
            CampaignEvent::Paused { reason: PauseReason::Person { by } }
        }
        // A pause of the controller becomes one of the person: it does not end by itself any more.
        (PersonCommand::Pause, CampaignStatus::Paused)
            if !matches!(board.pause, Some(PauseReason::Person { .. })) =>
        {
            CampaignEvent::Paused { reason: PauseReason::Person { by } }
        }
        (PersonCommand::Resume, CampaignStatus::Paused | CampaignStatus::Error) => {
            CampaignEvent::Resumed { by: Some(by) }
        }
        (PersonCommand::Cancel, _) => CampaignEvent::Cancelled { by },
        (_, status) => return Err(refuse_by_status(status, "it cannot be paused or resumed")),
    }])
}

/// A budget that has room again ends the pause that waited for it.
fn decide_budget(board: &CampaignBoard, budget: CampaignBudget, by: &str) -> Vec<CampaignEvent> {
    let changed = CampaignEvent::BudgetChanged { budget, by: by.to_owned() };
    let waited = matches!(board.pause, Some(PauseReason::Budget { .. }));
    let has_room = budget.exhausted_part(&board.usage).is_none();
    let resumed = (waited && has_room).then(|| CampaignEvent::Resumed { by: Some(by.to_owned()) });
    std::iter::once(changed).chain(resumed).collect()
}

fn find_version(board: &CampaignBoard, version: u64) -> Result<&Plan> {
    let found = board.plan.as_ref().filter(|plan| plan.version == version);
    found.ok_or_else(|| Error::Changed { why: format!("version {version} of the plan is not the newest") })
}

fn check_task_status(board: &CampaignBoard, task: &str, allowed: &[TaskStatus]) -> Result<()> {
    let progress = board.find_progress(task).ok_or_else(|| Error::TaskUnknown { task: task.to_owned() })?;
    if allowed.contains(&progress.status) {
        return Ok(());
    }
    Err(Error::Changed { why: format!("task '{task}' is not where this begins") })
}

/// Checks an answer against the schema of its question.
fn check_answer(answer: &Value, schema: Option<&Value>) -> Result<()> {
    let unfit = |why: String| Error::Record { why: format!("the answer does not fit the question: {why}") };
    let Some(schema) = schema else { return Ok(()) };
    let schema = Schema::compile(schema.clone()).map_err(|error| unfit(error.to_string()))?;
    schema.check_value(answer).map_err(|mismatch| unfit(mismatch.to_string()))
}

fn check_text(text: &str) -> Result<()> {
    if text.trim().is_empty() || text.len() > TEXT_BYTES {
        return Err(Error::Record { why: format!("a text has 1 to {TEXT_BYTES} bytes") });
    }
    Ok(())
}
