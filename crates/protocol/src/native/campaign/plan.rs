//! Plans: tasks with the proofs that show that they are done, and how far they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::native::whole::{read_query_number, read_whole_number};

/// What shows that a task is done. The agent's word is no proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProofRule {
    /// A tool that changes something has succeeded for this task, under this version of the plan.
    ToolSucceeded {
        /// The tool.
        tool: String,
        /// The arguments that a call must have; those that are not named may be any.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        args: Map<String, Value>,
    },
    /// A person has approved an artifact.
    ArtifactApproved {
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
    },
    /// A tool of an MCP server that the operator lists reads what is expected.
    McpRead {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments, exactly.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        args: Map<String, Value>,
        /// What the result must contain: objects may have more fields, everything else is equal.
        expect: Value,
    },
    /// A person who may approve has confirmed it.
    UserConfirmed {
        /// The question.
        question: String,
    },
}

/// A task as a plan defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskDefinition {
    /// Its name: 1 to 64 of the characters `A-Z a-z 0-9 - _ .`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,64}$"))]
    pub id: String,
    /// What is to be done, 1 byte to 2 KiB.
    #[schemars(length(min = 1, max = 2048))]
    pub description: String,
    /// The tasks that have to be done before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What shows that it is done: all of them. 1 to 16.
    #[schemars(length(min = 1, max = 16))]
    pub proof: Vec<ProofRule>,
}

/// The newest version of a plan: all that an approval is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignPlan {
    /// Its version, from 1.
    pub version: u64,
    /// The digest that an approval names: of campaign, version and tasks, with their proofs.
    pub digest: String,
    /// The tasks, in the order in which they are offered.
    pub tasks: Vec<TaskDefinition>,
    /// Who has approved this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// Another version of a plan. Nobody has approved it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditPlan {
    /// The version that was edited; 0 where there was none. Where there is another one by now, nothing changes.
    #[serde(deserialize_with = "read_whole_number")]
    #[schemars(range(max = u64::MAX))]
    pub version: u64,
    /// The tasks, 1 to 2000.
    #[schemars(length(min = 1, max = 2000))]
    pub tasks: Vec<TaskDefinition>,
}

/// An approval of a plan: of the version that has this digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovePlan {
    /// The version.
    #[serde(deserialize_with = "read_whole_number")]
    #[schemars(range(max = u64::MAX))]
    pub version: u64,
    /// Its digest.
    pub digest: String,
}

/// A rejection of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectPlan {
    /// The version.
    #[serde(deserialize_with = "read_whole_number")]
    #[schemars(range(max = u64::MAX))]
    pub version: u64,
    /// Why; the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Nobody works on it.
    Pending,
    /// It is in hand.
    InProgress,
    /// All of its proofs were found.
    Done,
    /// It cannot go on.
    Blocked,
}

/// A proof and whether it was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofCheck {
    /// The proof.
    pub rule: ProofRule,
    /// Whether it was found. A proof that is read is looked for when the task is to be completed.
    pub found: bool,
    /// The number of the entry of the log that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// A task and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignTask {
    /// Its name.
    pub id: String,
    /// What is to be done.
    pub description: String,
    /// The tasks that have to be done before it.
    pub needs: Vec<String>,
    /// Its proofs.
    pub proof: Vec<ProofCheck>,
    /// Its state.
    pub status: TaskState,
    /// How often it was taken in hand.
    pub attempts: u64,
    /// Why it cannot go on, while it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_because: Option<String>,
    /// Where the last of the results is that prove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// A page of tasks, in the order of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignTaskPage {
    /// The version of the plan; 0 where there is none. When it changes between pages, begin again.
    pub plan_version: u64,
    /// The tasks.
    pub items: Vec<CampaignTask>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskPageQuery {
    /// The place in the plan to begin at, from 0.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(max = u64::MAX))]
    pub from: Option<u64>,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}
