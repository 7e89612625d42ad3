//! Checks of the parts of a file against each other.

use std::collections::BTreeSet;

use singletree_harness::Durability;
use singletree_tools::Effect;

use crate::agent::AgentTable;
use crate::approval::{ApprovalTable, parse_effect};
use crate::build::reachable_agents;
use crate::file::ConfigFile;
use crate::model::ModelTable;
use crate::report::{MistakeCollector, MistakeKind};
use crate::section::{is_valid_name, printable_name};
use crate::selector::{self, ToolSelector};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;

/// Finds everything that is wrong between the parts of a file.
pub(crate) fn check_consistency(file: &ConfigFile, faults: &MistakeCollector) {
    let checked = ConfigChecker { file, faults };
    checked.check_servers();
    checked.check_whole_file();
    for agent in &file.agents {
        checked.check_agent(agent);
    }
    file.campaigns.check_against_file(file, faults);
}

/// How long the name of a server may be, and that of a tool as a model calls it.
const SERVER_BYTES: usize = 32;
const TOOL_BYTES: usize = 64;

struct ConfigChecker<'a> {
    file: &'a ConfigFile,
    faults: &'a MistakeCollector,
}

impl<'a> ConfigChecker<'a> {
    /// Server names and the names in their tables.
    fn check_servers(&self) {
        for server in &self.file.servers {
            let name = server.name.value.as_str();
            let taken = selector::selector_names(&[]).any(|it| it == name) || parse_effect(name).is_some();
            if taken || ToolSelector::from_name(name, &[]).is_ok() {
                let what = format!("no server can be called `{name}`: that is another tool's name");
                self.faults.add_mistake(server.name.at, MistakeKind::Contradiction, what);
            }
            if name.len() > SERVER_BYTES || name.contains("__") {
                let what = format!(
                    "no server can be called `{name}`: its tools would have no name that models take"
                );
                let hint = format!("use at most {SERVER_BYTES} letters, and no two `_` in a row");
                self.faults.add_with_hint(server.name.at, MistakeKind::Value, what, hint);
            }
            for tool in server.tools.iter().flatten() {
                self.check_tool_name(name, tool, &tool.value);
            }
            let Some(tools) = &server.tools else { continue };
            for (tool, _) in &server.effects {
                if tool.value != "*" && tools.iter().all(|it| it.value != tool.value) {
                    let what = format!(
                        "`mcp.{name}.effects` names `{}`, which is not among its tools",
                        printable_name(&tool.value)
                    );
                    let hint = did_you_mean(&tool.value, tools.iter().map(|tool| tool.value.as_str()));
                    self.faults.add_with_hint(tool.at, MistakeKind::UnknownName, what, hint);
                }
            }
        }
    }

    /// A tool of a server can be named by itself only where a model calls it by that name, too.
    fn check_tool_name(&self, server: &str, name: &LocatedValue<String>, tool: &str) {
        if tool.is_empty() || !is_valid_name(tool) || server.len() + 2 + tool.len() > TOOL_BYTES {
            let what = format!("the tool `{}` of `{server}` cannot be named by itself", printable_name(tool));
            let hint =
                "only names of letters, digits, `_` and `-`, not too long; list the whole server instead"
                    .to_owned();
            self.faults.add_with_hint(name.at, MistakeKind::Value, what, hint);
        }
    }

    /// Checks the rules that hold for the whole file.
    fn check_whole_file(&self) {
        let agents = || self.file.agents.iter().map(|agent| agent.name.value.as_str());
        if self.file.agents.is_empty() {
            let hint =
                "write `[agents.NAME]` with its `instructions`; `singletree init` shows how".to_owned();
            self.faults.add_with_hint(0, MistakeKind::Missing, "there is no agent", hint);
        }
        for (index, agent) in self.file.agents.iter().enumerate() {
            // A hand-off is a tool, and its name knows neither case nor dash.
            let alike = |it: &&AgentTable| {
                normalized_agent_name(&it.name.value) == normalized_agent_name(&agent.name.value)
            };
            if let Some(other) = self.file.agents[..index].iter().find(alike) {
                let what =
                    format!("`{}` is too much like `{}` for agents", agent.name.value, other.name.value);
                self.faults.add_mistake(agent.name.at, MistakeKind::Contradiction, what);
            }
        }
        if let Some(name) = &self.file.default_agent {
            self.check_known_name("default_agent", name, agents());
        }
        for (name, _) in self.file.telemetry.iter().flat_map(|telemetry| &telemetry.agent_shares) {
            self.check_known_name("telemetry.shares", name, agents());
        }
        if let Some(approval) = &self.file.approval {
            let all: Vec<ToolSelector<'_>> = selector::selector_names(&self.file.servers)
                .filter_map(|name| ToolSelector::from_name(name, &self.file.servers).ok())
                .collect();
            self.check_approval(approval, "approval", &all);
        }
    }

    fn check_known_name<'n>(
        &self,
        key: &str,
        name: &LocatedValue<String>,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        if !known.clone().any(|item| item == name.value) {
            let what = format!("`{key}` names `{}`, which is not there", printable_name(&name.value));
            self.faults.add_with_hint(
                name.at,
                MistakeKind::UnknownName,
                what,
                did_you_mean(&name.value, known),
            );
        }
    }

    fn check_agent(&self, agent: &'a AgentTable) {
        let name = &agent.name.value;
        self.check_model_name(agent);
        let tools = self.resolve_agent_tools(agent);
        let selectors: Vec<ToolSelector<'_>> = tools.iter().map(|tool| tool.value).collect();
        for other in &agent.hand_offs {
            if other.value == *name {
                let what = format!("`agents.{name}.hand_offs` names the agent itself");
                self.faults.add_mistake(other.at, MistakeKind::Contradiction, what);
            } else {
                let agents = self.file.agents.iter().map(|agent| agent.name.value.as_str());
                self.check_known_name(
                    &format!("agents.{name}.hand_offs"),
                    other,
                    agents.filter(|agent| agent != name),
                );
            }
        }
        if let Some(approval) = &agent.approval {
            self.check_approval(approval, &format!("agents.{name}.approval"), &selectors);
        }
        self.check_destructive_tools(agent, &tools);
        // Of whom the conversation may come to, too: all of them are one graph.
        let changes = reachable_agents(self.file, agent).into_iter().any(|it| self.has_changing_tools(it));
        if let Some(durability) =
            agent.durability.as_ref().filter(|durability| durability.value == Durability::Turn && changes)
        {
            let what =
                format!("`agents.{name}` has tools that change something, which need durability \"step\"");
            let hint = "leave `durability` out: it follows from the tools".to_owned();
            self.faults.add_with_hint(durability.at, MistakeKind::Durability, what, hint);
        }
    }

    /// Says whether an agent's tools may change something; those of servers may change anything.
    fn has_changing_tools(&self, agent: &AgentTable) -> bool {
        agent
            .tools
            .iter()
            .filter_map(|tool| ToolSelector::from_name(&tool.value, &self.file.servers).ok())
            .any(|tool| match tool {
                ToolSelector::Server(_) | ToolSelector::ServerTool(..) => true,
                ToolSelector::Builtin(_) | ToolSelector::Tool { .. } => {
                    tool.tool_effects(&self.file.servers).into_iter().any(Effect::has_side_effects)
                }
            })
    }

    fn check_model_name(&self, agent: &AgentTable) {
        let models = || self.file.models.iter().map(|model| model.name.value.as_str());
        let name = &agent.name.value;
        match (&agent.model, self.file.models.as_slice()) {
            (Some(model), _) => self.check_known_name(&format!("agents.{name}.model"), model, models()),
            (None, [_]) => {}
            (None, []) => {
                let hint = "write `[models.NAME]` with its `wire`; `singletree init` shows how".to_owned();
                self.faults.add_with_hint(agent.name.at, MistakeKind::Missing, "there is no model", hint);
            }
            (None, _) => {
                let known: Vec<String> = models().map(|it| format!("`{it}`")).collect();
                let what = format!("`agents.{name}.model` is missing, and there are several models");
                self.faults.add_with_hint(
                    agent.name.at,
                    MistakeKind::Missing,
                    what,
                    format!("there is {}", known.join(", ")),
                );
            }
        }
    }

    /// Finds the tools that an agent's names mean.
    fn resolve_agent_tools(&self, agent: &'a AgentTable) -> Vec<LocatedValue<ToolSelector<'a>>> {
        let mut found: Vec<LocatedValue<ToolSelector<'a>>> = Vec::new();
        for name in &agent.tools {
            match ToolSelector::from_name(&name.value, &self.file.servers) {
                Ok(selector) => {
                    if let ToolSelector::ServerTool(index, tool) = selector {
                        self.check_tool_name(&self.file.servers[index].name.value, name, tool);
                    }
                    if let Some(other) = found
                        .iter()
                        .find(|item| item.value.overlaps_with(selector) || selector.overlaps_with(item.value))
                    {
                        let (line, other) = (&agent.name.value, self.tool_name_at(agent, other.at));
                        let what = format!(
                            "`agents.{line}.tools` has `{}` already, by `{other}`",
                            printable_name(&name.value)
                        );
                        self.faults.add_mistake(name.at, MistakeKind::Contradiction, what);
                        continue;
                    }
                    found.push(LocatedValue::new(selector, name.at));
                }
                Err(hint) => {
                    let key = format!("agents.{}.tools", agent.name.value);
                    let what = format!("`{key}` names `{}`, which is not there", printable_name(&name.value));
                    self.faults.add_with_hint(name.at, MistakeKind::UnknownName, what, hint);
                }
            }
        }
        found
    }

    fn tool_name_at(&self, agent: &'a AgentTable, at: usize) -> &'a str {
        agent.tools.iter().find(|tool| tool.at == at).map_or("", |tools| tools.value.as_str())
    }

    /// Names in `ask` and `trust`: of effects and of tools that are there.
    fn check_approval(&self, approval: &ApprovalTable, key: &str, tools: &[ToolSelector<'_>]) {
        let asked: Vec<&LocatedValue<String>> = approval.asked_tool_names().collect();
        for (list, name) in
            asked.iter().map(|it| ("ask", *it)).chain(approval.trust.iter().map(|it| ("trust", it)))
        {
            let found = ToolSelector::from_name(&name.value, &self.file.servers);
            if let Ok(ToolSelector::ServerTool(index, tool)) = found {
                self.check_tool_name(&self.file.servers[index].name.value, name, tool);
            }
            let is_there = found.is_ok_and(|found| {
                tools.iter().any(|tool| tool.overlaps_with(found) || found.overlaps_with(*tool))
            });
            if !is_there {
                let what =
                    format!("`{key}.{list}` names `{}`, which is no tool here", printable_name(&name.value));
                let words = if list == "ask" {
                    ["read", "safe_write", "destructive", "local"].as_slice()
                } else {
                    &[]
                };
                let names = self.selectable_names(tools);
                let hint =
                    did_you_mean(&name.value, words.iter().copied().chain(names.iter().map(String::as_str)));
                self.faults.add_with_hint(name.at, MistakeKind::UnknownName, what, hint);
            }
        }
        for name in &approval.trust {
            if asked.iter().any(|it| it.value == name.value) {
                let what = format!("`{key}` both asks about `{}` and trusts it", printable_name(&name.value));
                self.faults.add_mistake(name.at, MistakeKind::Contradiction, what);
            }
        }
    }

    /// Returns the names by which tools can be meant.
    fn selectable_names(&self, tools: &[ToolSelector<'_>]) -> BTreeSet<String> {
        let name = |it: &ToolSelector<'_>| match *it {
            ToolSelector::Builtin(builtin) => [builtin.name]
                .into_iter()
                .chain(builtin.tools.iter().map(|(it, _)| *it))
                .map(str::to_owned)
                .collect(),
            ToolSelector::Tool { name, .. } => vec![name.to_owned()],
            ToolSelector::Server(index) => vec![self.file.servers[index].name.value.clone()],
            ToolSelector::ServerTool(index, tool) => {
                vec![format!("{}.{tool}", self.file.servers[index].name.value)]
            }
        };
        tools.iter().flat_map(name).collect()
    }

    /// Finds tools that cannot be undone and that nobody is asked about.
    fn check_destructive_tools(&self, agent: &AgentTable, tools: &[LocatedValue<ToolSelector<'_>>]) {
        let approval = agent.approval.as_ref().or(self.file.approval.as_ref());
        let Some(approval) = approval else { return };
        if approval.effects_to_approve().contains(&Effect::Destructive) {
            return;
        }
        let servers = &self.file.servers;
        // Who is named is asked about, or trusted: both are a decision.
        let named: Vec<&LocatedValue<String>> = approval.asked_tool_names().chain(&approval.trust).collect();
        let decided = |tool: ToolSelector<'_>| {
            named
                .iter()
                .any(|item| ToolSelector::from_name(&item.value, servers).is_ok_and(|it| it.covers(tool)))
        };
        for tool in tools {
            for one in single_tools(tool.value) {
                let destructive = one.tool_effects(servers).contains(&Effect::Destructive);
                if !destructive || decided(one) {
                    continue;
                }
                let name = self.selectable_name(one);
                let agent = &agent.name.value;
                let what =
                    format!("`agents.{agent}` may run `{name}`, which cannot be undone, and nobody is asked");
                let hint =
                    format!("put \"destructive\" into `approval.ask`, or \"{name}\" into `approval.trust`");
                self.faults.add_with_hint(tool.at, MistakeKind::Unapproved, what, hint);
            }
        }
    }

    fn selectable_name(&self, tool: ToolSelector<'_>) -> String {
        self.selectable_names(&[tool]).into_iter().next_back().unwrap_or_default()
    }
}

fn normalized_agent_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_").chars().take(48).collect()
}

/// Returns the single tools of a built-in; of a server nobody knows them here.
fn single_tools(selector: ToolSelector<'_>) -> Vec<ToolSelector<'_>> {
    match selector {
        ToolSelector::Builtin(builtin) => {
            let tool = |(name, effect): &(&'static str, Effect)| ToolSelector::Tool {
                builtin,
                name,
                effect: *effect,
            };
            builtin.tools.iter().map(tool).collect()
        }
        ToolSelector::Tool { .. } | ToolSelector::Server(_) | ToolSelector::ServerTool(..) => vec![selector],
    }
}

/// Finds the model of an agent: the one it names, or the only one.
pub(crate) fn model_of_agent<'f>(file: &'f ConfigFile, agent: &AgentTable) -> Option<&'f ModelTable> {
    match &agent.model {
        Some(name) => file.models.iter().find(|model| model.name.value == name.value),
        None => file.models.first(),
    }
}
