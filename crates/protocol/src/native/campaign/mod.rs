//! Campaigns: goals that agents pursue over many cycles, with plans, proofs and approvals.

mod command;
mod log;
mod plan;
mod schedule;
mod status;

pub use command::CampaignCommand;
pub use log::{
    CampaignLogItem, CampaignLogKind, CampaignLogPage, CampaignLogQuery, CampaignStreamItem, FollowCampaign,
};
pub use plan::{
    ApprovePlan, CampaignPlan, CampaignTask, CampaignTaskPage, EditPlan, ProofCheck, ProofRule, RejectPlan,
    TaskDefinition, TaskPageQuery, TaskState,
};
pub use schedule::{AddSchedule, MissedDueTimes, ScheduleInfo, ScheduleInfoList};
pub use status::{
    BudgetLimits, BudgetUsage, CallStage, CampaignDetail, CampaignPage, CampaignPageQuery, CampaignPhase,
    CampaignSummary, CreateCampaign, ExactCall, PauseCause, PendingDecision, PlanSummary, TaskTally,
    TemplateInfo, TemplateList,
};
