//! The board of a campaign: everything that decisions depend on. It is the fold of the log.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use singletree_env::Timestamp;

use crate::campaign::{Campaign, CampaignStatus, CampaignUsage, PauseReason};
use crate::error::Result;
use crate::event::{CampaignAction, CampaignEvent, CampaignLogEntry};
use crate::plan::{Plan, PlanApproval};
use crate::proof::Proof;
use crate::recent::RecentEntry;

/// How many entries of the log the board keeps: the last ones, for prompts.
pub(crate) const RECENT_MAX: usize = 5;

/// How many bytes the log of a campaign may have. A campaign with a full log begins no cycle and takes no command but its
/// cancellation; the end of a call that was begun is still recorded.
pub const LOG_BYTES_MAX: u64 = 256 << 20;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// It is in hand: at most one task is.
    InProgress,
    /// All of its proofs were found.
    Done,
    /// It cannot go on.
    Blocked,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskProgress {
    /// The task.
    pub task: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// How often it was taken in hand.
    pub attempts: u64,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_because: Option<String>,
    /// Where the result is that proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
    /// For each proof of the task that the log has: the number of the entry that has it.
    pub found: Vec<Option<u64>>,
}

/// What a campaign waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum CampaignWait {
    /// A decision about the newest version of the plan.
    Plan,
    /// A decision about a call.
    Action,
    /// An answer to a question.
    Question {
        /// About which task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The question.
        question: String,
        /// The JSON schema of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
    },
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionStage {
    /// A person decides.
    Asked,
    /// It may be made.
    Granted,
    /// It was begun.
    Begun,
}

/// The call that is to be made, or is being made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAction {
    /// The call.
    pub action: CampaignAction,
    /// How far it is.
    pub stage: ActionStage,
    /// Whether a person has approved it.
    #[serde(default)]
    pub is_approved: bool,
}

/// Everything that decisions about a campaign depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignBoard {
    /// The campaign.
    pub campaign: Campaign,
    /// Where it stands.
    pub status: CampaignStatus,
    /// Why it is paused, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseReason>,
    /// Why it failed, while it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What it has used.
    pub usage: CampaignUsage,
    /// The newest version of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The approval of that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PlanApproval>,
    /// How far its tasks are, in their order.
    pub progress: Vec<TaskProgress>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<CampaignWait>,
    /// The call in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<OpenAction>,
    /// The newest approved version of each artifact, by kind and key as `kind/key`.
    pub approved_artifacts: BTreeMap<String, u64>,
    /// The command that the next cycle carries out; none where the agent goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The number of the entry that gave that command, or the last one before it.
    #[serde(default)]
    pub command_seq: u64,
    /// The number of the last entry by which a person has said something.
    #[serde(default)]
    pub news_seq: u64,
    /// The last entry that the model was shown whose proposal is decided about; none while nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// How many proposals were refused in a row.
    pub refusals: u64,
    /// How often nothing was proposed in a row.
    pub idle: u64,
    /// How many failures in a row might have passed.
    pub failures: u32,
    /// Whether a cycle has begun of which no cost is recorded yet: it is being run, or was when its process ended.
    #[serde(default)]
    pub is_cycle_open: bool,
    /// Whether a plan was ever approved.
    pub began: bool,
    /// The last entries of the log.
    pub recent: VecDeque<RecentEntry>,
    /// The number of the last entry.
    pub seq: u64,
    /// The bytes of all entries, as JSON.
    #[serde(default)]
    pub log_bytes: u64,
    /// When the last entry was.
    pub updated_at: Timestamp,
}

/// What a runner does next about a campaign.
#[derive(Debug, Clone, PartialEq)]
pub enum CampaignStep {
    /// Begin a cycle: ask the agent for a proposal.
    Ask,
    /// Make the call that is granted, or find out what became of one that was begun.
    Execute(CampaignAction),
    /// Nothing, until a person says something.
    Await,
    /// Nothing, until this time.
    Sleep(Timestamp),
    /// Nothing any more, or until a person resumes it.
    Rest,
}

impl CampaignStep {
    /// Tells whether a runner does something now.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self, Self::Ask | Self::Execute(_))
    }
}

/// How many tasks stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TaskCounts {
    /// Nobody works on them.
    pub pending: u64,
    /// In hand.
    pub in_progress: u64,
    /// Done.
    pub done: u64,
    /// They cannot go on.
    pub blocked: u64,
}

impl CampaignBoard {
    /// Returns the board with another plan and progress, without copying its own.
    pub(crate) fn with_plan_and_progress(&self, plan: Option<Plan>, progress: Vec<TaskProgress>) -> Self {
        Self {
            campaign: self.campaign.clone(),
            status: self.status,
            pause: self.pause.clone(),
            failure: self.failure.clone(),
            usage: self.usage,
            plan,
            approval: self.approval.clone(),
            progress,
            wait: self.wait.clone(),
            action: self.action.clone(),
            approved_artifacts: self.approved_artifacts.clone(),
            command: self.command.clone(),
            command_seq: self.command_seq,
            news_seq: self.news_seq,
            seen: self.seen,
            refusals: self.refusals,
            idle: self.idle,
            failures: self.failures,
            is_cycle_open: self.is_cycle_open,
            began: self.began,
            recent: self.recent.clone(),
            seq: self.seq,
            log_bytes: self.log_bytes,
            updated_at: self.updated_at,
        }
    }

    /// Returns the board as it is after these events.
    ///
    /// # Errors
    /// `campaign_log_corrupt` when they cannot follow.
    pub fn after_events(&self, events: &[CampaignEvent], at: Timestamp) -> Result<Self> {
        let mut board = self.clone();
        for event in events {
            board.apply_entry(&CampaignLogEntry { seq: board.seq + 1, at, event: event.clone() })?;
        }
        Ok(board)
    }

    /// Tells whether a person has said something that the model was not shown whose proposal is decided about.
    pub(crate) fn has_unseen_news(&self) -> bool {
        self.seen.is_some_and(|seen| self.news_seq > seen)
    }

    /// Tells whether the log may not grow any more.
    #[must_use]
    pub fn is_log_full(&self) -> bool {
        self.log_bytes >= LOG_BYTES_MAX
    }

    /// Tells whether the newest version of the plan is approved.
    #[must_use]
    pub fn is_plan_approved(&self) -> bool {
        match (&self.plan, &self.approval) {
            (Some(plan), Some(approval)) => {
                plan.version == approval.version && plan.digest == approval.digest
            }
            _ => false,
        }
    }

    /// Returns what is done next.
    #[must_use]
    pub fn next_step(&self) -> CampaignStep {
        // A call that was begun ends, whatever was decided since.
        if let Some(OpenAction { action, stage: ActionStage::Begun, .. }) = &self.action {
            return CampaignStep::Execute(action.clone());
        }
        match self.status {
            CampaignStatus::Initializing | CampaignStatus::Active => {}
            CampaignStatus::Paused => {
                return match &self.pause {
                    Some(PauseReason::Transient { until, .. }) => CampaignStep::Sleep(*until),
                    _ => CampaignStep::Await,
                };
            }
            CampaignStatus::Error => return CampaignStep::Await,
            CampaignStatus::Completed | CampaignStatus::Cancelled => return CampaignStep::Rest,
        }
        match (&self.action, &self.wait) {
            (Some(OpenAction { action, stage: ActionStage::Granted, .. }), _) => {
                CampaignStep::Execute(action.clone())
            }
            (_, Some(_)) => CampaignStep::Await,
            (_, None) => CampaignStep::Ask,
        }
    }

    /// Returns the progress of a task.
    #[must_use]
    pub fn find_progress(&self, task: &str) -> Option<&TaskProgress> {
        self.progress.iter().find(|progress| progress.task == task)
    }

    pub(crate) fn progress_mut(&mut self, task: &str) -> Option<&mut TaskProgress> {
        self.progress.iter_mut().find(|progress| progress.task == task)
    }

    /// Returns the task in hand.
    #[must_use]
    pub fn task_in_hand(&self) -> Option<&TaskProgress> {
        self.progress.iter().find(|progress| progress.status == TaskStatus::InProgress)
    }

    /// Returns the tasks that may be taken in hand, in the order of the plan: those that nobody works on and whose needs
    /// are done.
    pub fn ready_tasks(&self) -> impl Iterator<Item = &TaskProgress> {
        let done: std::collections::BTreeSet<&str> = self
            .progress
            .iter()
            .filter(|progress| progress.status == TaskStatus::Done)
            .map(|progress| progress.task.as_str())
            .collect();
        let tasks = self.plan.iter().flat_map(|plan| &plan.tasks);
        let ready = move |(task, progress): (&crate::plan::PlanTask, &TaskProgress)| {
            progress.status == TaskStatus::Pending
                && task.needs.iter().all(|need| done.contains(need.as_str()))
        };
        tasks.zip(&self.progress).filter(move |pair| ready(*pair)).map(|(_, progress)| progress)
    }

    /// Counts the tasks.
    #[must_use]
    pub fn count_tasks(&self) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for progress in &self.progress {
            *match progress.status {
                TaskStatus::Pending => &mut counts.pending,
                TaskStatus::InProgress => &mut counts.in_progress,
                TaskStatus::Done => &mut counts.done,
                TaskStatus::Blocked => &mut counts.blocked,
            } += 1;
        }
        counts
    }

    /// Tells whether a plan is approved and every task of it is done.
    #[must_use]
    pub fn is_every_task_done(&self) -> bool {
        self.is_plan_approved() && self.progress.iter().all(|progress| progress.status == TaskStatus::Done)
    }

    /// Returns the proofs of a task that neither the log nor an approved artifact has. Proofs that are read only when
    /// the task is completed are among them.
    #[must_use]
    pub fn missing_proofs(&self, task: &str) -> Vec<(usize, &Proof)> {
        let Some((_, definition)) = self.plan.as_ref().and_then(|plan| plan.find_task(task)) else {
            return Vec::new();
        };
        let found = self.find_progress(task).map(|progress| progress.found.as_slice()).unwrap_or_default();
        let is_missing = |(at, proof): &(usize, &Proof)| match proof {
            Proof::ArtifactApproved { kind, key } => {
                !self.approved_artifacts.contains_key(&format!("{kind}/{key}"))
            }
            Proof::ToolSucceeded { .. } | Proof::McpRead { .. } | Proof::UserConfirmed { .. } => {
                found.get(*at).copied().flatten().is_none()
            }
        };
        definition.proof.iter().enumerate().filter(is_missing).collect()
    }
}
