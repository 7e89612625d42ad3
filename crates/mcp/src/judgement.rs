//! How much a tool of a server may change: its hints, and the settings that override them.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use singletree_tools::{Effect, Recovery};

/// The settings of a server about its tools.
#[derive(Debug, Clone)]
pub(crate) struct McpToolSettings {
    /// Whether hints count at all: they are the server's own word.
    pub(crate) hints: bool,
    pub(crate) effects: BTreeMap<String, Effect>,
    pub(crate) recoveries: BTreeMap<String, Recovery>,
}

impl McpToolSettings {
    /// Judges a tool. A tool without hints and settings counts as dangerous, and is not run again. Hints count only as
    /// long as the definition is the one that was seen first.
    pub(crate) fn judge_tool(&self, tool: &Tool, has_changed: bool) -> (Effect, Recovery) {
        let hints = tool.annotations.as_ref().filter(|_| self.hints && !has_changed);
        let hinted = match hints {
            Some(it) if it.read_only_hint == Some(true) => Effect::Read,
            Some(it) if it.destructive_hint == Some(false) => Effect::SafeWrite,
            Some(_) | None => Effect::Destructive,
        };
        let idempotent = hints.is_some_and(|hints| hints.idempotent_hint == Some(true));
        let declared = self.effects.get(tool.name.as_ref()).or_else(|| self.effects.get("*"));
        let effect = declared.copied().unwrap_or(hinted);
        let recovery =
            if idempotent || !effect.has_side_effects() { Recovery::Rerun } else { Recovery::Report };
        (effect, self.recoveries.get(tool.name.as_ref()).copied().unwrap_or(recovery))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ToolAnnotations;

    use super::*;

    // spec: MCP, tool annotations: all are hints, and the defaults are the dangerous ones.
    #[test]
    fn hints_are_believed_unless_told_otherwise_and_silence_counts_as_dangerous() {
        let none = ToolAnnotations::new;
        let table = [
            (None, Effect::Destructive, Recovery::Report),
            (Some(none()), Effect::Destructive, Recovery::Report),
            (Some(none().read_only(true)), Effect::Read, Recovery::Rerun),
            (Some(none().read_only(true).destructive(true)), Effect::Read, Recovery::Rerun),
            (Some(none().read_only(false)), Effect::Destructive, Recovery::Report),
            (Some(none().destructive(false)), Effect::SafeWrite, Recovery::Report),
            (Some(none().destructive(false).idempotent(true)), Effect::SafeWrite, Recovery::Rerun),
            (Some(none().idempotent(true)), Effect::Destructive, Recovery::Rerun),
        ];
        for (annotations, effect, recovery) in table {
            let mut tool = Tool::new("work", "Works.", serde_json::Map::new());
            tool.annotations = annotations;
            let mut judgement =
                McpToolSettings { hints: true, effects: BTreeMap::new(), recoveries: BTreeMap::new() };
            assert_eq!(judgement.judge_tool(&tool, false), (effect, recovery), "{tool:?}");
            assert_eq!(
                judgement.judge_tool(&tool, true),
                (Effect::Destructive, Recovery::Report),
                "{tool:?}"
            );
            judgement.hints = false;
            assert_eq!(
                judgement.judge_tool(&tool, false),
                (Effect::Destructive, Recovery::Report),
                "{tool:?}"
            );
            judgement.effects.insert("work".to_owned(), Effect::Local);
            judgement.effects.insert("other".to_owned(), Effect::Read);
            assert_eq!(judgement.judge_tool(&tool, false), (Effect::Local, Recovery::Report), "{tool:?}");
            judgement.recoveries.insert("work".to_owned(), Recovery::Rerun);
            assert_eq!(judgement.judge_tool(&tool, true), (Effect::Local, Recovery::Rerun), "{tool:?}");
        }
    }
}
