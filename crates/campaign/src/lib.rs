//! Campaigns: goals that agents pursue over many cycles, hours or weeks.
//!
//! "The Controller owns truth. The Database owns memory. The Agent proposes. The Chat narrates." This crate is the
//! controller's judgement: records, the log and its fold ([`CampaignBoard`]), decisions as pure functions of the board,
//! what an agent is shown of it ([`project_snapshot`]), and where it is kept ([`CampaignStore`]). It asks no model and
//! runs no tool, and it neither reads nor makes narration.
//!
//! A decision returns events; [`CampaignBoard::apply_entry`] is the only way in which a board changes. So the log alone
//! rebuilds the board.
//!
//! The word of the agent is never proof: a task is done when each of its [`Proof`]s is found in the log, is approved by
//! a person, or is read by a tool that the operator lists.

mod board;
mod campaign;
mod error;
mod event;
mod fold;
mod plan;
mod projection;
mod proof;
mod proposal;
mod recent;
mod schedule;
mod store;
mod stored_schedule;
mod transition;

pub use board::{
    ActionStage, CampaignBoard, CampaignStep, CampaignWait, LOG_BYTES_MAX, OpenAction, TaskCounts,
    TaskProgress, TaskStatus,
};
pub use campaign::{Campaign, CampaignBudget, CampaignStatus, CampaignUsage, GOAL_BYTES_MAX, PauseReason};
pub use error::{Error, Result};
pub use event::{CampaignAction, CampaignEvent, CampaignLogEntry};
pub use plan::{DESCRIPTION_BYTES_MAX, PLAN_TASKS_MAX, PROOFS_MAX, Plan, PlanApproval, PlanTask};
pub use projection::{SNAPSHOT_BYTES_MAX, project_command, project_snapshot};
pub use proof::{ANSWER_KIND, Proof, ProofPolicy, fits_expectation};
pub use proposal::{
    ADDED_TASKS_MAX, ARTIFACT_BYTES_MAX, CampaignProposal, PROPOSE, ReasonedProposal, propose_schema,
    propose_tool,
};
pub use recent::{RESULT_BYTES_MAX, RecentEntry};
pub use schedule::{CampaignSchedule, INTERVAL_MIN, MissedRuns, SCHEDULES_MAX, ScheduleDecision};
pub use store::{CampaignStore, StoredCampaign, campaign_session};
pub use stored_schedule::StoredSchedule;
pub use transition::{
    ActionTerms, CampaignScope, CompletionReads, CycleCost, PersonCommand, accept_proposal, begin_action,
    begin_cycle, create_campaign, decide_command, fail_cycle, fail_with_quota, finish_action, measure_cycle,
    record_artifact_approval, refuse_proposal, wake_after_pause,
};
