//! A campaign: its goal, where it stands, and what it waits for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::plan::TaskDefinition;
use crate::native::Time;
use crate::native::whole::{read_optional_whole_number, read_query_number};

/// The pattern of the id of a campaign.
pub(super) const CAMPAIGN_ID: &str = r"^cmp_[A-Za-z0-9_-]{1,60}$";

/// Where a campaign stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CampaignPhase {
    /// No plan was approved yet.
    Initializing,
    /// A plan was approved, and work goes on.
    Active,
    /// Nothing runs until it is resumed.
    Paused,
    /// Every task is done.
    Completed,
    /// It failed; a person may resume it.
    Error,
    /// A person has ended it.
    Cancelled,
}

/// Why a campaign is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PauseCause {
    /// A person has paused it.
    Person {
        /// Who, as the audit names callers.
        by: String,
    },
    /// A part of its budget is used up.
    Budget {
        /// Which part: `cycles`, `tokens` or `time`.
        part: String,
    },
    /// Every task is done, blocked, or needs one that is not done.
    NoReadyTask,
    /// The agent had nothing to propose, three times in a row.
    NothingToPropose,
    /// A failure that may pass: the campaign is resumed at `until`.
    Transient {
        /// The category of the failure.
        category: String,
        /// When it is tried again.
        until: Time,
    },
    /// A quota of the tenant is used up.
    Quota {
        /// The category of the refusal.
        category: String,
    },
}

/// How much a campaign may use. A part that is absent has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetLimits {
    /// How many cycles.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(max = u64::MAX))]
    pub cycles: Option<u64>,
    /// How many tokens of models.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(max = u64::MAX))]
    pub tokens: Option<u64>,
    /// How many milliseconds its cycles may take together; the time between them does not count.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(max = u64::MAX))]
    pub time_ms: Option<u64>,
}

/// How much a campaign has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetUsage {
    /// Cycles that began.
    pub cycles: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// Milliseconds of its cycles.
    pub time_ms: u64,
}

/// How many tasks are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTally {
    /// Nobody works on them.
    pub pending: u64,
    /// In hand: at most one.
    pub in_progress: u64,
    /// Done.
    pub done: u64,
    /// They cannot go on.
    pub blocked: u64,
}

/// The newest version of the plan, without its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanSummary {
    /// Its version, from 1.
    pub version: u64,
    /// The digest that an approval names.
    pub digest: String,
    /// Who has approved this version; nobody has while it is absent, and then nothing of it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// The decision or the answer that a campaign waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PendingDecision {
    /// A decision about the newest version of the plan.
    Plan,
    /// A decision about the call in `call`.
    Action,
    /// An answer to a question.
    Question {
        /// The task that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The question.
        question: String,
        /// The JSON Schema of the answer; any value otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
    },
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// A person decides.
    Asked,
    /// It may be made.
    Granted,
    /// It was begun, and may have had its effect.
    Begun,
}

/// A call of a tool for a task, exactly as a decision is bound to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExactCall {
    /// The task.
    pub task: String,
    /// The version of the plan.
    pub plan_version: u64,
    /// The cycle in which it was proposed.
    pub cycle: u64,
    /// The tool.
    pub tool: String,
    /// The arguments, whole.
    pub args: Map<String, Value>,
    /// The digest that a decision names: of the call and its campaign.
    pub digest: String,
}

/// A campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignDetail {
    /// Its id, `cmp_…`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The goal.
    pub goal: String,
    /// The agent that proposes.
    pub agent: String,
    /// The session of its turns and its narration. Nothing can be sent there.
    pub session: String,
    /// On whose behalf it was made, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Where it stands.
    pub status: CampaignPhase,
    /// Why it is paused, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseCause>,
    /// The category of its failure, while it is in `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How much it may use.
    pub budget: BudgetLimits,
    /// How much it has used.
    pub usage: BudgetUsage,
    /// The newest version of the plan, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanSummary>,
    /// How its tasks stand.
    pub tasks: TaskTally,
    /// The task in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_in_hand: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<PendingDecision>,
    /// The call in hand: the one to decide about, where it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ExactCall>,
    /// How far that call is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_stage: Option<CallStage>,
    /// The command that the next cycle carries out, where a person or a schedule gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The number of the last entry of its log: from behind it, the events miss nothing.
    pub last_event: u64,
    /// When it was made.
    pub created_at: Time,
    /// When its log got its last entry.
    pub updated_at: Time,
}

/// A campaign in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignSummary {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The agent that proposes.
    pub agent: String,
    /// Where it stands.
    pub status: CampaignPhase,
    /// Why it is paused, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseCause>,
    /// The category of its failure, while it is in `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<PendingDecision>,
    /// How much it has used.
    pub usage: BudgetUsage,
    /// The number of the last entry of its log.
    pub last_event: u64,
    /// When it was made.
    pub created_at: Time,
    /// When its log got its last entry.
    pub updated_at: Time,
}

/// A page of campaigns, ordered by id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignPage {
    /// The campaigns.
    pub items: Vec<CampaignSummary>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which campaigns to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignPageQuery {
    /// Where to begin: the `next` of the page before.
    #[serde(default)]
    pub from: Option<String>,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// A campaign that is made: of a goal, or of a template with values that go before the template's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCampaign {
    /// Its id; drawn otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = CAMPAIGN_ID))]
    pub id: Option<String>,
    /// The template of the configuration that it is made from. Without one, a goal is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Its name, 1 to 200 bytes; the beginning of its goal otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name: Option<String>,
    /// What it is to reach, 1 byte to 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub goal: Option<String>,
    /// The agent that proposes; the first of the list otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How much it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetLimits>,
    /// The tasks of its first plan, which waits for approval. The agent proposes one otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub tasks: Option<Vec<TaskDefinition>>,
}

/// A template of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateInfo {
    /// Its name.
    pub name: String,
    /// A line about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The goal; a campaign of a template without one needs a goal of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The agent that proposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How much each campaign may use.
    pub budget: BudgetLimits,
    /// How many tasks its first plan has; the agent proposes one where it is 0.
    pub tasks: u64,
    /// How many schedules each campaign gets.
    pub schedules: u64,
}

/// The templates of the configuration, and the agents that may pursue campaigns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    /// The templates.
    pub items: Vec<TemplateInfo>,
    /// The agents, by id.
    pub agents: Vec<String>,
}
