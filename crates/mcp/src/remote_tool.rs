//! One tool of a server, as any other tool.

use std::fmt;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use rmcp::model::{CallToolResult, Tool as Listing};
use singletree_llm::{BoxFuture, ToolDefinition};
use singletree_tools::{Effect, Invocation, Output, Recovery, Tool, ToolLimits};
use tokio::time::timeout;

use crate::answer::convert_call_result;
use crate::connection::McpConnection;
use crate::error::Error;
use crate::limits::McpLimits;
use crate::pinned::PinComparison;
use crate::server::McpServerInner;

/// One tool of a server.
///
/// Every call is sent once. Before a call that must not be repeated the server is pinged, so that a server that died
/// unnoticed is started again first and the outcome of the call stays certain. When the server goes away during a call
/// whose recovery is [`Recovery::Rerun`], the call is sent once more, under the same key; any other call ends as
/// `tool_interrupted`, with an unknown outcome.
pub(crate) struct RemoteMcpTool {
    /// Not held: the server keeps its tools, and is stopped when nobody holds it.
    shared: Weak<McpServerInner>,
    server: String,
    limits: McpLimits,
    definition: ToolDefinition,
    /// The server's own name of it.
    name: String,
    effect: Effect,
    recovery: Recovery,
    /// The notice for the approval of a call: that the definition has changed.
    notice: Option<String>,
}

impl RemoteMcpTool {
    pub(crate) fn new(
        shared: &Arc<McpServerInner>,
        definition: ToolDefinition,
        listing: &Listing,
        pinned: &PinComparison,
    ) -> Self {
        let notice = match pinned {
            PinComparison::Same => None,
            PinComparison::Changed { notice } => Some(notice.clone()),
        };
        let (effect, recovery) = shared.judgement.judge_tool(listing, notice.is_some());
        Self {
            shared: Arc::downgrade(shared),
            server: shared.terms.server.clone(),
            limits: shared.terms.limits,
            definition,
            name: listing.name.to_string(),
            effect,
            recovery,
            notice,
        }
    }

    async fn run_call(&self, invocation: Invocation<'_>) -> singletree_tools::Result<Output> {
        let Some(shared) = self.shared.upgrade() else {
            return Err(unreachable_server_error(&self.server, None));
        };
        let mut lost = None;
        let mut in_doubt = self.recovery == Recovery::Report;
        loop {
            let connection = match (shared.ensure_connection().await, lost.take()) {
                (Ok(connection), before) => {
                    lost = before;
                    connection
                }
                (Err(error), None) => return Err(unavailable_tool_error(error)),
                // The failure to reconnect says nothing about the effect of the earlier call.
                (Err(_), Some(before)) => return Err(interrupted_call_error(before)),
            };
            // Once: a server that always dies after its greeting is not started for ever.
            if std::mem::take(&mut in_doubt) && !connection.is_alive().await {
                continue;
            }
            match self.send_call(&connection, invocation).await? {
                Ok(result) => return convert_call_result(&result),
                Err(error @ Error::Lost { .. }) => {
                    let again = self.recovery == Recovery::Rerun && connection.is_worth_repeating();
                    if !again || lost.is_some() {
                        return Err(interrupted_call_error(error));
                    }
                    lost = Some(error);
                }
                Err(error) => return Err(refused_call_error(error)),
            }
        }
    }

    /// Sends the call once.
    async fn send_call(
        &self,
        connection: &McpConnection,
        invocation: Invocation<'_>,
    ) -> singletree_tools::Result<Result<CallToolResult, Error>> {
        let limit = self.limits.call;
        let called = connection.call_tool(&self.name, invocation);
        timeout(limit, called).await.map_err(|_elapsed| singletree_tools::Error::Timeout { limit })
    }
}

impl Tool for RemoteMcpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn on_unknown_outcome(&self) -> Recovery {
        self.recovery
    }

    fn approval_notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server)
    }

    fn limits(&self) -> Option<ToolLimits> {
        let limits = &self.limits;
        // A cold server is started within the call.
        Some(ToolLimits { time: limits.connect + limits.call, output_bytes: limits.output_bytes })
    }

    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, singletree_tools::Result<Output>> {
        self.run_call(invocation).boxed()
    }
}

impl fmt::Debug for RemoteMcpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteMcpTool")
            .field("server", &self.server)
            .field("name", &self.name)
            .field("effect", &self.effect)
            .field("recovery", &self.recovery)
            .finish_non_exhaustive()
    }
}

/// Says to a model that the server cannot be reached; why stands beneath, for people.
pub(crate) fn unavailable_tool_error(error: Error) -> singletree_tools::Error {
    let server = server_of_error(&error).to_owned();
    unreachable_server_error(&server, Some(error))
}

fn unreachable_server_error(server: &str, error: Option<Error>) -> singletree_tools::Error {
    let problem = format!("the server {server:?} of this tool cannot be reached now; nothing was done");
    let source = error.map(|error| Box::new(error) as singletree_tools::BoxError);
    singletree_tools::Error::Unavailable { problem, source }
}

fn interrupted_call_error(error: Error) -> singletree_tools::Error {
    let problem = match &error {
        Error::Lost { server, problem, .. } => {
            format!("the server {server:?} of this tool went away while it ran: {problem}")
        }
        other => other.to_string(),
    };
    singletree_tools::Error::Interrupted { problem, source: Some(Box::new(error)) }
}

fn refused_call_error(error: Error) -> singletree_tools::Error {
    singletree_tools::Error::failed_with_source(error.to_string(), error)
}

fn server_of_error(error: &Error) -> &str {
    match error {
        Error::Configuration { server, .. }
        | Error::Connect { server, .. }
        | Error::Timeout { server, .. }
        | Error::Lost { server, .. }
        | Error::Refused { server, .. } => server,
    }
}
