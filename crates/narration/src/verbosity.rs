//! How much is narrated.

use std::fmt;

/// How much of the events the controller narrates. Nothing but the narration depends on it (INV-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum NarrationVerbosity {
    /// Questions, errors, and explanations of what was not done.
    Quiet,
    /// Also states, progress, successes, and the agent's reasons.
    #[default]
    Normal,
    /// Also the arguments of every call. Those of an approval are always told.
    Full,
}

impl NarrationVerbosity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quiet, Self::Normal, Self::Full];

    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for NarrationVerbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
