//! The names by which agents and approvals mean tools.
//!
//! `notes` is a built-in with all its tools, `notes_add` one of them; `files` is an MCP server with all its tools,
//! `files.read_file` one of them.

use singletree_tools::Effect;

use crate::server::McpServerTable;
use crate::suggest::{did_you_mean, nearest_word};
use crate::tool::{BUILTINS, BuiltinToolset};

/// The meaning of a name in an agent's `tools`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolSelector<'a> {
    /// All tools of a built-in.
    Builtin(BuiltinToolset),
    /// One tool of a built-in.
    Tool { builtin: BuiltinToolset, name: &'static str, effect: Effect },
    /// All tools of the server at this place.
    Server(usize),
    /// One tool of the server at this place.
    ServerTool(usize, &'a str),
}

impl<'a> ToolSelector<'a> {
    /// Finds the meaning of a name; else returns a suggestion.
    pub(crate) fn from_name(name: &'a str, servers: &[McpServerTable]) -> Result<Self, Option<String>> {
        if let Some(builtin) = BUILTINS.iter().find(|it| it.name == name) {
            return Ok(Self::Builtin(*builtin));
        }
        for builtin in BUILTINS {
            if let Some((name, effect)) = builtin.tools.iter().find(|(it, _)| *it == name) {
                return Ok(Self::Tool { builtin, name, effect: *effect });
            }
        }
        let (server, tool) = match name.split_once('.') {
            Some((server, tool)) => (server, Some(tool)),
            None => (name, None),
        };
        let Some(index) = servers.iter().position(|it| it.name.value == server) else {
            let tools = BUILTINS.iter().flat_map(|it| it.tools).map(|(it, _)| *it);
            if let Some(near) = nearest_word(name, selector_names(servers).chain(tools)) {
                return Err(Some(format!("did you mean `{near}`?")));
            }
            let known: Vec<&str> = selector_names(servers).collect();
            return Err(did_you_mean(name, known.iter().copied()));
        };
        match tool {
            None => Ok(Self::Server(index)),
            Some(tool) => match &servers[index].tools {
                Some(tools) if tools.iter().all(|it| it.value != tool) => {
                    Err(did_you_mean(tool, tools.iter().map(|tool| tool.value.as_str())))
                }
                Some(_) | None => Ok(Self::ServerTool(index, tool)),
            },
        }
    }

    /// Returns the effects that its tools may have.
    pub(crate) fn tool_effects(self, servers: &[McpServerTable]) -> Vec<Effect> {
        match self {
            Self::Builtin(builtin) => builtin.tools.iter().map(|(_, effect)| *effect).collect(),
            Self::Tool { effect, .. } => vec![effect],
            Self::Server(index) => servers[index].possible_effects(),
            Self::ServerTool(index, tool) => vec![servers[index].effect_of_tool(tool)],
        }
    }

    /// Says whether it means all that the other one means.
    pub(crate) fn covers(self, other: ToolSelector<'_>) -> bool {
        match (self, other) {
            (Self::Builtin(it), ToolSelector::Builtin(other)) => it.name == other.name,
            (Self::Builtin(it), ToolSelector::Tool { builtin, .. }) => it.name == builtin.name,
            (Self::Tool { name, .. }, ToolSelector::Tool { name: other, .. }) => name == other,
            // A built-in of one tool is that tool.
            (Self::Tool { name, .. }, ToolSelector::Builtin(other)) => {
                other.tools.len() == 1 && other.tools[0].0 == name
            }
            (Self::Server(it), ToolSelector::Server(other) | ToolSelector::ServerTool(other, _)) => {
                it == other
            }
            (Self::ServerTool(it, tool), ToolSelector::ServerTool(other, other_tool)) => {
                (it, tool) == (other, other_tool)
            }
            (
                Self::Builtin(_) | Self::Tool { .. },
                ToolSelector::Server(_) | ToolSelector::ServerTool(..),
            )
            | (
                Self::Server(_) | Self::ServerTool(..),
                ToolSelector::Builtin(_) | ToolSelector::Tool { .. },
            )
            | (Self::ServerTool(..), ToolSelector::Server(_)) => false,
        }
    }

    /// Says whether both mean a tool.
    pub(crate) fn overlaps_with(self, other: ToolSelector<'_>) -> bool {
        let narrower = match (self, other) {
            (Self::ServerTool(it, _), ToolSelector::Server(other)) => it == other,
            (Self::Tool { builtin, .. }, ToolSelector::Builtin(other)) => builtin.name == other.name,
            (Self::Builtin(_) | Self::Tool { .. } | Self::Server(_) | Self::ServerTool(..), _) => false,
        };
        narrower || self.covers(other)
    }
}

/// Returns the names that stand for all tools of something.
pub(crate) fn selector_names(servers: &[McpServerTable]) -> impl Iterator<Item = &str> {
    BUILTINS.iter().map(|it| it.name).chain(servers.iter().map(|server| server.name.value.as_str()))
}
