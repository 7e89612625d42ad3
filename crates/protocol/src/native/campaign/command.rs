//! Commands of people, and their answers and decisions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::BudgetLimits;

/// A command of a person to a campaign. Each type has its scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum CampaignCommand {
    /// The next cycle carries this out. Scope `write`.
    Free {
        /// The command, 1 byte to 16 KiB.
        #[schemars(length(min = 1, max = 16_384))]
        text: String,
    },
    /// Lets a blocked task go on. Scope `write`.
    Unblock {
        /// The task.
        task: String,
    },
    /// Has a task done anew that is done or blocked. Scope `write`.
    Retry {
        /// The task.
        task: String,
    },
    /// Answers the question that waits. Scope `write`; an answer approves nothing.
    Answer {
        /// The question as it was read: where another one waits by now, nothing changes.
        question: String,
        /// The answer, 16 KiB of JSON at most. It fits the schema of the question, where there is one.
        answer: Value,
    },
    /// Confirms the question of a proof. Scope `approve`.
    Confirm {
        /// The task.
        task: String,
        /// The question, as the proof has it.
        question: String,
    },
    /// Decides about the call that waits. Scope `approve`.
    Decide {
        /// The digest of the call.
        digest: String,
        /// Whether it may be made.
        approved: bool,
        /// Why not; the agent is told. 16 KiB at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Replaces the budget. A budget that has room again ends a pause that waited for it. Scope `admin`.
    Budget {
        /// The new one; a part that is absent has no limit.
        budget: BudgetLimits,
    },
}
