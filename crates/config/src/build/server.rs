//! MCP servers that are ready to be reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_mcp::{McpCommand, McpEndpoint, McpLimits, McpServer, McpServerBuilder};
use singletree_tools::{DefinitionPins, Toolset};

use super::AgentDependencies;
use super::picked::SelectedToolset;
use super::watched::MonitoredServer;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::resolve::ReadyServer;
use crate::server::{McpServerTable, ServerTransport};
use crate::unoffered::UnofferedReporter;

/// Makes the servers that agents use, by their place in the file. None is started: that happens when its tools are
/// first asked for. Agents that use one share it. Who is told of tools that are not offered is said by the means.
pub(crate) fn build_servers(
    config: &Config,
    means: &AgentDependencies,
) -> Result<BTreeMap<usize, BuiltServer>> {
    let mut servers = BTreeMap::new();
    for ready in &config.resolved.servers {
        if let Some(server) = build_monitored_server(config, ready, means)? {
            servers.insert(ready.index, server);
        }
    }
    Ok(servers)
}

/// A server that is ready to be reached, and the receiver of reports about tools that it does not offer.
#[derive(Debug, Clone)]
pub(crate) struct BuiltServer {
    pub(crate) tools: Arc<dyn Toolset>,
    pub(crate) teller: UnofferedReporter,
}

fn build_monitored_server(
    config: &Config,
    ready: &ReadyServer,
    means: &AgentDependencies,
) -> Result<Option<BuiltServer>> {
    let Some(table) = config.file.servers.get(ready.index) else { return Ok(None) };
    let pins = means.definition_pins.as_ref();
    let Some(server) = build_mcp_server(config, ready, pins)? else { return Ok(None) };
    let teller = UnofferedReporter::new(means.unoffered.clone());
    let watched: Arc<dyn Toolset> = Arc::new(MonitoredServer::new(server, teller.clone()));
    let tools = match &table.tools {
        Some(tools) => {
            let names = tools.iter().map(|tool| tool.value.clone());
            Arc::new(SelectedToolset::new(watched, names, teller.clone()))
        }
        None => watched,
    };
    Ok(Some(BuiltServer { tools, teller }))
}

/// Makes one server with all of its tools; none where the file does not say how it is reached.
pub(crate) fn build_mcp_server(
    config: &Config,
    ready: &ReadyServer,
    pins: Option<&Arc<dyn DefinitionPins>>,
) -> Result<Option<McpServer>> {
    let Some(table) = config.file.servers.get(ready.index) else { return Ok(None) };
    let name = table.name.value.as_str();
    let builder = match &table.reach {
        ServerTransport::Command { program, args, folder, .. } => {
            let folder =
                folder.as_ref().map_or_else(|| config.folder.clone(), |folder| config.resolve_path(folder));
            McpServer::program(name, server_command(&program.value, args, ready).working_folder(folder))
        }
        ServerTransport::Url { url, .. } => {
            let client = HttpClient::new(HttpLimits::standard())?;
            let endpoint = McpEndpoint::new(url.as_str(), &client);
            let header = |it: McpEndpoint, (name, value, _): &(String, Secret, bool)| {
                it.header(name.as_str(), value.clone())
            };
            McpServer::endpoint(name, ready.settings.iter().fold(endpoint, header))
        }
        ServerTransport::Unknown => return Ok(None),
    };
    let builder = if table.baggage { builder } else { builder.without_baggage() };
    let server = apply_tool_effects(builder.limits(server_limits(config, table)), table);
    let server = pins.cloned().into_iter().fold(server, McpServerBuilder::definition_pins).build();
    server.map(Some).map_err(|error| Error::Server { name: name.to_owned(), source: Box::new(error) })
}

/// A program gets the variables of the file, and of our own environment only those that it needs to be found and to
/// find its files.
fn server_command(program: &str, args: &[String], ready: &ReadyServer) -> McpCommand {
    let command = McpCommand::new(program, args.iter().map(String::as_str));
    let command =
        ready.inherited.iter().fold(command, |it, (name, value)| it.env(name.as_str(), value.as_str()));
    ready.settings.iter().fold(command, |it, (name, value, secret)| match secret {
        true => it.secret_env(name.as_str(), value.clone()),
        false => it.env(name.as_str(), value.expose()),
    })
}

fn apply_tool_effects(builder: McpServerBuilder, table: &McpServerTable) -> McpServerBuilder {
    // A server does not decide by itself which tools run unasked: the file does.
    let builder = if table.trust_hints { builder } else { builder.ignore_hints() };
    table.effects.iter().fold(builder, |it, (tool, effect)| it.effect(tool.value.as_str(), *effect))
}

fn server_limits(config: &Config, table: &McpServerTable) -> McpLimits {
    let mut limits = McpLimits::standard();
    limits.connect = table.start_time.unwrap_or(limits.connect);
    limits.call = table.call_time.unwrap_or(limits.call);
    if let Some(bytes) = config.file.tools.output_bytes {
        limits.output_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    limits
}
