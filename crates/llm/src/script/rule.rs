//! One rule: its conditions, and its answer.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use super::answer::Then;
use super::pattern::{Captures, Pattern};
use super::situation::{Answered, Situation};
use crate::fault::Fault;

/// A rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) when: When,
    pub(super) then: Then,
}

/// The conditions of a rule, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct When {
    pub(super) user: Option<Vec<Pattern>>,
    pub(super) earlier_user: Option<Vec<Pattern>>,
    pub(super) system: Option<Vec<Pattern>>,
    pub(super) results: Results,
    pub(super) answered: Option<usize>,
}

/// Which tool results must follow the last user message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Results {
    /// Whatever there is, also nothing.
    Any,
    /// Exactly these, in order.
    Exactly(Vec<Expected>),
}

/// One expected tool result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    tool: String,
    #[serde(default)]
    content: Option<Pattern>,
}

impl Default for Results {
    fn default() -> Self {
        Self::Exactly(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Results {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "any" => Ok(Self::Any),
            list @ Value::Array(_) => {
                serde_json::from_value(list).map(Self::Exactly).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("results must be \"any\" or a list")),
        }
    }
}

impl Rule {
    /// Checks that the answer uses only names that the conditions capture.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let mut known = BTreeSet::from(["turn"]);
        let results = match &self.when.results {
            Results::Any => Vec::new(),
            Results::Exactly(list) => list.iter().filter_map(|item| item.content.as_ref()).collect(),
        };
        let alternatives = [
            ("when.user", &self.when.user),
            ("when.earlier_user", &self.when.earlier_user),
            ("when.system", &self.when.system),
        ];
        for (place, patterns) in alternatives {
            let Some(patterns) = patterns else { continue };
            for name in kept_by_all(patterns).map_err(|error| error.under(place))? {
                learn(&mut known, name).map_err(|error| error.under(place))?;
            }
        }
        for name in results.into_iter().flat_map(Pattern::names) {
            learn(&mut known, name).map_err(|error| error.under("when.results"))?;
        }
        self.then.check(&known).map_err(|error| error.under("then"))
    }

    /// Returns the texts that the conditions captured, if all of them hold.
    pub(super) fn holds(&self, situation: &Situation<'_>) -> Option<Captures> {
        let when = &self.when;
        if when.answered.is_some_and(|answered| answered != situation.answered) {
            return None;
        }
        let (last, earlier) = situation.users.split_last()?;
        let mut captures = Captures::from([("turn".to_owned(), situation.users.len().to_string())]);
        if let Some(patterns) = &when.user {
            captures.extend(first(patterns, last)?);
        }
        if let Some(patterns) = &when.earlier_user {
            captures.extend(earlier.iter().rev().find_map(|text| first(patterns, text))?);
        }
        if let Some(patterns) = &when.system {
            captures.extend(first(patterns, situation.system.as_deref()?)?);
        }
        if let Results::Exactly(expected) = &when.results {
            captures.extend(results(expected, &situation.results)?);
        }
        Some(captures)
    }
}

fn first(patterns: &[Pattern], text: &str) -> Option<Captures> {
    patterns.iter().find_map(|pattern| pattern.matches(text))
}

fn results(expected: &[Expected], found: &[Answered<'_>]) -> Option<Captures> {
    if expected.len() != found.len() {
        return None;
    }
    let mut captures = Captures::new();
    for (expected, found) in expected.iter().zip(found) {
        if expected.tool != found.tool {
            return None;
        }
        if let Some(pattern) = &expected.content {
            captures.extend(pattern.matches(&found.content)?);
        }
    }
    Some(captures)
}

fn kept_by_all(patterns: &[Pattern]) -> Result<BTreeSet<&str>, Fault> {
    let mut sets = patterns.iter().map(|pattern| pattern.names().collect::<BTreeSet<_>>());
    let Some(names) = sets.next() else {
        return Err(Fault::at("", "needs at least one pattern"));
    };
    if sets.any(|set| set != names) {
        return Err(Fault::at("", "all patterns of a list must keep the same names"));
    }
    Ok(names)
}

fn learn<'a>(known: &mut BTreeSet<&'a str>, name: &'a str) -> Result<(), Fault> {
    if known.insert(name) { Ok(()) } else { Err(Fault::at("", format!("{{{name}}} is kept twice"))) }
}
