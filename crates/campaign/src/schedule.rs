//! Schedules: when a campaign is woken with a stored command.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use singletree_env::Timestamp;

use crate::error::{Error, Result};

/// How many schedules a tenant may have.
pub const SCHEDULES_MAX: u64 = 100;
/// The least time between two due times.
pub const INTERVAL_MIN: Duration = Duration::from_secs(60);
/// How many due times are looked at to find the least interval.
const LOOKED_AT: usize = 64;

/// What becomes of due times that nobody could act on: the process was down, or a cycle ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// They are made up for by one run.
    #[default]
    Once,
    /// They are left out.
    Skip,
}

/// When a campaign is woken, and with which command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSchedule {
    /// Which campaign.
    pub campaign: String,
    /// A cron expression of five fields.
    pub expression: String,
    /// The IANA time zone in which it is read.
    #[serde(default = "utc")]
    pub zone: String,
    /// What becomes of missed due times.
    #[serde(default)]
    pub missed: MissedRuns,
    /// The command with which the campaign is woken.
    pub command: String,
    /// The next due time: written in the commit of the run before, so that one process fires it.
    pub next_at: Timestamp,
}

/// What a schedule does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleDecision {
    /// Whether the campaign is woken.
    pub runs: bool,
    /// The next due time.
    pub next_at: Timestamp,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl CampaignSchedule {
    /// Makes a schedule whose first due time is after `now`.
    ///
    /// # Errors
    /// `campaign_schedule_invalid` for an expression or a time zone that is none, an empty command, or due times that
    /// are less than 60 s apart.
    pub fn new(
        campaign: &str,
        (expression, zone): (&str, &str),
        (missed, command): (MissedRuns, &str),
        now: Timestamp,
    ) -> Result<Self> {
        if command.trim().is_empty() {
            return Err(Error::Schedule { why: "its command is empty".to_owned() });
        }
        let due = DueTimes::parse(expression, zone)?;
        let mut last = None;
        let mut at = now;
        for _ in 0..LOOKED_AT {
            at = due.next_after(at)?;
            if last.is_some_and(|last| at.duration_since(last) < INTERVAL_MIN) {
                let seconds = INTERVAL_MIN.as_secs();
                return Err(Error::Schedule {
                    why: format!("its due times are less than {seconds} s apart"),
                });
            }
            last = Some(at);
        }
        let (expression, zone) = (expression.to_owned(), zone.to_owned());
        let (campaign, command) = (campaign.to_owned(), command.to_owned());
        Ok(Self { campaign, expression, zone, missed, command, next_at: due.next_after(now)? })
    }

    /// Decides what happens at `now`, when the due time has come. A due time is missed when `now` is a minute or more
    /// after it, or `is_busy`: the campaign runs a cycle. There is never more than one run, however many were missed.
    ///
    /// # Errors
    /// `campaign_schedule_invalid` for a stored expression or zone that is none any more.
    pub fn decide(&self, now: Timestamp, is_busy: bool) -> Result<ScheduleDecision> {
        let due = DueTimes::parse(&self.expression, &self.zone)?;
        if self.next_at > now {
            return Ok(ScheduleDecision { runs: false, next_at: self.next_at });
        }
        let is_missed = is_busy || now.duration_since(self.next_at) >= INTERVAL_MIN;
        match (is_missed, self.missed) {
            // While a cycle runs, the run is made up for behind it.
            (true, MissedRuns::Once) if is_busy => {
                Ok(ScheduleDecision { runs: false, next_at: self.next_at })
            }
            (true, MissedRuns::Skip) => Ok(ScheduleDecision { runs: false, next_at: due.next_after(now)? }),
            (true, MissedRuns::Once) | (false, _) => {
                Ok(ScheduleDecision { runs: true, next_at: due.next_after(now)? })
            }
        }
    }
}

/// The due times of an expression in a time zone.
struct DueTimes {
    cron: Cron,
    zone: TimeZone,
}

impl DueTimes {
    fn parse(expression: &str, zone: &str) -> Result<Self> {
        let refuse = |why: String| Error::Schedule { why };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| refuse(error.to_string()))?;
        let zone = TimeZone::get(zone).map_err(|_| refuse(format!("there is no time zone '{zone}'")))?;
        Ok(Self { cron, zone })
    }

    /// Returns the first due time after a time.
    fn next_after(&self, at: Timestamp) -> Result<Timestamp> {
        let refuse = |why: String| Error::Schedule { why };
        let instant = jiff::Timestamp::from_millisecond(at.as_millis());
        let instant = instant.map_err(|error| refuse(error.to_string()))?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&instant, false);
        let next = next.map_err(|error| refuse(format!("it has no due time: {error}")))?;
        Ok(Timestamp::from_millis(next.timestamp().as_millisecond()))
    }
}
