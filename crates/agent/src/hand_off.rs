//! Handing the conversation to another agent, as a tool.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_harness::Messages;
use singletree_llm::{ChatMessage, Role, ToolCall, ToolDefinition};

use crate::error::Result;
use crate::profile::AgentProfile;

const PREFIX: &str = "transfer_to_";
const TRANSFERRED: &str = "transferred";

/// One agent that the conversation can be handed to, as the model of another one is told of it.
#[derive(Debug, Clone)]
pub(crate) struct HandOffTool {
    /// The id of the agent.
    pub(crate) to: String,
    pub(crate) definition: ToolDefinition,
    name: String,
}

impl HandOffTool {
    /// Makes the tool `transfer_to_NAME` of an agent.
    pub(crate) fn for_agent(agent: &AgentProfile) -> Result<Self> {
        let about =
            agent.description.as_deref().map(|description| format!(" {description}")).unwrap_or_default();
        let description = format!(
            "Hands the conversation over to {}, who answers from here on.{about} Say why; ask nothing else in the same message.",
            agent.name
        );
        let parameters = json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "description": "Why, for who takes over." } },
            "additionalProperties": false,
        });
        let definition =
            ToolDefinition::with_generated_schema(&hand_off_tool_name(agent), &description, parameters)?;
        Ok(Self { to: agent.id.clone(), definition, name: agent.name.clone() })
    }

    /// Returns the answer to the call.
    pub(crate) fn answer_call(&self, call: &ToolCall) -> String {
        let reason =
            call.arguments.as_ref().and_then(|arguments| arguments.get("reason")).and_then(|it| it.as_str());
        let mut answer = json!({ "status": TRANSFERRED, "to": self.name, "agent": self.to });
        if let Some(reason) = reason {
            answer["reason"] = reason.into();
        }
        answer.to_string()
    }
}

/// Finds whom a conversation was handed to last, as far as it is held: the id of the agent.
pub(crate) fn find_last_hand_off(messages: &Messages) -> Option<String> {
    let mut answers: Vec<Arc<ChatMessage>> = Vec::new();
    for message in messages.iter().rev() {
        if message.role == Role::Tool {
            answers.push(message);
            continue;
        }
        let calls = message.tool_calls.iter().filter(|tool_call| tool_call.name.starts_with(PREFIX));
        let mut taken = calls.filter_map(|call| {
            let answer = answers.iter().find(|answer| answer.tool_call_id.as_ref() == Some(&call.id))?;
            let answer: Value = serde_json::from_str(&answer.text()).ok()?;
            let agent = answer["agent"].as_str().filter(|_| answer["status"] == TRANSFERRED)?;
            Some(agent.to_owned())
        });
        if let Some(agent) = taken.next() {
            return Some(agent);
        }
        answers.clear();
    }
    None
}

/// Returns the answer to a second hand-off of the same message.
pub(crate) fn refuse_second_hand_off() -> String {
    json!({ "status": "failed", "reason": "the conversation was handed over already" }).to_string()
}

/// Returns the name of the tool, of the characters that providers accept in a name.
fn hand_off_tool_name(agent: &AgentProfile) -> String {
    let name = agent.slug.as_deref().unwrap_or(&agent.name);
    let name = name.to_lowercase();
    let plain = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    format!("{PREFIX}{}", plain.take(48).collect::<String>())
}
