//! Proofs: what shows that a task is done. The agent's word is none.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::plan::check_name;

/// The kind of the artifacts that answers of people become.
pub const ANSWER_KIND: &str = "answer";
/// How many bytes a question of a proof may have.
const QUESTION_BYTES: usize = 1 << 10;

/// What shows that a task is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Proof {
    /// A tool that changes something has succeeded: in this campaign, for this task, under this version of the plan,
    /// with these arguments. Arguments that are not named may be any.
    ToolSucceeded {
        /// The tool.
        tool: String,
        /// The arguments that a call must have.
        #[serde(default)]
        args: Map<String, Value>,
    },
    /// A person has approved an artifact.
    ArtifactApproved {
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
    },
    /// A tool of an MCP server that the operator lists reads what is expected, when the task is to be completed.
    McpRead {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments, exactly.
        #[serde(default)]
        args: Map<String, Value>,
        /// What the result must contain: objects may have more fields, everything else is equal.
        expect: Value,
    },
    /// A person who may approve has confirmed it.
    UserConfirmed {
        /// The question.
        question: String,
    },
}

/// What the operator permits as proof.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProofPolicy {
    /// The tools of MCP servers that may verify, as (server, tool): those that the operator lists. The hints of a
    /// server do not count.
    pub verify_tools: BTreeSet<(String, String)>,
    /// The tools that only read: their success proves nothing.
    pub reading_tools: BTreeSet<String>,
}

impl ProofPolicy {
    /// Checks that a proof may be one.
    pub(crate) fn check_proof(&self, task: &str, proof: &Proof) -> Result<()> {
        let refuse = |why: String| Err(Error::Proof { task: task.to_owned(), why });
        match proof {
            Proof::ToolSucceeded { tool, .. } if tool.is_empty() => refuse("it names no tool".to_owned()),
            Proof::ToolSucceeded { tool, .. } if self.reading_tools.contains(tool) => {
                refuse(format!("'{tool}' only reads, and its success proves nothing"))
            }
            Proof::ToolSucceeded { .. } => Ok(()),
            // Whoever may write answers a question: that is no approval.
            Proof::ArtifactApproved { kind, .. } if kind == ANSWER_KIND => {
                refuse(format!("an artifact of the kind '{ANSWER_KIND}' is not approved by anybody"))
            }
            Proof::ArtifactApproved { kind, key } => {
                let named = check_name(kind).and_then(|()| check_name(key));
                named.or_else(|error| refuse(error.to_string()))
            }
            Proof::McpRead { server, tool, .. } => {
                match self.verify_tools.contains(&(server.clone(), tool.clone())) {
                    true => Ok(()),
                    false => {
                        refuse(format!("the operator does not list '{tool}' of '{server}' to verify by"))
                    }
                }
            }
            Proof::UserConfirmed { question } => {
                match !question.trim().is_empty() && question.len() <= QUESTION_BYTES {
                    true => Ok(()),
                    false => refuse(format!("its question has 1 to {QUESTION_BYTES} bytes")),
                }
            }
        }
    }
}

impl Proof {
    /// Tells whether a successful call is this proof.
    pub(crate) fn is_found_in_call(&self, called: &str, arguments: &Map<String, Value>) -> bool {
        match self {
            Self::ToolSucceeded { tool, args } => {
                tool == called && args.iter().all(|(name, value)| arguments.get(name) == Some(value))
            }
            Self::ArtifactApproved { .. } | Self::McpRead { .. } | Self::UserConfirmed { .. } => false,
        }
    }

    /// Names it in a few words, for people and for the agent.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::ToolSucceeded { tool, .. } => format!("a successful call of {tool}"),
            Self::ArtifactApproved { kind, key } => format!("the approval of {kind}/{key}"),
            Self::McpRead { server, tool, .. } => format!("{tool} of {server} reads what is expected"),
            Self::UserConfirmed { question } => format!("a person confirms: {question}"),
        }
    }
}

/// Tells whether a read result has everything that is expected: an object has at least the expected fields, everything
/// else is equal.
#[must_use]
pub fn fits_expectation(result: &Value, expected: &Value) -> bool {
    match (result, expected) {
        (Value::Object(result), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| result.get(name).is_some_and(|result| fits_expectation(result, value))),
        (result, expected) => result == expected,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expectation_is_part_of_the_result() {
        let result = json!({ "state": "paid", "order": { "id": 7, "lines": [1, 2] } });
        for fits in [json!({}), json!({ "state": "paid" }), json!({ "order": { "id": 7 } })] {
            assert!(fits_expectation(&result, &fits), "{fits}");
        }
        for other in [
            json!(null),
            json!({ "state": "open" }),
            json!({ "order": { "lines": [1] } }),
            json!({ "x": null }),
        ] {
            assert!(!fits_expectation(&result, &other), "{other}");
        }
    }
}
