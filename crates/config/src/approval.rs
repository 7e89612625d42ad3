//! `approval`: which calls wait for a person.

use std::time::Duration;

use singletree_tools::Effect;

use crate::section::TableReader;
use crate::spot::LocatedValue;

/// Which calls wait for a person, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalTable {
    /// Effects, and names of tools.
    pub(crate) ask: Option<Vec<LocatedValue<String>>>,
    /// Names of tools that are never asked about, whatever their effect.
    pub(crate) trust: Vec<LocatedValue<String>>,
    pub(crate) expires: Option<Duration>,
}

/// The effects, by their words.
pub(crate) const EFFECTS: [(&str, Effect); 4] = [
    ("read", Effect::Read),
    ("safe_write", Effect::SafeWrite),
    ("destructive", Effect::Destructive),
    ("local", Effect::Local),
];

impl ApprovalTable {
    pub(crate) fn from_section(mut section: TableReader<'_>) -> Self {
        let approval = Self {
            ask: section.read_text_list("ask"),
            trust: section.read_text_list("trust").unwrap_or_default(),
            expires: section.read_duration("expires"),
        };
        section.report_unknown_keys();
        approval
    }

    /// Returns the effects that need an approval: only destructive ones, where the file does not say.
    pub(crate) fn effects_to_approve(&self) -> Vec<Effect> {
        match &self.ask {
            None => vec![Effect::Destructive],
            Some(ask) => ask.iter().filter_map(|it| parse_effect(&it.value)).collect(),
        }
    }

    /// Returns the names in `ask` that are no effects.
    pub(crate) fn asked_tool_names(&self) -> impl Iterator<Item = &LocatedValue<String>> {
        self.ask.iter().flatten().filter(|it| parse_effect(&it.value).is_none())
    }
}

/// Reads the word of an effect.
pub(crate) fn parse_effect(word: &str) -> Option<Effect> {
    EFFECTS.iter().find(|(it, _)| *it == word).map(|(_, effect)| *effect)
}
