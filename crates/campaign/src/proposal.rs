//! Machine output: what an agent proposes in a cycle. One JSON schema, one proposal, which names one task.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use singletree_llm::{Schema, ToolDefinition};

use crate::error::{Error, Result};
use crate::plan::{PLAN_TASKS_MAX, PlanTask, check_name};
use crate::proof::ANSWER_KIND;

/// The name of the tool by which an agent proposes.
pub const PROPOSE: &str = "propose";
/// How many tasks one proposal may add.
pub const ADDED_TASKS_MAX: usize = 50;
/// How many bytes the content of a proposed artifact may have.
pub const ARTIFACT_BYTES_MAX: usize = 64 << 10;
/// How many bytes a question or a reason may have.
const TEXT_BYTES: usize = 2 << 10;

/// What an agent proposes. It is only a proposal: the controller decides, executes and records.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum CampaignProposal {
    /// Adds tasks to the plan, behind the task `after` or at the end. The new version needs approval.
    AddTasks {
        /// Behind which task.
        #[serde(default)]
        after: Option<String>,
        /// The tasks, 50 at most.
        tasks: Vec<PlanTask>,
    },
    /// Replaces the plan. The new version needs approval.
    ReplacePlan {
        /// The tasks.
        tasks: Vec<PlanTask>,
    },
    /// Takes a task in hand.
    SelectTask {
        /// Which one.
        task: String,
    },
    /// Calls a tool for the task in hand.
    ExecuteTool {
        /// For which task.
        task: String,
        /// Which tool.
        tool: String,
        /// The arguments.
        #[serde(default)]
        args: Map<String, Value>,
    },
    /// Proposes a version of an artifact of the task in hand. A person approves it.
    ProposeArtifact {
        /// Of which task.
        task: String,
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
        /// What it says.
        content: String,
    },
    /// Asks a person. The answer becomes an approved artifact of the task.
    AskUser {
        /// About which task; none before there is a plan.
        #[serde(default)]
        task: Option<String>,
        /// The question.
        question: String,
        /// The JSON schema of the answer; any object otherwise.
        #[serde(default)]
        schema: Option<Value>,
    },
    /// Says that the task in hand is done: it is if all of its proofs are found.
    CompleteTask {
        /// Which one.
        task: String,
    },
    /// Says that the task in hand cannot go on.
    BlockTask {
        /// Which one.
        task: String,
        /// Why not: recorded with the task.
        why: String,
    },
    /// Proposes nothing.
    NoOp {},
}

/// A proposal and the agent's reason for it, which goes to narration and nowhere else (agent-chat-output §5.2).
#[derive(Debug, Clone, PartialEq)]
pub struct ReasonedProposal {
    /// The proposal.
    pub proposal: CampaignProposal,
    /// Why, in the agent's words.
    pub why: Option<String>,
}

/// Returns the tool by which an agent proposes.
///
/// # Errors
/// `campaign_proposal_invalid`: never with this crate as it is.
pub fn propose_tool() -> Result<ToolDefinition> {
    let text = "Proposes exactly one action. The controller decides about it; nothing has happened before it says so.";
    let tool = ToolDefinition::with_generated_schema(PROPOSE, text, propose_schema());
    tool.map_err(|error| Error::Proposal { why: error.to_string() })
}

/// Returns the JSON schema of a proposal.
#[must_use]
pub fn propose_schema() -> Value {
    let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" });
    let text = |bytes: usize| json!({ "type": "string", "minLength": 1, "maxLength": bytes });
    let object = json!({ "type": "object" });
    let proof = |kind: &str, fields: Value, required: Value| {
        let mut properties = fields.as_object().cloned().unwrap_or_default();
        properties.insert("type".to_owned(), json!({ "const": kind }));
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    let proofs = json!({ "type": "array", "minItems": 1, "maxItems": 16, "items": { "oneOf": [
        proof("tool_succeeded", json!({ "tool": name, "args": object }), json!(["type", "tool"])),
        proof("artifact_approved", json!({ "kind": name, "key": name }), json!(["type", "kind", "key"])),
        proof(
            "mcp_read",
            json!({ "server": name, "tool": name, "args": object, "expect": {} }),
            json!(["type", "server", "tool", "expect"]),
        ),
        proof("user_confirmed", json!({ "question": text(1 << 10) }), json!(["type", "question"])),
    ] } });
    let task = json!({
        "type": "object",
        "properties": {
            "id": name, "description": text(2 << 10), "proof": proofs,
            "needs": { "type": "array", "items": name },
        },
        "required": ["id", "description", "proof"],
        "additionalProperties": false,
    });
    let tasks = |max: usize| json!({ "type": "array", "minItems": 1, "maxItems": max, "items": task });
    let action = |action: &str, fields: Value, required: &[&str]| {
        let mut properties = fields.as_object().cloned().unwrap_or_default();
        properties.insert("action".to_owned(), json!({ "const": action }));
        let required: Vec<&str> = ["action"].iter().chain(required).copied().collect();
        properties.insert("why".to_owned(), text(TEXT_BYTES));
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    json!({ "type": "object", "oneOf": [
        action("add_tasks", json!({ "after": name, "tasks": tasks(ADDED_TASKS_MAX) }), &["tasks"]),
        action("replace_plan", json!({ "tasks": tasks(PLAN_TASKS_MAX) }), &["tasks"]),
        action("select_task", json!({ "task": name }), &["task"]),
        action("execute_tool", json!({ "task": name, "tool": { "type": "string", "minLength": 1, "maxLength": 128 }, "args": object }), &["task", "tool"]),
        action(
            "propose_artifact",
            json!({ "task": name, "kind": name, "key": name, "content": text(ARTIFACT_BYTES_MAX) }),
            &["task", "kind", "key", "content"],
        ),
        action("ask_user", json!({ "task": name, "question": text(TEXT_BYTES), "schema": object }), &["question"]),
        action("complete_task", json!({ "task": name }), &["task"]),
        action("block_task", json!({ "task": name }), &["task", "why"]),
        action("no_op", json!({}), &[]),
    ] })
}

impl ReasonedProposal {
    /// Reads the arguments of a call of [`PROPOSE`].
    ///
    /// # Errors
    /// `campaign_proposal_invalid` for anything that is not exactly one proposal within its limits.
    pub fn from_arguments(arguments: &Map<String, Value>) -> Result<Self> {
        let refuse = |why: String| Error::Proposal { why };
        let mut fields = arguments.clone();
        let is_block = fields.get("action") == Some(&json!("block_task"));
        // The reason of a task that cannot go on is recorded; every other one is only told.
        let why = if is_block { fields.get("why").cloned() } else { fields.remove("why") };
        let why = match why {
            None | Some(Value::Null) => None,
            Some(Value::String(why)) if why.len() <= TEXT_BYTES => Some(why),
            Some(_) => return Err(refuse(format!("`why` is a text of at most {TEXT_BYTES} bytes"))),
        };
        let proposal: CampaignProposal =
            serde_json::from_value(Value::Object(fields)).map_err(|error| refuse(error.to_string()))?;
        proposal.check_limits()?;
        Ok(Self { proposal, why })
    }
}

impl CampaignProposal {
    /// Returns its word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::AddTasks { .. } => "add_tasks",
            Self::ReplacePlan { .. } => "replace_plan",
            Self::SelectTask { .. } => "select_task",
            Self::ExecuteTool { .. } => "execute_tool",
            Self::ProposeArtifact { .. } => "propose_artifact",
            Self::AskUser { .. } => "ask_user",
            Self::CompleteTask { .. } => "complete_task",
            Self::BlockTask { .. } => "block_task",
            Self::NoOp {} => "no_op",
        }
    }

    /// Tells whether it is allowed before a plan is approved.
    pub(crate) fn needs_no_plan(&self) -> bool {
        matches!(
            self,
            Self::AddTasks { .. } | Self::ReplacePlan { .. } | Self::AskUser { .. } | Self::NoOp {}
        )
    }

    fn check_limits(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Proposal { why });
        match self {
            Self::AddTasks { tasks, .. } if tasks.is_empty() || tasks.len() > ADDED_TASKS_MAX => {
                refuse(format!("1 to {ADDED_TASKS_MAX} tasks are added at once"))
            }
            Self::ProposeArtifact { kind, .. } if kind == ANSWER_KIND => {
                refuse(format!("artifacts of the kind '{ANSWER_KIND}' are the answers of people"))
            }
            Self::ProposeArtifact { kind, key, .. }
                if check_name(kind).and_then(|()| check_name(key)).is_err() =>
            {
                refuse("a kind and a key have 1 to 64 of the characters A-Z a-z 0-9 - _ .".to_owned())
            }
            Self::ProposeArtifact { content, .. } if content.len() > ARTIFACT_BYTES_MAX => {
                refuse(format!("an artifact has at most {ARTIFACT_BYTES_MAX} bytes"))
            }
            Self::AskUser { question, .. } if question.trim().is_empty() || question.len() > TEXT_BYTES => {
                refuse(format!("a question has 1 to {TEXT_BYTES} bytes"))
            }
            Self::AskUser { schema: Some(schema), .. } if Schema::compile(schema.clone()).is_err() => {
                refuse("`schema` is no JSON schema".to_owned())
            }
            Self::BlockTask { why, .. } if why.trim().is_empty() || why.len() > TEXT_BYTES => {
                refuse(format!("a reason has 1 to {TEXT_BYTES} bytes"))
            }
            _ => Ok(()),
        }
    }
}
