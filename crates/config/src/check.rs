//! Checks of the parts of a file against each other.

use std::collections::BTreeSet;

use singletree_harness::Durability;
use singletree_tools::Effect;

use crate::agent::AgentTable;
use crate::approval::{ApprovalTable, effect};
use crate::build::reachable;
use crate::file::ConfigFile;
use crate::model::ModelTable;
use crate::report::{MistakeCollector, MistakeKind};
use crate::section::{is_name, shown};
use crate::selector::{self, ToolSelector};
use crate::spot::LocatedValue;
use crate::suggest::did_you_mean;

/// Finds everything that is wrong between the parts of a file.
pub(crate) fn check(file: &ConfigFile, faults: &MistakeCollector) {
    let checked = ConfigChecker { file, faults };
    checked.servers();
    checked.defaults();
    for agent in &file.agents {
        checked.agent(agent);
    }
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
    fn servers(&self) {
        for server in &self.file.servers {
            let name = server.name.value.as_str();
            let taken = selector::names(&[]).any(|it| it == name) || effect(name).is_some();
            if taken || ToolSelector::find(name, &[]).is_ok() {
                let what = format!("no server can be called `{name}`: that is another tool's name");
                self.faults.plain(server.name.at, MistakeKind::Contradiction, what);
            }
            if name.len() > SERVER_BYTES || name.contains("__") {
                let what = format!(
                    "no server can be called `{name}`: its tools would have no name that models take"
                );
                let hint = format!("use at most {SERVER_BYTES} letters, and no two `_` in a row");
                self.faults.add(server.name.at, MistakeKind::Value, what, hint);
            }
            for tool in server.tools.iter().flatten() {
                self.nameable(name, tool, &tool.value);
            }
            let Some(tools) = &server.tools else { continue };
            for (tool, _) in &server.effects {
                if tool.value != "*" && tools.iter().all(|it| it.value != tool.value) {
                    let what = format!(
                        "`mcp.{name}.effects` names `{}`, which is not among its tools",
                        shown(&tool.value)
                    );
                    let hint = did_you_mean(&tool.value, tools.iter().map(|tool| tool.value.as_str()));
                    self.faults.add(tool.at, MistakeKind::UnknownName, what, hint);
                }
            }
        }
    }

    /// A tool of a server can be named by itself only where a model calls it by that name, too.
    fn nameable(&self, server: &str, name: &LocatedValue<String>, tool: &str) {
        if tool.is_empty() || !is_name(tool) || server.len() + 2 + tool.len() > TOOL_BYTES {
            let what = format!("the tool `{}` of `{server}` cannot be named by itself", shown(tool));
            let hint =
                "only names of letters, digits, `_` and `-`, not too long; list the whole server instead"
                    .to_owned();
            self.faults.add(name.at, MistakeKind::Value, what, hint);
        }
    }

    /// Checks the rules that hold for the whole file.
    fn defaults(&self) {
        let agents = || self.file.agents.iter().map(|agent| agent.name.value.as_str());
        if self.file.agents.is_empty() {
            let hint =
                "write `[agents.NAME]` with its `instructions`; `singletree init` shows how".to_owned();
            self.faults.add(0, MistakeKind::Missing, "there is no agent", hint);
        }
        for (index, agent) in self.file.agents.iter().enumerate() {
            // A hand-off is a tool, and its name knows neither case nor dash.
            let alike = |it: &&AgentTable| plain(&it.name.value) == plain(&agent.name.value);
            if let Some(other) = self.file.agents[..index].iter().find(alike) {
                let what =
                    format!("`{}` is too much like `{}` for agents", agent.name.value, other.name.value);
                self.faults.plain(agent.name.at, MistakeKind::Contradiction, what);
            }
        }
        if let Some(name) = &self.file.default_agent {
            self.known("default_agent", name, agents());
        }
        if let Some(approval) = &self.file.approval {
            let all: Vec<ToolSelector<'_>> = selector::names(&self.file.servers)
                .filter_map(|name| ToolSelector::find(name, &self.file.servers).ok())
                .collect();
            self.approval(approval, "approval", &all);
        }
    }

    fn known<'n>(
        &self,
        key: &str,
        name: &LocatedValue<String>,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        if !known.clone().any(|item| item == name.value) {
            let what = format!("`{key}` names `{}`, which is not there", shown(&name.value));
            self.faults.add(name.at, MistakeKind::UnknownName, what, did_you_mean(&name.value, known));
        }
    }

    fn agent(&self, agent: &'a AgentTable) {
        let name = &agent.name.value;
        self.model(agent);
        let tools = self.tools(agent);
        let selectors: Vec<ToolSelector<'_>> = tools.iter().map(|tool| tool.value).collect();
        for other in &agent.hand_offs {
            if other.value == *name {
                let what = format!("`agents.{name}.hand_offs` names the agent itself");
                self.faults.plain(other.at, MistakeKind::Contradiction, what);
            } else {
                let agents = self.file.agents.iter().map(|agent| agent.name.value.as_str());
                self.known(&format!("agents.{name}.hand_offs"), other, agents.filter(|agent| agent != name));
            }
        }
        if let Some(approval) = &agent.approval {
            self.approval(approval, &format!("agents.{name}.approval"), &selectors);
        }
        self.unapproved(agent, &tools);
        // Of whom the conversation may come to, too: all of them are one graph.
        let changes = reachable(self.file, agent).into_iter().any(|it| self.changes(it));
        if let Some(durability) =
            agent.durability.as_ref().filter(|durability| durability.value == Durability::Turn && changes)
        {
            let what =
                format!("`agents.{name}` has tools that change something, which need durability \"step\"");
            let hint = "leave `durability` out: it follows from the tools".to_owned();
            self.faults.add(durability.at, MistakeKind::Durability, what, hint);
        }
    }

    /// Says whether an agent's tools may change something; those of servers may change anything.
    fn changes(&self, agent: &AgentTable) -> bool {
        agent.tools.iter().filter_map(|tool| ToolSelector::find(&tool.value, &self.file.servers).ok()).any(
            |tool| match tool {
                ToolSelector::Server(_) | ToolSelector::ServerTool(..) => true,
                ToolSelector::Builtin(_) | ToolSelector::Tool { .. } => {
                    tool.effects(&self.file.servers).into_iter().any(Effect::changes)
                }
            },
        )
    }

    fn model(&self, agent: &AgentTable) {
        let models = || self.file.models.iter().map(|model| model.name.value.as_str());
        let name = &agent.name.value;
        match (&agent.model, self.file.models.as_slice()) {
            (Some(model), _) => self.known(&format!("agents.{name}.model"), model, models()),
            (None, [_]) => {}
            (None, []) => {
                let hint = "write `[models.NAME]` with its `wire`; `singletree init` shows how".to_owned();
                self.faults.add(agent.name.at, MistakeKind::Missing, "there is no model", hint);
            }
            (None, _) => {
                let known: Vec<String> = models().map(|it| format!("`{it}`")).collect();
                let what = format!("`agents.{name}.model` is missing, and there are several models");
                self.faults.add(
                    agent.name.at,
                    MistakeKind::Missing,
                    what,
                    format!("there is {}", known.join(", ")),
                );
            }
        }
    }

    /// Finds the tools that an agent's names mean.
    fn tools(&self, agent: &'a AgentTable) -> Vec<LocatedValue<ToolSelector<'a>>> {
        let mut found: Vec<LocatedValue<ToolSelector<'a>>> = Vec::new();
        for name in &agent.tools {
            match ToolSelector::find(&name.value, &self.file.servers) {
                Ok(selector) => {
                    if let ToolSelector::ServerTool(index, tool) = selector {
                        self.nameable(&self.file.servers[index].name.value, name, tool);
                    }
                    if let Some(other) =
                        found.iter().find(|item| item.value.meets(selector) || selector.meets(item.value))
                    {
                        let (line, other) = (&agent.name.value, self.called(agent, other.at));
                        let what = format!(
                            "`agents.{line}.tools` has `{}` already, by `{other}`",
                            shown(&name.value)
                        );
                        self.faults.plain(name.at, MistakeKind::Contradiction, what);
                        continue;
                    }
                    found.push(LocatedValue::new(selector, name.at));
                }
                Err(hint) => {
                    let key = format!("agents.{}.tools", agent.name.value);
                    let what = format!("`{key}` names `{}`, which is not there", shown(&name.value));
                    self.faults.add(name.at, MistakeKind::UnknownName, what, hint);
                }
            }
        }
        found
    }

    fn called(&self, agent: &'a AgentTable, at: usize) -> &'a str {
        agent.tools.iter().find(|tool| tool.at == at).map_or("", |tools| tools.value.as_str())
    }

    /// Names in `ask` and `trust`: of effects and of tools that are there.
    fn approval(&self, approval: &ApprovalTable, key: &str, tools: &[ToolSelector<'_>]) {
        let asked: Vec<&LocatedValue<String>> = approval.asked().collect();
        for (list, name) in
            asked.iter().map(|it| ("ask", *it)).chain(approval.trust.iter().map(|it| ("trust", it)))
        {
            let found = ToolSelector::find(&name.value, &self.file.servers);
            if let Ok(ToolSelector::ServerTool(index, tool)) = found {
                self.nameable(&self.file.servers[index].name.value, name, tool);
            }
            let is_there =
                found.is_ok_and(|found| tools.iter().any(|tool| tool.meets(found) || found.meets(*tool)));
            if !is_there {
                let what = format!("`{key}.{list}` names `{}`, which is no tool here", shown(&name.value));
                let words = if list == "ask" {
                    ["read", "safe_write", "destructive", "local"].as_slice()
                } else {
                    &[]
                };
                let names = self.names(tools);
                let hint =
                    did_you_mean(&name.value, words.iter().copied().chain(names.iter().map(String::as_str)));
                self.faults.add(name.at, MistakeKind::UnknownName, what, hint);
            }
        }
        for name in &approval.trust {
            if asked.iter().any(|it| it.value == name.value) {
                let what = format!("`{key}` both asks about `{}` and trusts it", shown(&name.value));
                self.faults.plain(name.at, MistakeKind::Contradiction, what);
            }
        }
    }

    /// Returns the names by which tools can be meant.
    fn names(&self, tools: &[ToolSelector<'_>]) -> BTreeSet<String> {
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
    fn unapproved(&self, agent: &AgentTable, tools: &[LocatedValue<ToolSelector<'_>>]) {
        let approval = agent.approval.as_ref().or(self.file.approval.as_ref());
        let Some(approval) = approval else { return };
        if approval.effects().contains(&Effect::Destructive) {
            return;
        }
        let servers = &self.file.servers;
        // Who is named is asked about, or trusted: both are a decision.
        let named: Vec<&LocatedValue<String>> = approval.asked().chain(&approval.trust).collect();
        let decided = |tool: ToolSelector<'_>| {
            named.iter().any(|item| ToolSelector::find(&item.value, servers).is_ok_and(|it| it.covers(tool)))
        };
        for tool in tools {
            for one in singles(tool.value) {
                let destructive = one.effects(servers).contains(&Effect::Destructive);
                if !destructive || decided(one) {
                    continue;
                }
                let name = self.called_tool(one);
                let agent = &agent.name.value;
                let what =
                    format!("`agents.{agent}` may run `{name}`, which cannot be undone, and nobody is asked");
                let hint =
                    format!("put \"destructive\" into `approval.ask`, or \"{name}\" into `approval.trust`");
                self.faults.add(tool.at, MistakeKind::Unapproved, what, hint);
            }
        }
    }

    fn called_tool(&self, tool: ToolSelector<'_>) -> String {
        self.names(&[tool]).into_iter().next_back().unwrap_or_default()
    }
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_").chars().take(48).collect()
}

/// Returns the single tools of a built-in; of a server nobody knows them here.
fn singles(selector: ToolSelector<'_>) -> Vec<ToolSelector<'_>> {
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
pub(crate) fn model_of<'f>(file: &'f ConfigFile, agent: &AgentTable) -> Option<&'f ModelTable> {
    match &agent.model {
        Some(name) => file.models.iter().find(|model| model.name.value == name.value),
        None => file.models.first(),
    }
}
