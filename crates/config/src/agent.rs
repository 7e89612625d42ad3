//! `[agents.NAME]`: an agent, its model and tools, and its permissions.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree_harness::{Budget, Durability, OnDisconnect, WhileSuspended};

use crate::approval::ApprovalTable;
use crate::compaction::CompactionTable;
use crate::replies::RepliesTable;
use crate::report::MistakeKind;
use crate::section::TableReader;
use crate::spot::LocatedValue;

/// An agent, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct AgentTable {
    pub(crate) name: LocatedValue<String>,
    pub(crate) model: Option<LocatedValue<String>>,
    pub(crate) instructions: Option<String>,
    pub(crate) forbidden: Option<String>,
    pub(crate) prompt: Option<NamedPrompt>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// For front ends: an emoji or a few letters.
    pub(crate) icon: Option<String>,
    pub(crate) color: Option<String>,
    /// Suggestions for a person's first message.
    pub(crate) examples: Vec<String>,
    pub(crate) tools: Vec<LocatedValue<String>>,
    pub(crate) hand_offs: Vec<LocatedValue<String>>,
    pub(crate) approval: Option<ApprovalTable>,
    pub(crate) budget: Budget,
    pub(crate) model_calls: Option<u64>,
    pub(crate) window: Option<u64>,
    pub(crate) compaction: Option<CompactionTable>,
    pub(crate) durability: Option<LocatedValue<Durability>>,
    pub(crate) while_suspended: Option<WhileSuspended>,
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) hidden: bool,
    /// The maximum number of consecutive answers of its model that are sent back for a repair.
    pub(crate) repairs: Option<u64>,
    pub(crate) replies: Option<RepliesTable>,
    /// Whether people see its model's thinking.
    pub(crate) show_thinking: bool,
}

/// A prompt by its name.
#[derive(Debug, Clone)]
pub(crate) struct NamedPrompt {
    pub(crate) name: LocatedValue<String>,
    pub(crate) label: Option<String>,
    pub(crate) variables: Map<String, Value>,
}

const DURABILITIES: &[(&str, Durability)] = &[("turn", Durability::Turn), ("step", Durability::Step)];

const WHILE_SUSPENDED: &[(&str, WhileSuspended)] = &[
    ("reject", WhileSuspended::Reject),
    ("queue", WhileSuspended::Queue),
    ("supersede", WhileSuspended::Supersede),
];

const ON_DISCONNECT: &[(&str, OnDisconnect)] =
    &[("continue", OnDisconnect::Continue), ("cancel", OnDisconnect::Cancel)];

impl AgentTable {
    /// Makes an agent of a name and nothing else.
    pub(crate) fn bare(name: LocatedValue<String>) -> Self {
        Self {
            name,
            model: None,
            instructions: None,
            forbidden: None,
            prompt: None,
            title: None,
            description: None,
            icon: None,
            color: None,
            examples: Vec::new(),
            tools: Vec::new(),
            hand_offs: Vec::new(),
            approval: None,
            budget: Budget::default(),
            model_calls: None,
            window: None,
            compaction: None,
            durability: None,
            while_suspended: None,
            on_disconnect: None,
            hidden: false,
            repairs: None,
            replies: None,
            show_thinking: false,
        }
    }

    pub(crate) fn read((name, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let instructions = section.text("instructions");
        let prompt = prompt(&mut section);
        if let (Some(instructions), Some(prompt)) = (&instructions, &prompt) {
            let at = instructions.at.max(prompt.name.at);
            let what =
                format!("`{}` has both instructions and a prompt", section.called("").trim_end_matches('.'));
            let hint = "keep one: a prompt is instructions that stand in a file of their own".to_owned();
            section.faults().add(at, MistakeKind::Contradiction, what, hint);
        }
        if section.raw("instructions").is_none() && section.raw("prompt").is_none() {
            section.missing(
                "instructions",
                "say what the agent is for: `instructions = \"…\"` or `prompt = \"NAME\"`",
            );
        }
        let (budget, model_calls) = section.section("budget").map(budget).unwrap_or_default();
        let agent = Self {
            name,
            model: section.text("model"),
            instructions: instructions.map(|it| it.value),
            forbidden: section.text("forbidden").map(|text| text.value),
            prompt,
            title: section.text("title").map(|text| text.value),
            description: section.text("description").map(|text| text.value),
            icon: section.icon("icon"),
            color: section.color("color"),
            examples: section
                .texts("examples")
                .unwrap_or_default()
                .into_iter()
                .map(|text| text.value)
                .collect(),
            tools: once(section.texts("tools").unwrap_or_default(), &section, "tools"),
            hand_offs: once(section.texts("hand_offs").unwrap_or_default(), &section, "hand_offs"),
            approval: section.section("approval").map(ApprovalTable::read),
            budget,
            model_calls,
            window: section.count("window", 1).map(|count| count.value),
            compaction: section.section("compaction").map(CompactionTable::read),
            durability: section.choice("durability", DURABILITIES),
            while_suspended: section.choice("while_suspended", WHILE_SUSPENDED).map(|choice| choice.value),
            on_disconnect: section.choice("on_disconnect", ON_DISCONNECT).map(|policy| policy.value),
            hidden: section.flag("hidden").unwrap_or(false),
            repairs: section.count("repairs", 0).map(|count| count.value),
            replies: section.section("replies").map(RepliesTable::read),
            show_thinking: section.flag("show_thinking").unwrap_or(false),
        };
        if let (Some(compaction), Some(_)) = (&agent.compaction, agent.window) {
            let what = format!("`{}` says nothing beside a compaction", section.called("window"));
            let hint = "`compaction.keep` says how many messages the model sees as they are".to_owned();
            section.faults().add(compaction.at, MistakeKind::Contradiction, what, hint);
        }
        section.end();
        agent
    }
}

/// Reports names that occur twice as mistakes, and keeps each once.
fn once(names: Vec<LocatedValue<String>>, section: &TableReader<'_>, key: &str) -> Vec<LocatedValue<String>> {
    let mut kept: Vec<LocatedValue<String>> = Vec::new();
    for name in names {
        if kept.iter().any(|item| item.value == name.value) {
            let what =
                format!("`{}` names `{}` twice", section.called(key), crate::section::shown(&name.value));
            section.faults().plain(name.at, MistakeKind::Contradiction, what);
        } else {
            kept.push(name);
        }
    }
    kept
}

/// `prompt = "NAME"`, or `prompt = { name = "NAME", label = "production", variables = { … } }`.
fn prompt(section: &mut TableReader<'_>) -> Option<NamedPrompt> {
    let (at, value) = section.raw("prompt")?;
    if value.get_ref().is_str() {
        let name = section.text("prompt")?;
        return Some(NamedPrompt { name, label: None, variables: Map::new() });
    }
    let Some(table) = value.get_ref().as_table() else {
        section.unfit("prompt", value, "the name of a prompt, or a table with its `name`");
        return None;
    };
    let mut inner = TableReader::new(table, at, section.called("prompt"), section.faults());
    let (name, label) = (inner.text("name"), inner.text("label").map(|text| text.value));
    let variables = inner.object("variables").unwrap_or_default();
    if inner.raw("name").is_none() {
        inner.missing("name", "the name of a file in the folder of prompts, without its ending");
    }
    inner.end();
    Some(NamedPrompt { name: name?, label, variables })
}

fn budget(mut section: TableReader<'_>) -> (Budget, Option<u64>) {
    let count = |section: &mut TableReader<'_>, key| section.count(key, 1).map(|count| count.value);
    let time: Option<Duration> = section.duration("turn_time");
    let budget = Budget {
        steps: count(&mut section, "steps"),
        tool_calls: count(&mut section, "tool_calls"),
        tokens: count(&mut section, "tokens"),
        turn_time: time,
        messages: count(&mut section, "messages"),
        history_bytes: section.bytes("history_bytes"),
    };
    let model_calls = count(&mut section, "model_calls");
    section.end();
    (budget, model_calls)
}
