//! `[agents.NAME]`: an agent, its model and tools, and its permissions.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree_harness::{Budget, Durability, OnDisconnect, TurnPromptPolicy, WhileSuspended};

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
    /// Which texts reach the model in new sessions that say nothing else.
    pub(crate) prompt_policy: Option<TurnPromptPolicy>,
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

const PROMPT_POLICIES: &[(&str, TurnPromptPolicy)] =
    &[("conversation", TurnPromptPolicy::Conversation), ("command", TurnPromptPolicy::Command)];

impl AgentTable {
    /// Makes an agent of a name and nothing else.
    pub(crate) fn with_name_only(name: LocatedValue<String>) -> Self {
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
            prompt_policy: None,
            hidden: false,
            repairs: None,
            replies: None,
            show_thinking: false,
        }
    }

    pub(crate) fn from_section((name, mut section): (LocatedValue<String>, TableReader<'_>)) -> Self {
        let instructions = section.read_text("instructions");
        let prompt = read_named_prompt(&mut section);
        if let (Some(instructions), Some(prompt)) = (&instructions, &prompt) {
            let at = instructions.at.max(prompt.name.at);
            let what = format!(
                "`{}` has both instructions and a prompt",
                section.qualified_key("").trim_end_matches('.')
            );
            let hint = "keep one: a prompt is instructions that stand in a file of their own".to_owned();
            section.mistakes().add_with_hint(at, MistakeKind::Contradiction, what, hint);
        }
        if section.take_raw_value("instructions").is_none() && section.take_raw_value("prompt").is_none() {
            section.report_missing_key(
                "instructions",
                "say what the agent is for: `instructions = \"…\"` or `prompt = \"NAME\"`",
            );
        }
        let (budget, model_calls) = section.open_section("budget").map(read_budget).unwrap_or_default();
        let agent = Self {
            name,
            model: section.read_text("model"),
            instructions: instructions.map(|it| it.value),
            forbidden: section.read_text("forbidden").map(|text| text.value),
            prompt,
            title: section.read_text("title").map(|text| text.value),
            description: section.read_text("description").map(|text| text.value),
            icon: section.read_icon("icon"),
            color: section.read_color("color"),
            examples: section
                .read_text_list("examples")
                .unwrap_or_default()
                .into_iter()
                .map(|text| text.value)
                .collect(),
            tools: remove_duplicate_names(
                section.read_text_list("tools").unwrap_or_default(),
                &section,
                "tools",
            ),
            hand_offs: remove_duplicate_names(
                section.read_text_list("hand_offs").unwrap_or_default(),
                &section,
                "hand_offs",
            ),
            approval: section.open_section("approval").map(ApprovalTable::from_section),
            budget,
            model_calls,
            window: section.read_count("window", 1).map(|count| count.value),
            compaction: section.open_section("compaction").map(CompactionTable::from_section),
            durability: section.read_choice("durability", DURABILITIES),
            while_suspended: section
                .read_choice("while_suspended", WHILE_SUSPENDED)
                .map(|choice| choice.value),
            on_disconnect: section.read_choice("on_disconnect", ON_DISCONNECT).map(|policy| policy.value),
            prompt_policy: section.read_choice("prompt_policy", PROMPT_POLICIES).map(|policy| policy.value),
            hidden: section.read_flag("hidden").unwrap_or(false),
            repairs: section.read_count("repairs", 0).map(|count| count.value),
            replies: section.open_section("replies").map(RepliesTable::from_section),
            show_thinking: section.read_flag("show_thinking").unwrap_or(false),
        };
        if let (Some(compaction), Some(_)) = (&agent.compaction, agent.window) {
            let what = format!("`{}` says nothing beside a compaction", section.qualified_key("window"));
            let hint = "`compaction.keep` says how many messages the model sees as they are".to_owned();
            section.mistakes().add_with_hint(compaction.at, MistakeKind::Contradiction, what, hint);
        }
        section.report_unknown_keys();
        agent
    }
}

/// Reports names that occur twice as mistakes, and keeps each once.
fn remove_duplicate_names(
    names: Vec<LocatedValue<String>>,
    section: &TableReader<'_>,
    key: &str,
) -> Vec<LocatedValue<String>> {
    let mut kept: Vec<LocatedValue<String>> = Vec::new();
    for name in names {
        if kept.iter().any(|item| item.value == name.value) {
            let what = format!(
                "`{}` names `{}` twice",
                section.qualified_key(key),
                crate::section::printable_name(&name.value)
            );
            section.mistakes().add_mistake(name.at, MistakeKind::Contradiction, what);
        } else {
            kept.push(name);
        }
    }
    kept
}

/// `prompt = "NAME"`, or `prompt = { name = "NAME", label = "production", variables = { … } }`.
fn read_named_prompt(section: &mut TableReader<'_>) -> Option<NamedPrompt> {
    let (at, value) = section.take_raw_value("prompt")?;
    if value.get_ref().is_str() {
        let name = section.read_text("prompt")?;
        return Some(NamedPrompt { name, label: None, variables: Map::new() });
    }
    let Some(table) = value.get_ref().as_table() else {
        section.report_unfit_value("prompt", value, "the name of a prompt, or a table with its `name`");
        return None;
    };
    let mut inner = TableReader::new(table, at, section.qualified_key("prompt"), section.mistakes());
    let (name, label) = (inner.read_text("name"), inner.read_text("label").map(|text| text.value));
    let variables = inner.read_json_object("variables").unwrap_or_default();
    if inner.take_raw_value("name").is_none() {
        inner.report_missing_key("name", "the name of a file in the folder of prompts, without its ending");
    }
    inner.report_unknown_keys();
    Some(NamedPrompt { name: name?, label, variables })
}

fn read_budget(mut section: TableReader<'_>) -> (Budget, Option<u64>) {
    let count = |section: &mut TableReader<'_>, key| section.read_count(key, 1).map(|count| count.value);
    let time: Option<Duration> = section.read_duration("turn_time");
    let budget = Budget {
        steps: count(&mut section, "steps"),
        tool_calls: count(&mut section, "tool_calls"),
        tokens: count(&mut section, "tokens"),
        turn_time: time,
        messages: count(&mut section, "messages"),
        history_bytes: section.read_byte_count("history_bytes"),
    };
    let model_calls = count(&mut section, "model_calls");
    section.report_unknown_keys();
    (budget, model_calls)
}
