//! Which calls a person must approve first.

use singletree_tools::Effect;

/// Which effects need the approval of a person before a call is run. By default [`Effect::Destructive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    effects: Vec<Effect>,
}

impl Approve {
    /// Asks before calls with one of these effects.
    #[must_use]
    pub fn effects(effects: impl IntoIterator<Item = Effect>) -> Self {
        Self { effects: effects.into_iter().collect() }
    }

    /// Asks before every call that can change something.
    #[must_use]
    pub fn changes() -> Self {
        Self::effects([Effect::SafeWrite, Effect::Destructive, Effect::Local])
    }

    /// Never asks: for agents that nobody watches and that may do what they can.
    #[must_use]
    pub fn nothing() -> Self {
        Self::effects([])
    }

    /// Says whether calls with this effect need approval.
    #[must_use]
    pub fn needs(&self, effect: Effect) -> bool {
        self.effects.contains(&effect)
    }
}

impl Default for Approve {
    fn default() -> Self {
        Self::effects([Effect::Destructive])
    }
}
