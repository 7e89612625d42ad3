//! The actions of a command: the record that the next request includes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_llm::ToolCall;

/// How many actions are kept: the last ones.
const KEPT: usize = 5;
/// How many bytes of a result are kept, except of the last one.
const EARLIER_BYTES: usize = 1_000;

/// One action that was carried out, or was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandAction {
    /// The tool.
    pub tool: String,
    /// The arguments; none where they could not be read.
    pub arguments: Option<Map<String, Value>>,
    /// The text that answered its call.
    pub result: String,
}

impl CommandAction {
    /// Makes the record of a call and its answer.
    pub(crate) fn from_call(call: &ToolCall, result: &str) -> Self {
        Self { tool: call.name.clone(), arguments: call.arguments.clone(), result: result.to_owned() }
    }
}

/// The last actions of the running command, the latest last: part of the state, kept with it, and gone with the turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandActions(Vec<CommandAction>);

impl CommandActions {
    /// Returns them, the latest last.
    #[must_use]
    pub fn as_slice(&self) -> &[CommandAction] {
        &self.0
    }

    /// Adds actions. The last one is kept whole; earlier ones keep only the beginning of their result.
    pub(crate) fn with_actions(&self, done: impl IntoIterator<Item = CommandAction>) -> Self {
        let mut all: Vec<CommandAction> = self.0.iter().cloned().chain(done).collect();
        all.drain(..all.len().saturating_sub(KEPT));
        let earlier = all.len().saturating_sub(1);
        for action in
            all.iter_mut().take(earlier).filter(|item| item.result.len() > EARLIER_BYTES + "…".len())
        {
            action.result.truncate(action.result.floor_char_boundary(EARLIER_BYTES));
            action.result.push('…');
        }
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(result: &str) -> CommandAction {
        CommandAction { tool: "look".into(), arguments: None, result: result.into() }
    }

    #[test]
    fn the_last_five_are_kept_and_the_last_one_whole() {
        let long = "é".repeat(1_000);
        let mut actions = CommandActions::default().with_actions([action(&long)]);
        assert_eq!(actions.as_slice(), [action(&long)]);
        for no in 0..5 {
            actions = actions.with_actions([action(&no.to_string())]);
        }
        let expected: Vec<CommandAction> = (0..5).map(|it| action(&it.to_string())).collect();
        assert_eq!(actions.as_slice(), expected);
        let cut = action(&format!("{}…", "é".repeat(500)));
        let two = CommandActions::default().with_actions([action(&long)]).with_actions([action(&long)]);
        assert_eq!(two.as_slice(), [cut.clone(), action(&long)]);
        // Cut once: a result that is cut already stays the same.
        assert_eq!(two.with_actions([action("a")]).as_slice(), [cut.clone(), cut, action("a")]);
    }
}
