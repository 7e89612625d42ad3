//! How much a tool may change, and how to recover a call whose outcome is unknown.

use std::fmt;

/// How much a tool may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing.
    Read,
    /// Something outside that can be undone.
    SafeWrite,
    /// Something outside that cannot be undone.
    Destructive,
    /// Something that belongs to the user alone, on this machine.
    Local,
}

impl Effect {
    /// Reads a declared effect. An unknown word counts as dangerous.
    #[must_use]
    pub fn from_declared_word(word: &str) -> Self {
        match word {
            "read" => Self::Read,
            "safe_write" => Self::SafeWrite,
            "local" => Self::Local,
            _ => Self::Destructive,
        }
    }

    /// Returns the effect as it is written in files and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::SafeWrite => "safe_write",
            Self::Destructive => "destructive",
            Self::Local => "local",
        }
    }

    /// Says whether a call can change anything.
    #[must_use]
    pub fn has_side_effects(self) -> bool {
        match self {
            Self::Read => false,
            Self::SafeWrite | Self::Destructive | Self::Local => true,
        }
    }

    /// Says whether a person should be asked first, where no policy says otherwise.
    #[must_use]
    pub fn is_dangerous(self) -> bool {
        match self {
            Self::Destructive => true,
            Self::Read | Self::SafeWrite | Self::Local => false,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How to recover a call that was begun and whose result was never recorded (D7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Run it again with the same key: the tool is idempotent.
    Rerun,
    /// Close it as `outcome unknown` and tell: running it again might do it twice.
    Report,
}
