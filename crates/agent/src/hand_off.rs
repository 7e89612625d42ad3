//! Handing the conversation to another agent, as a tool.

use serde_json::json;
use singletree_llm::{ToolCall, ToolDefinition};

use crate::chat_agent::ChatAgent;
use crate::error::Result;

/// One agent that the conversation can be handed to, as the model of another one is told of it.
#[derive(Debug, Clone)]
pub(crate) struct HandOff {
    /// The id of the agent.
    pub(crate) to: String,
    pub(crate) definition: ToolDefinition,
    name: String,
}

impl HandOff {
    /// Makes the tool `transfer_to_NAME` of an agent.
    pub(crate) fn to(agent: &ChatAgent) -> Result<Self> {
        let about = agent.description.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
        let description = format!(
            "Hands the conversation over to {}, who answers from here on.{about} Say why; ask nothing else in the same message.",
            agent.name
        );
        let parameters = json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "description": "Why, for who takes over." } },
            "additionalProperties": false,
        });
        let definition = ToolDefinition::generated(&tool_name(agent), &description, parameters)?;
        Ok(Self { to: agent.id.clone(), definition, name: agent.name.clone() })
    }

    /// Returns what the call is answered.
    pub(crate) fn answer(&self, call: &ToolCall) -> String {
        let reason = call.arguments.as_ref().and_then(|it| it.get("reason")).and_then(|it| it.as_str());
        let mut answer = json!({ "status": "transferred", "to": self.name });
        if let Some(reason) = reason {
            answer["reason"] = reason.into();
        }
        answer.to_string()
    }
}

/// Returns what a second hand-off of the same message is answered.
pub(crate) fn refused() -> String {
    json!({ "status": "failed", "reason": "the conversation was handed over already" }).to_string()
}

/// Names the tool: of what providers take in a name, and nothing else.
fn tool_name(agent: &ChatAgent) -> String {
    let name = agent.slug.as_deref().unwrap_or(&agent.name);
    let name = name.to_lowercase();
    let plain = name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' });
    format!("transfer_to_{}", plain.take(48).collect::<String>())
}
