//! A model made of data: rules over the request, and their answers.
//!
//! A script is JSON. It knows nothing but the request: no session, no clock, no counter. The same
//! request gets the same answer, and a changed tool result may change it. The first rule whose
//! conditions all hold answers; if none holds, the fallback does.
//!
//! ```json
//! {
//!   "model": "demo",
//!   "rules": [
//!     { "when": { "user": ["add {a} and {b}"] },
//!       "then": { "calls": [{ "tool": "calculator", "arguments": { "expression": "{a} + {b}" } }] } },
//!     { "when": { "user": ["add *"], "results": [{ "tool": "calculator", "content": "{sum}" }] },
//!       "then": { "reply": "That makes {sum}." } }
//!   ],
//!   "fallback": { "reply": "I am a demo and know only sums." }
//! }
//! ```
//!
//! # Conditions
//!
//! Each is optional, except that a rule without `results` wants none to be there, because else it
//! would answer its own tool calls for ever.
//!
//! - `user`: patterns, one of which fits the text of the last user message.
//! - `earlier_user`: patterns, one of which fits an earlier user message; the latest that fits.
//! - `system`: patterns, one of which fits the system message.
//! - `results`: the tool results after the last user message, all of them, in order, each with its
//!   tool and a pattern of its content; or `"any"`.
//! - `answered`: how many assistant messages the request holds.
//!
//! In a pattern `*` stands for any text and `{name}` for some text that is kept under that name.
//! The case of ASCII letters and surrounding space do not matter.
//!
//! # Answers
//!
//! `reply`, `calls`, `thinking`, `error`, `finish` and `delay_ms`, in any sensible mix. Texts and the strings in
//! arguments are templates: `{name}` is the text that the pattern captured, `{turn}` the number of user messages,
//! `{{` a brace. An `error` beside a `reply` breaks off the stream after it.

mod answer;
mod model;
mod pattern;
mod rule;
mod situation;
mod template;

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::{Error, ProviderErrorDetail, Result};
use crate::fault::InvalidField;

pub use model::ScriptedProvider;

use answer::ScriptedAnswer;
use rule::{ExpectedResults, RuleConditions, ScriptRule};

/// The rules of a scripted model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    model: String,
    rules: Vec<ScriptRule>,
    #[serde(default)]
    fallback: Option<ScriptedAnswer>,
}

impl Script {
    /// Reads a script and checks that every rule can be carried out.
    ///
    /// # Errors
    ///
    /// `script_invalid`, with line and column, or the rule by its index.
    pub fn from_json(text: &str) -> Result<Self> {
        let script: Self = serde_json::from_str(text).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Error::Script(
                ProviderErrorDetail::new(format!("the script does not read at {place}")).with_source(error),
            )
        })?;
        script.check_rules().map_err(|error| Error::Script(ProviderErrorDetail::new(error.to_string())))?;
        Ok(script)
    }

    /// Makes a script that gives these replies in turn, one per assistant message already there,
    /// whatever is asked. For tests.
    #[must_use]
    pub fn replies<S: Into<String>>(replies: impl IntoIterator<Item = S>) -> Self {
        let rules = replies
            .into_iter()
            .enumerate()
            .map(|(answered, reply)| ScriptRule {
                when: RuleConditions {
                    answered: Some(answered),
                    results: ExpectedResults::Any,
                    ..RuleConditions::default()
                },
                then: ScriptedAnswer::from_reply_template(template::escape_braces(&reply.into())),
            })
            .collect();
        Self { model: "script".to_owned(), rules, fallback: None }
    }

    fn check_rules(&self) -> Result<(), InvalidField> {
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check_rule().map_err(|error| error.nest_under(&format!("rules[{index}]")))?;
        }
        match &self.fallback {
            Some(then) => {
                then.check_answer(&BTreeSet::from(["turn"])).map_err(|error| error.nest_under("fallback"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
