//! Commits that fail in a child, as on a disk that is full for a while.

use std::fmt;
use std::str::FromStr;

use singletree_store_testing::FailedWriteEffect;

/// Which commits of a process fail, counted from 0, and whether they land all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitFaults {
    /// The first one that fails.
    pub from: u64,
    /// How many fail.
    pub count: u64,
    /// Whether the failed commit is stored all the same.
    pub land: FailedWriteEffect,
}

impl CommitFaults {
    /// Tells whether a commit fails.
    #[must_use]
    pub fn fails_commit(&self, commit: u64) -> bool {
        (self.from..self.from.saturating_add(self.count)).contains(&commit)
    }
}

impl fmt::Display for CommitFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let land = if self.land == FailedWriteEffect::After { "after" } else { "before" };
        write!(f, "{}:{}:{land}", self.from, self.count)
    }
}

impl FromStr for CommitFaults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unfit = || format!("'{text}' is not FROM:COUNT:before or FROM:COUNT:after");
        let mut parts = text.split(':');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(unfit);
        let (from, count) = (number()?, number()?);
        let land = match (parts.next(), parts.next()) {
            (Some("before"), None) => FailedWriteEffect::Before,
            (Some("after"), None) => FailedWriteEffect::After,
            _ => return Err(unfit()),
        };
        Ok(Self { from, count, land })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let faults = CommitFaults { from: 3, count: 2, land };
            assert_eq!(faults.to_string().parse(), Ok(faults));
            let hit: Vec<u64> = (0..9).filter(|it| faults.fails_commit(*it)).collect();
            assert_eq!(hit, [3, 4]);
        }
        for text in ["", "1:2", "1:2:later", "1:2:after:3", "a:2:after"] {
            assert!(text.parse::<CommitFaults>().is_err(), "{text}");
        }
    }
}
