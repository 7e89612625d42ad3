//! Which calls a person must approve first.

use singletree_tools::Effect;

/// Which calls need the approval of a person before they are run: by the effect of their tool, and by its name. By
/// default those with [`Effect::Destructive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPolicy {
    effects: Vec<Effect>,
    asked: Vec<String>,
    trusted: Vec<String>,
}

impl ApprovalPolicy {
    /// Asks before calls with one of these effects.
    #[must_use]
    pub fn effects(effects: impl IntoIterator<Item = Effect>) -> Self {
        Self { effects: effects.into_iter().collect(), asked: Vec::new(), trusted: Vec::new() }
    }

    /// Asks before every call that can change something.
    #[must_use]
    pub fn changes() -> Self {
        Self::effects([Effect::SafeWrite, Effect::Destructive, Effect::Local])
    }

    /// Never asks: for agents without supervision that may use all their tools.
    #[must_use]
    pub fn nothing() -> Self {
        Self::effects([])
    }

    /// Asks before calls of this tool too, whatever its effect. A name that ends in `*` stands for all names that begin
    /// so.
    #[must_use]
    pub fn asking(mut self, tool: impl Into<String>) -> Self {
        self.asked.push(tool.into());
        self
    }

    /// Never asks before calls of this tool, whatever its effect and whatever else is said. A name that ends in `*`
    /// stands for all names that begin so.
    #[must_use]
    pub fn trusting(mut self, tool: impl Into<String>) -> Self {
        self.trusted.push(tool.into());
        self
    }

    /// Says whether calls of a tool with this effect need approval.
    #[must_use]
    pub fn needs_approval(&self, tool: &str, effect: Effect) -> bool {
        let named = |names: &[String]| {
            names.iter().any(|name| match name.strip_suffix('*') {
                Some(beginning) => tool.starts_with(beginning),
                None => tool == name,
            })
        };
        (self.effects.contains(&effect) || named(&self.asked)) && !named(&self.trusted)
    }
}

/// Asks before calls with this effect.
impl From<Effect> for ApprovalPolicy {
    fn from(effect: Effect) -> Self {
        Self::effects([effect])
    }
}

/// Asks before calls with one of these effects.
impl<const N: usize> From<[Effect; N]> for ApprovalPolicy {
    fn from(effects: [Effect; N]) -> Self {
        Self::effects(effects)
    }
}

impl Default for ApprovalPolicy {
    fn default() -> Self {
        Self::effects([Effect::Destructive])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_more_than_an_effect_and_trust_more_than_a_question() {
        let approve = ApprovalPolicy::default()
            .asking("note")
            .asking("files_*")
            .trusting("send")
            .trusting("files_read*");
        let check = |tool: &str, effect: Effect, needs: bool| {
            assert_eq!(approve.needs_approval(tool, effect), needs, "{tool}")
        };
        check("drop", Effect::Destructive, true);
        check("send", Effect::Destructive, false);
        check("note", Effect::Read, true);
        check("notes", Effect::Read, false);
        check("files_write", Effect::SafeWrite, true);
        check("files_read_all", Effect::Destructive, false);
    }
}
