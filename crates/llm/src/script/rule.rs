//! One rule: its conditions, and its answer.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use super::answer::ScriptedAnswer;
use super::pattern::{Captures, TextPattern};
use super::situation::{RuleRequestView, ToolResultView};
use crate::fault::InvalidField;

/// A rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptRule {
    pub(super) when: RuleConditions,
    pub(super) then: ScriptedAnswer,
}

/// The conditions of a rule, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleConditions {
    pub(super) user: Option<Vec<TextPattern>>,
    pub(super) earlier_user: Option<Vec<TextPattern>>,
    pub(super) system: Option<Vec<TextPattern>>,
    pub(super) results: ExpectedResults,
    pub(super) answered: Option<usize>,
}

/// Which tool results must follow the last user message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExpectedResults {
    /// Whatever there is, also nothing.
    Any,
    /// Exactly these, in order.
    Exactly(Vec<ExpectedToolResult>),
}

/// One expected tool result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedToolResult {
    tool: String,
    #[serde(default)]
    content: Option<TextPattern>,
}

impl Default for ExpectedResults {
    fn default() -> Self {
        Self::Exactly(Vec::new())
    }
}

impl<'de> Deserialize<'de> for ExpectedResults {
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

impl ScriptRule {
    /// Checks that the answer uses only names that the conditions capture.
    pub(super) fn check_rule(&self) -> Result<(), InvalidField> {
        let mut known = BTreeSet::from(["turn"]);
        let results = match &self.when.results {
            ExpectedResults::Any => Vec::new(),
            ExpectedResults::Exactly(list) => list.iter().filter_map(|item| item.content.as_ref()).collect(),
        };
        let alternatives = [
            ("when.user", &self.when.user),
            ("when.earlier_user", &self.when.earlier_user),
            ("when.system", &self.when.system),
        ];
        for (place, patterns) in alternatives {
            let Some(patterns) = patterns else { continue };
            for name in common_capture_names(patterns).map_err(|error| error.nest_under(place))? {
                add_capture_name(&mut known, name).map_err(|error| error.nest_under(place))?;
            }
        }
        for name in results.into_iter().flat_map(TextPattern::capture_names) {
            add_capture_name(&mut known, name).map_err(|error| error.nest_under("when.results"))?;
        }
        self.then.check_answer(&known).map_err(|error| error.nest_under("then"))
    }

    /// Returns the texts that the conditions captured, if all of them hold.
    pub(super) fn match_request(&self, situation: &RuleRequestView<'_>) -> Option<Captures> {
        let when = &self.when;
        if when.answered.is_some_and(|answered| answered != situation.answered) {
            return None;
        }
        let (last, earlier) = situation.users.split_last()?;
        let mut captures = Captures::from([("turn".to_owned(), situation.users.len().to_string())]);
        if let Some(patterns) = &when.user {
            captures.extend(match_first_pattern(patterns, last)?);
        }
        if let Some(patterns) = &when.earlier_user {
            captures.extend(earlier.iter().rev().find_map(|text| match_first_pattern(patterns, text))?);
        }
        if let Some(patterns) = &when.system {
            captures.extend(match_first_pattern(patterns, situation.system.as_deref()?)?);
        }
        if let ExpectedResults::Exactly(expected) = &when.results {
            captures.extend(match_tool_results(expected, &situation.results)?);
        }
        Some(captures)
    }
}

fn match_first_pattern(patterns: &[TextPattern], text: &str) -> Option<Captures> {
    patterns.iter().find_map(|pattern| pattern.match_text(text))
}

fn match_tool_results(expected: &[ExpectedToolResult], found: &[ToolResultView<'_>]) -> Option<Captures> {
    if expected.len() != found.len() {
        return None;
    }
    let mut captures = Captures::new();
    for (expected, found) in expected.iter().zip(found) {
        if expected.tool != found.tool {
            return None;
        }
        if let Some(pattern) = &expected.content {
            captures.extend(pattern.match_text(&found.content)?);
        }
    }
    Some(captures)
}

fn common_capture_names(patterns: &[TextPattern]) -> Result<BTreeSet<&str>, InvalidField> {
    let mut sets = patterns.iter().map(|pattern| pattern.capture_names().collect::<BTreeSet<_>>());
    let Some(names) = sets.next() else {
        return Err(InvalidField::at_path("", "needs at least one pattern"));
    };
    if sets.any(|set| set != names) {
        return Err(InvalidField::at_path("", "all patterns of a list must keep the same names"));
    }
    Ok(names)
}

fn add_capture_name<'a>(known: &mut BTreeSet<&'a str>, name: &'a str) -> Result<(), InvalidField> {
    if known.insert(name) {
        Ok(())
    } else {
        Err(InvalidField::at_path("", format!("{{{name}}} is kept twice")))
    }
}
