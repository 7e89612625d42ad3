//! `approval`: which calls wait for a person.

use std::time::Duration;

use singletree_tools::Effect;

use crate::section::Section;
use crate::spot::At;

/// Which calls wait for a person, as the file has it.
#[derive(Debug, Clone)]
pub(crate) struct Approval {
    /// Effects, and names of tools.
    pub(crate) ask: Option<Vec<At<String>>>,
    /// Names of tools that are never asked about, whatever their effect.
    pub(crate) trust: Vec<At<String>>,
    pub(crate) expires: Option<Duration>,
}

/// The effects, by their words.
pub(crate) const EFFECTS: [(&str, Effect); 4] = [
    ("read", Effect::Read),
    ("safe_write", Effect::SafeWrite),
    ("destructive", Effect::Destructive),
    ("local", Effect::Local),
];

impl Approval {
    pub(crate) fn read(mut section: Section<'_>) -> Self {
        let approval = Self {
            ask: section.texts("ask"),
            trust: section.texts("trust").unwrap_or_default(),
            expires: section.duration("expires"),
        };
        section.end();
        approval
    }

    /// Returns the effects that need an approval: only destructive ones, where the file does not say.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        match &self.ask {
            None => vec![Effect::Destructive],
            Some(ask) => ask.iter().filter_map(|it| effect(&it.value)).collect(),
        }
    }

    /// Returns the names in `ask` that are no effects.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &At<String>> {
        self.ask.iter().flatten().filter(|it| effect(&it.value).is_none())
    }
}

/// Reads the word of an effect.
pub(crate) fn effect(word: &str) -> Option<Effect> {
    EFFECTS.iter().find(|(it, _)| *it == word).map(|(_, effect)| *effect)
}
