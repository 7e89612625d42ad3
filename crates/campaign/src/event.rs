//! The log of a campaign: what was decided and what happened, one entry each. The log alone rebuilds the board.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_env::Timestamp;

use crate::campaign::{Campaign, CampaignBudget, PauseReason};
use crate::plan::Plan;

/// One entry of the log of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignLogEntry {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: CampaignEvent,
}

/// What was decided, or happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum CampaignEvent {
    /// The campaign was made.
    Created {
        /// As what.
        campaign: Box<Campaign>,
    },
    /// A person gave a command, or a schedule did.
    CommandGiven {
        /// What it says.
        text: String,
        /// Who.
        by: String,
    },
    /// There is another version of the plan; nobody has approved it.
    PlanChanged {
        /// The version.
        plan: Box<Plan>,
        /// The person who has edited it; none where the agent has proposed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A person has approved the plan.
    PlanApproved {
        /// Which version.
        version: u64,
        /// Its digest.
        digest: String,
        /// Who.
        by: String,
    },
    /// A person has rejected the plan.
    PlanRejected {
        /// Which version.
        version: u64,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who.
        by: String,
    },
    /// A cycle began.
    CycleBegan {
        /// Which one, from 1.
        number: u64,
    },
    /// A cycle has used so much.
    CycleMeasured {
        /// Tokens of models.
        tokens: u64,
        /// Milliseconds.
        time_ms: u64,
        /// The last entry that the model was shown before it proposed; none where it proposed nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<u64>,
    },
    /// A proposal was refused.
    ProposalRefused {
        /// The category.
        category: String,
        /// Why.
        why: String,
    },
    /// The agent proposed nothing.
    NothingProposed,
    /// A task was taken in hand.
    TaskSelected {
        /// Which one.
        task: String,
    },
    /// A call is to be made.
    ActionProposed {
        /// The call.
        action: CampaignAction,
        /// Whether a person decides first.
        needs_approval: bool,
    },
    /// A person has decided about a call.
    ActionDecided {
        /// The digest of the call.
        digest: String,
        /// Whether it may be made.
        approved: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who.
        by: String,
    },
    /// A call has begun: it may have had its effect from now on.
    ActionBegan {
        /// The digest of the call.
        digest: String,
    },
    /// A call has ended.
    ActionDone {
        /// The digest of the call.
        digest: String,
        /// Which tool.
        tool: String,
        /// Whether it succeeded.
        success: bool,
        /// Whether its tool only reads.
        reads: bool,
        /// Where its result is.
        result: String,
        /// The beginning of the result, 4 KiB at most: what the agent is shown.
        text: String,
    },
    /// The agent has proposed a version of an artifact.
    ArtifactProposed {
        /// Of which task.
        task: String,
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
        /// Its version.
        version: u64,
    },
    /// A person has approved a version of an artifact.
    ArtifactApproved {
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
        /// Its version.
        version: u64,
        /// Who.
        by: String,
    },
    /// A person is asked.
    QuestionAsked {
        /// About which task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The question.
        question: String,
        /// The JSON schema of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
    },
    /// A person has answered.
    QuestionAnswered {
        /// The answer.
        answer: Value,
        /// Who.
        by: String,
    },
    /// A person who may approve has confirmed a question of a proof.
    Confirmed {
        /// Of which task.
        task: String,
        /// The question.
        question: String,
        /// Who.
        by: String,
    },
    /// A task is done: all of its proofs were found.
    TaskCompleted {
        /// Which one.
        task: String,
        /// Where the last of the results is that prove it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    },
    /// A task cannot go on.
    TaskBlocked {
        /// Which one.
        task: String,
        /// Why.
        why: String,
    },
    /// A person lets a task go on.
    TaskUnblocked {
        /// Which one.
        task: String,
        /// Who.
        by: String,
    },
    /// A person has a task done anew.
    TaskRetried {
        /// Which one.
        task: String,
        /// Who.
        by: String,
    },
    /// The campaign was paused.
    Paused {
        /// Why.
        reason: PauseReason,
    },
    /// It goes on.
    Resumed {
        /// Who has resumed it; none where the time of a pause was over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Its budget was changed.
    BudgetChanged {
        /// To what.
        budget: CampaignBudget,
        /// Who.
        by: String,
    },
    /// Every task is done.
    Completed,
    /// It failed.
    Failed {
        /// The category.
        category: String,
    },
    /// A person has ended it.
    Cancelled {
        /// Who.
        by: String,
    },
}

/// A call for a task, as an approval is bound to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignAction {
    /// For which task.
    pub task: String,
    /// Under which version of the plan.
    pub plan_version: u64,
    /// In which cycle it was proposed.
    pub cycle: u64,
    /// Which tool.
    pub tool: String,
    /// The arguments.
    pub args: Map<String, Value>,
    /// The digest of all of it and the campaign: what a decision is about.
    pub digest: String,
}
