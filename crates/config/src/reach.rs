//! Whether MCP servers can be had, and have the tools that the file names.

use std::collections::BTreeSet;

use singletree_tools::Toolset;

use crate::build;
use crate::config::Config;
use crate::report::{MistakeCollector, MistakeKind};
use crate::resolve::ReadyServer;
use crate::section::printable_name;
use crate::selector::ToolSelector;
use crate::suggest::did_you_mean;

/// A mistake at a place of the file.
#[derive(Debug)]
pub(crate) struct ServerMistake {
    at: usize,
    kind: MistakeKind,
    what: String,
    hint: Option<String>,
}

impl ServerMistake {
    pub(crate) fn report_to(self, faults: &MistakeCollector) {
        faults.add_with_hint(self.at, self.kind, self.what, self.hint);
    }
}

impl Config {
    /// Starts or reaches the servers that agents use, one after the other, asks for their tools and stops them again.
    /// Those at the places in `absent` are known not to be there.
    ///
    /// # Cancellation
    /// Dropping the future stops the servers that were started.
    pub(crate) async fn reach_servers(&self, absent: &BTreeSet<usize>) -> Vec<ServerMistake> {
        let mut unmet = Vec::new();
        for ready in self.resolved.servers.iter().filter(|server| !absent.contains(&server.index)) {
            unmet.extend(self.check_server_tools(ready).await);
        }
        unmet
    }

    async fn check_server_tools(&self, ready: &ReadyServer) -> Vec<ServerMistake> {
        let Some(table) = self.file.servers.get(ready.index) else { return Vec::new() };
        // Why one cannot even be made was told before.
        let Ok(Some(server)) = build::build_mcp_server(self, ready, None) else { return Vec::new() };
        let name = table.name.value.as_str();
        let offer = server.offer_tools().await;
        server.disconnect().await;
        let tools = match offer {
            Ok(tools) => tools,
            Err(error) => {
                let unoffered = build::describe_unoffered_server(name, &error);
                let (what, hint) = (format!("`mcp.{name}`: {}", unoffered.why), unoffered.hint);
                return vec![ServerMistake { at: table.name.at, kind: MistakeKind::Unavailable, what, hint }];
            }
        };
        let prefix = build::model_tool_name(name, "");
        let known: BTreeSet<&str> =
            tools.iter().filter_map(|tool| tool.definition().name().strip_prefix(&prefix)).collect();
        let named =
            self.named_server_tools(ready.index).into_iter().filter(|(_, tool)| !known.contains(tool));
        let unknown = named.map(|(at, tool)| ServerMistake {
            at,
            kind: MistakeKind::UnknownName,
            what: format!("the server `{name}` has no tool `{}`", printable_name(tool)),
            hint: did_you_mean(tool, known.iter().copied()),
        });
        unknown.collect()
    }

    /// Returns where the file names single tools of a server, and which.
    fn named_server_tools(&self, index: usize) -> Vec<(usize, &str)> {
        let file = &self.file;
        let table = &file.servers[index];
        let effects = table.effects.iter().map(|(tool, _)| tool).filter(|it| it.value != "*");
        let listed = table.tools.iter().flatten().chain(effects).map(|tool| (tool.at, tool.value.as_str()));
        let approvals =
            file.approval.iter().chain(file.agents.iter().filter_map(|agent| agent.approval.as_ref()));
        let decided = approvals.flat_map(|approval| approval.asked_tool_names().chain(&approval.trust));
        let selectors = file.agents.iter().flat_map(|agent| &agent.tools).chain(decided);
        let selected =
            selectors.filter_map(|selector| match ToolSelector::from_name(&selector.value, &file.servers) {
                // Of a server whose tools are listed that list was looked at.
                Ok(ToolSelector::ServerTool(at, tool)) if at == index && table.tools.is_none() => {
                    Some((selector.at, tool))
                }
                _ => None,
            });
        listed.chain(selected).collect()
    }
}
