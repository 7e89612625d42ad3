//! Messages to others, kept by a store until somebody delivers them.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use singletree_llm::{BoxFuture, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::{Error, Result};
use crate::key::IdempotencyKey;
use crate::origin::CallOrigin;
use crate::output::Output;
use crate::tool::{Invocation, Tool};
use crate::typed::{ToolContext, TypedTool};

/// Keeps the messages that the agents of sessions send, until an operator delivers them.
///
/// # Contract
///
/// - Messages belong to the tenant and the session of the origin (INV-14) and are deleted with the session (D25).
/// - A message that was put without an error is durable.
/// - One message per key: a second call with the key of a message that is or was there changes nothing and succeeds
///   (D7).
/// - The store bounds the bytes that a session and a tenant may keep.
pub trait OutboxStore: fmt::Debug + Send + Sync {
    /// Puts a message into the outbox.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the outbox of the session or of the tenant is full, or the store fails; `tool_unavailable`.
    ///
    /// # Cancellation
    ///
    /// A dropped call has put the message or has not.
    fn put_message<'a>(
        &'a self,
        origin: &'a CallOrigin,
        key: &'a IdempotencyKey,
        message: &'a OutboxMessage,
    ) -> BoxFuture<'a, Result<()>>;
}

/// A message in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutboxMessage {
    /// Who receives it.
    pub to: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it says.
    pub body: String,
}

/// Puts a message into the outbox of its session, for whoever delivers.
///
/// [`Effect::Destructive`], because a sent message cannot be taken back. A call that is run again under its
/// idempotency key has one effect. A call outside of a session is refused.
#[derive(Debug)]
pub struct OutboxTool(TypedTool);

impl OutboxTool {
    /// Makes the tool `send_message` over a store.
    ///
    /// # Errors
    ///
    /// `tool_definition_invalid` when the library refuses the schema.
    pub fn new(store: Arc<dyn OutboxStore>) -> Result<Self> {
        let send = move |message: OutboxMessage, context: ToolContext| {
            let store = Arc::clone(&store);
            async move { send_message(store.as_ref(), &message, &context).await }
        };
        let description = "Sends a message to someone. It cannot be taken back.";
        let tool = TypedTool::new("send_message", description, Effect::Destructive, send)?;
        Ok(Self(tool.with_recovery(Recovery::Rerun)))
    }
}

impl Tool for OutboxTool {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.0.on_unknown_outcome()
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>> {
        self.0.call(invocation)
    }
}

async fn send_message(
    store: &dyn OutboxStore,
    message: &OutboxMessage,
    context: &ToolContext,
) -> Result<Output> {
    if message.to.trim().is_empty() || message.to.contains(char::is_control) {
        let problem = "`to` must be one line of text".to_owned();
        return Err(Error::Arguments { problem });
    }
    store.put_message(context.session_origin()?, &context.key, message).await?;
    Ok(Output::text(format!("Sent to {}.", message.to)))
}
