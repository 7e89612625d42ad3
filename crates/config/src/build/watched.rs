//! A server of which is told when its tools cannot be had.

use std::error::Error as _;

use singletree_llm::BoxFuture;
use singletree_mcp::McpServer;
use singletree_tools::{Error, Offer, Toolset};

use crate::unoffered::{UnofferedReporter, UnofferedTools};

/// A server, as it is, that tells when none of its tools is offered. One that is away and whose tools are known
/// offers them still, and nobody is told.
#[derive(Debug)]
pub(crate) struct MonitoredServer {
    server: McpServer,
    teller: UnofferedReporter,
}

impl MonitoredServer {
    pub(crate) fn new(server: McpServer, teller: UnofferedReporter) -> Self {
        Self { server, teller }
    }
}

impl Toolset for MonitoredServer {
    fn name(&self) -> &str {
        self.server.name()
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        Box::pin(async {
            let offer = self.server.offer_tools().await;
            match &offer {
                Ok(_) => self.teller.clear_server_reasons(),
                Err(error) => {
                    self.teller.report_unoffered(&describe_unoffered_server(self.server.name(), error))
                }
            }
            offer
        })
    }
}

/// Describes why a server cannot be used: the cause of the error that a model would be told.
pub(crate) fn describe_unoffered_server(server: &str, error: &Error) -> UnofferedTools {
    let why = error.source().map_or_else(|| error.to_string(), singletree_engine::format_error_chain);
    let beneath = error.source().and_then(|source| source.downcast_ref::<singletree_mcp::Error>());
    let said = beneath.and_then(singletree_mcp::Error::last_stderr_lines);
    let last = said.and_then(|said| said.lines().rfind(|line| !line.trim().is_empty()));
    UnofferedTools {
        server: server.to_owned(),
        tool: None,
        why,
        hint: last.map(|last| format!("it last said: {}", last.trim())),
    }
}
