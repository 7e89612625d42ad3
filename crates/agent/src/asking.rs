//! The assistant message that asks for tools, and how its calls are named.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use singletree_engine::Identity;
use singletree_llm::{ChatMessage, ToolCall};
use singletree_tools::IdempotencyKey;

use crate::state::AgentState;

/// The last message of a conversation, when it is one of the model that asks for tools.
#[derive(Debug, Clone)]
pub(crate) struct ToolCallMessage {
    pub(crate) message: Arc<ChatMessage>,
    /// Its position in the history.
    pub(crate) position: u64,
    /// Its number among the model's messages of this invocation, from 0.
    pub(crate) ordinal: u64,
    /// Which run of the loop it is of, where that is a subgraph.
    scope: Option<String>,
}

/// Where records of calls begin that are made inside of a subgraph: positions in its own history must not be taken for
/// positions in the session's.
const INSIDE: u64 = 1 << 62;

impl ToolCallMessage {
    /// Looks at the end of a conversation.
    pub(crate) fn from_agent_state(state: &AgentState) -> Option<Self> {
        let messages = &state.messages;
        let message = messages.last().filter(|message| !message.tool_calls.is_empty())?;
        let (position, ordinal) = (messages.len() - 1, state.answers.saturating_sub(1));
        Some(Self { message, position, ordinal, scope: state.scope.clone() })
    }

    /// Returns the calls with their indexes.
    pub(crate) fn indexed_calls(&self) -> impl Iterator<Item = (u64, &ToolCall)> {
        (0..).zip(&self.message.tool_calls)
    }

    /// Returns a call by its index.
    pub(crate) fn call_at_index(&self, index: u64) -> Option<&ToolCall> {
        usize::try_from(index).ok().and_then(|it| self.message.tool_calls.get(it))
    }

    /// Returns the position under which its calls are recorded.
    pub(crate) fn record_position(&self) -> u64 {
        if self.scope.is_some() { INSIDE + self.position } else { self.position }
    }

    /// Makes the key under which a call has its effect once (D7).
    pub(crate) fn idempotency_key(&self, who: &Identity, call: u64) -> IdempotencyKey {
        let session = who.session_id.as_ref().map_or("", |session_id| session_id.as_str());
        match &self.scope {
            None => IdempotencyKey::new(session, &who.correlation_id, self.ordinal, call),
            Some(scope) => {
                let correlation = format!("{}/{scope}", who.correlation_id);
                IdempotencyKey::new(session, &correlation, self.ordinal, call)
            }
        }
    }

    /// Digests the exact action that a call is: this tool with these arguments, here and only here (D2).
    pub(crate) fn digest_action(&self, who: &Identity, index: u64, call: &ToolCall) -> String {
        // Objects of JSON values keep their keys sorted, at any depth: equal arguments are equal text.
        let arguments = call.arguments.clone().map_or(Value::Null, Value::Object).to_string();
        digest_parts(&[&call.name, &arguments, self.idempotency_key(who, index).as_str()])
    }

    /// Names the signal that decides about a call: short, for people type it; the same whenever it is asked for again.
    pub(crate) fn signal_name(&self, who: &Identity, index: u64) -> String {
        let (ordinal, index) = (self.ordinal.to_string(), index.to_string());
        let scope = self.scope.as_deref().unwrap_or_default();
        let digest = match scope {
            "" => digest_parts(&[who.invocation_id.as_str(), &ordinal, &index]),
            scope => digest_parts(&[who.invocation_id.as_str(), scope, &ordinal, &index]),
        };
        format!("apr-{}", &digest[..10])
    }
}

fn digest_parts(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts run into the same bytes.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
