//! Schedules: when a campaign is woken, and with which command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::native::Time;

/// The treatment of due times that could not be met: the process was down, or a cycle ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedDueTimes {
    /// One run makes up for all of them.
    #[default]
    Once,
    /// They are left out.
    Skip,
}

/// A schedule that is added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddSchedule {
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    pub expression: String,
    /// The IANA time zone in which it is read; `UTC` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The treatment of missed due times.
    #[serde(default)]
    pub missed: MissedDueTimes,
    /// The command with which the campaign is woken, 1 byte to 16 KiB.
    pub command: String,
}

/// A schedule of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleInfo {
    /// Its id.
    pub id: String,
    /// The campaign that it wakes.
    pub campaign: String,
    /// The cron expression.
    pub expression: String,
    /// The time zone in which it is read.
    pub zone: String,
    /// The treatment of missed due times.
    pub missed: MissedDueTimes,
    /// The command.
    pub command: String,
    /// The next due time.
    pub next_at: Time,
}

/// The schedules of a campaign, ordered by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleInfoList {
    /// The schedules.
    pub items: Vec<ScheduleInfo>,
}
