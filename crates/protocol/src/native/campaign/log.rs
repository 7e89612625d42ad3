//! The log of a campaign: its audit, and its events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::{BudgetLimits, ExactCall, PauseCause};
use crate::native::whole::read_query_number;
use crate::native::{StreamFailed, Time};

/// One entry of the log of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignLogItem {
    /// Its number, from 1, without gaps: also the `id:` of its frame, and what `Last-Event-ID` and `after` take.
    pub seq: u64,
    /// When.
    pub at: Time,
    /// The decision, or what happened.
    #[serde(flatten)]
    pub event: CampaignLogKind,
}

/// A decision about a campaign, or something that happened in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CampaignLogKind {
    /// The campaign was made.
    Created {
        /// Its name.
        name: String,
        /// Its goal.
        goal: String,
        /// The agent that proposes.
        agent: String,
        /// How much it may use.
        budget: BudgetLimits,
    },
    /// A person gave a command, or a schedule did.
    CommandGiven {
        /// The command.
        text: String,
        /// Who.
        by: String,
    },
    /// There is another version of the plan; nobody has approved it.
    PlanChanged {
        /// The version.
        version: u64,
        /// Its digest.
        digest: String,
        /// How many tasks it has; `GET …/plan` has them all.
        tasks: u64,
        /// The person who has edited it; absent where the agent has proposed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A person has approved the plan.
    PlanApproved {
        /// The version.
        version: u64,
        /// Its digest.
        digest: String,
        /// Who.
        by: String,
    },
    /// A person has rejected the plan.
    PlanRejected {
        /// The version.
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
        action: ExactCall,
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
        /// The tool.
        tool: String,
        /// Whether it succeeded.
        success: bool,
        /// Whether its tool only reads.
        reads: bool,
        /// Where its result is.
        result: String,
        /// The beginning of the result, 4 KiB at most.
        text: String,
    },
    /// The agent has proposed a version of an artifact.
    ArtifactProposed {
        /// The task.
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
        /// The task that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The question.
        question: String,
        /// The JSON Schema of the answer.
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
    /// A person who may approve has confirmed the question of a proof.
    Confirmed {
        /// The task.
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
        reason: PauseCause,
    },
    /// It goes on.
    Resumed {
        /// Who has resumed it; absent where the time of a pause was over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Its budget was changed.
    BudgetChanged {
        /// The new one.
        budget: BudgetLimits,
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

/// A page of the log of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignLogPage {
    /// The entries, in their order.
    pub items: Vec<CampaignLogItem>,
    /// Where the next page begins, when there is one: what `after` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which part of the log to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignLogQuery {
    /// The number of the entry after which to begin; 0, the beginning, otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(max = u64::MAX))]
    pub after: Option<u64>,
    /// How many at most: 1 to 1000; 100 otherwise. A page of more than 1 MiB ends earlier.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// Where a stream of a campaign's events begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowCampaign {
    /// The number of the last event that was seen: the stream goes on after it. As the header `Last-Event-ID`, which goes
    /// before. Without either, the stream begins with the first event.
    #[serde(default)]
    pub after: Option<String>,
}

/// A frame of a stream of a campaign's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(
    clippy::large_enum_variant,
    reason = "a failure is the last frame of its stream, and held by nobody"
)]
pub enum CampaignStreamItem {
    /// An entry of the log.
    Entry(Box<CampaignLogItem>),
    /// The stream broke.
    Failed(StreamFailed),
}
