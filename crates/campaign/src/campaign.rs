//! A campaign: a goal that an agent pursues over many cycles.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_env::Timestamp;

use crate::error::{Error, Result};

/// How many bytes a goal may have.
pub const GOAL_BYTES_MAX: usize = 4 << 10;
/// How many bytes the name of a campaign may have.
const TITLE_BYTES: usize = 200;
/// How the id of a campaign begins.
const ID_PREFIX: &str = "cmp_";
/// How many bytes an id may have.
const ID_BYTES: usize = 64;

/// A goal, who pursues it, and how much it may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// Its id, `cmp_…`.
    pub id: String,
    /// Whose it is (INV-14).
    pub tenant: String,
    /// On whose behalf it was made, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its name, for people.
    pub name: String,
    /// What it is to reach, 1 byte to 4 KiB.
    pub goal: String,
    /// The agent that proposes.
    pub agent: String,
    /// How much it may use.
    pub budget: CampaignBudget,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How much a campaign may use. What is not limited is without a limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignBudget {
    /// How many cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// How many tokens of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How much time its cycles may take together, in milliseconds; time that passes between them does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

/// What a campaign has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignUsage {
    /// Cycles that began.
    pub cycles: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// The time of its cycles, in milliseconds.
    pub time_ms: u64,
}

/// Where a campaign stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignStatus {
    /// No plan was approved yet.
    Initializing,
    /// A plan was approved, and work goes on.
    Active,
    /// Nothing runs until it is resumed.
    Paused,
    /// Every task is done.
    Completed,
    /// It failed; a person may resume it.
    Error,
    /// A person has ended it.
    Cancelled,
}

/// Why a campaign is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseReason {
    /// A person has paused it.
    Person {
        /// Who.
        by: String,
    },
    /// A part of its budget is used up.
    Budget {
        /// Which part: `cycles`, `tokens` or `time`.
        part: String,
    },
    /// No task can be taken up: each is done, blocked, or needs one that is not done.
    NoReadyTask,
    /// The agent had nothing to propose, three times in a row.
    NothingToPropose,
    /// A failure that may pass; it is resumed at `until`.
    Transient {
        /// The category of the failure.
        category: String,
        /// When it is tried again.
        until: Timestamp,
    },
    /// A quota of its tenant is used up.
    Quota {
        /// The category of the refusal.
        category: String,
    },
}

impl PauseReason {
    /// Tells whether a word of a person ends the pause: the campaign waits for something new to go on with.
    pub(crate) fn ends_with_news(&self) -> bool {
        match self {
            Self::NoReadyTask | Self::NothingToPropose => true,
            Self::Person { .. } | Self::Budget { .. } | Self::Transient { .. } | Self::Quota { .. } => false,
        }
    }
}

impl CampaignStatus {
    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Tells whether nothing happens in it any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

impl fmt::Display for CampaignStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Campaign {
    /// Checks the values of a record.
    ///
    /// # Errors
    /// `campaign_record_invalid`.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Record { why });
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        let rest = self.id.strip_prefix(ID_PREFIX).unwrap_or_default();
        if rest.is_empty() || self.id.len() > ID_BYTES || !rest.chars().all(fits) {
            return refuse(format!("the id of a campaign is {ID_PREFIX} and letters, digits, - or _"));
        }
        if self.name.trim().is_empty() || self.name.len() > TITLE_BYTES {
            return refuse(format!("the name of a campaign has 1 to {TITLE_BYTES} bytes"));
        }
        if self.goal.trim().is_empty() || self.goal.len() > GOAL_BYTES_MAX {
            return refuse(format!("the goal of a campaign has 1 to {GOAL_BYTES_MAX} bytes"));
        }
        if self.agent.is_empty() {
            return refuse("a campaign names its agent".to_owned());
        }
        Ok(())
    }
}

impl CampaignBudget {
    /// Returns the part that is used up, if one is.
    pub(crate) fn exhausted_part(&self, used: &CampaignUsage) -> Option<&'static str> {
        let over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used >= limit);
        [
            ("cycles", over(used.cycles, self.cycles)),
            ("tokens", over(used.tokens, self.tokens)),
            ("time", over(used.time_ms, self.time_ms)),
        ]
        .into_iter()
        .find_map(|(part, is_over)| is_over.then_some(part))
    }
}

/// How long a campaign waits after so many failures in a row that may pass: from 2 s, doubled each time, up to an hour.
pub(crate) fn backoff_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.clamp(1, 12)).min(Duration::from_hours(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_that_is_used_up_is_named() {
        let budget = CampaignBudget { cycles: Some(3), tokens: Some(100), time_ms: None };
        let used = |cycles, tokens| CampaignUsage { cycles, tokens, time_ms: u64::MAX };
        assert_eq!(budget.exhausted_part(&used(2, 99)), None);
        assert_eq!(budget.exhausted_part(&used(3, 100)), Some("cycles"));
        assert_eq!(budget.exhausted_part(&used(0, 101)), Some("tokens"));
        assert_eq!(CampaignBudget::default().exhausted_part(&used(u64::MAX, u64::MAX)), None);
    }

    #[test]
    fn pauses_after_failures_grow_and_end_at_an_hour() {
        let seconds = [1, 2, 3, 11, 12, 40].map(|failures| backoff_after(failures).as_secs());
        assert_eq!(seconds, [2, 4, 8, 2_048, 3_600, 3_600]);
    }
}
