//! The prompt of a cycle: rules, the bounded snapshot, the artifacts of the task in hand, and the command; never a
//! transcript (agent-chat-output §8.2).

use singletree_agent::{AgentResources, AgentTools, CommandPrompt};
use singletree_campaign::{CampaignBoard, PROPOSE, project_command, project_snapshot};
use singletree_llm::canonical_json;

use crate::core::{CampaignKey, ControllerCore};
use crate::error::Result;

/// How many bytes of the description of a tool are shown.
const DESCRIPTION_BYTES: usize = 1 << 10;
/// How many bytes the schema of a tool may have to be shown.
const SCHEMA_BYTES: usize = 8 << 10;
/// How many bytes the list of tools has at most.
const TOOLS_BYTES: usize = 128 << 10;

/// The rules that every agent of a campaign is given, behind its own instructions.
const RULES: &str = "\
You work on a campaign: a goal that is pursued step by step. You see no earlier messages; the state below is all there \
is, and it is true. Answer with exactly one call of `propose`, which proposes one action. The controller checks it, asks \
a person where that is needed, carries it out and records it; nothing has happened before the state says so.
Rules:
- Without an approved plan propose `replace_plan`, `add_tasks`, `ask_user` or `no_op` only.
- Every task has at least one proof. A proof is a fact, not your word: `tool_succeeded` (a successful call, for that \
task, of a tool that changes something, with the given arguments), `artifact_approved` (a person has approved that \
artifact), `user_confirmed` (a person has confirmed the question), `mcp_read` (a listed tool reads what is expected).
- One task is in hand at a time: `select_task` one of `next`, work on it, then `complete_task`. It is complete when each \
of its proofs is found; `block_task` when it cannot go on.
- `execute_tool` calls one of the tools below for the task in hand. Its result is in the log of the next state.
- `propose_artifact` puts a text before a person, for the task in hand. `ask_user` asks a person.
- `why` tells people your reason. It is not kept for you.";

/// Returns the rules, the tools and everything else that an agent is shown in a cycle of a campaign.
pub(super) async fn build_campaign_prompt_of(
    core: &ControllerCore,
    agent: &AgentResources,
    (key, board): (&CampaignKey, &CampaignBoard),
) -> Result<CommandPrompt> {
    let task = board.task_in_hand().map(|progress| progress.task.as_str());
    let artifacts = core.artifacts.list_approved_of_task(&key.session_key()?, task).await?;
    let tools = agent.current_tools().await;
    let readers = core.verify_tools.iter().map(|(server, tool)| (server.as_str(), tool.as_str()));
    let rules = write_rules(agent.instructions().as_deref(), &tools, readers);
    Ok(CommandPrompt::new(project_command(board), project_snapshot(board)).rules(rules).artifacts(artifacts))
}

fn write_rules<'a>(
    instructions: Option<&str>,
    tools: &AgentTools<'_>,
    readers: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    if let Some(instructions) = instructions {
        text.push_str(instructions.trim());
        text.push_str("\n\n");
    }
    text.push_str(RULES);
    let readers: Vec<String> = readers.map(|(server, tool)| format!("{tool} of {server}")).collect();
    if !readers.is_empty() {
        let readers = readers.join(", ");
        text.push_str(&format!("\n- `mcp_read` may use: {readers}."));
    }
    text.push_str("\n\nTools:");
    let before = text.len();
    for definition in tools.definitions().iter().filter(|definition| definition.name() != PROPOSE) {
        let description = definition.description();
        let description = &description[..description.floor_char_boundary(DESCRIPTION_BYTES)];
        let schema = canonical_json(definition.parameters());
        let schema = if schema.len() <= SCHEMA_BYTES { schema.as_str() } else { "{\"type\":\"object\"}" };
        let name = definition.name();
        if text.len() - before + schema.len() + description.len() > TOOLS_BYTES {
            text.push_str("\n- (further tools are not shown)");
            break;
        }
        text.push_str(&format!("\n- {name}: {description}\n  arguments: {schema}"));
    }
    if text.len() == before {
        text.push_str(" none.");
    }
    text
}
