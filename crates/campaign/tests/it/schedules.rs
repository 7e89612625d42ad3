//! Schedules: due times in a time zone, missed ones, summer time, and the least interval.

use std::time::Duration;

use singletree_campaign::{CampaignSchedule, MissedRuns, ScheduleDecision};
use singletree_env::Timestamp;

fn at(text: &str) -> Timestamp {
    Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn schedule(expression: &str, zone: &str, missed: MissedRuns, now: &str) -> CampaignSchedule {
    CampaignSchedule::new("cmp_a", (expression, zone), (missed, "Go on."), at(now)).unwrap()
}

#[test]
fn due_times_are_those_of_the_time_zone() {
    let noon = schedule("0 12 * * *", "Europe/Berlin", MissedRuns::Once, "2026-01-05T00:00:00Z");
    assert_eq!(noon.next_at, at("2026-01-05T11:00:00Z"));
    let summer = schedule("0 12 * * *", "Europe/Berlin", MissedRuns::Once, "2026-07-05T00:00:00Z");
    assert_eq!(summer.next_at, at("2026-07-05T10:00:00Z"));
    let utc = schedule("30 6 * * 1", "UTC", MissedRuns::Once, "2026-01-05T06:30:00Z");
    assert_eq!(utc.next_at, at("2026-01-12T06:30:00Z"), "a due time that is now is over");
}

#[test]
fn what_is_no_schedule_is_refused() {
    let refused = |expression: &str, zone: &str, command: &str| {
        let made = CampaignSchedule::new(
            "cmp_a",
            (expression, zone),
            (MissedRuns::Once, command),
            at("2026-01-05T00:00:00Z"),
        );
        let error = made.unwrap_err();
        assert_eq!(error.category(), "campaign_schedule_invalid");
        error.to_string()
    };
    refused("every day", "UTC", "Go on.");
    refused("* * * * * *", "UTC", "Go on.");
    assert!(refused("0 0 30 2 *", "UTC", "Go on.").contains("no due time"));
    assert!(refused("0 0 * * *", "Mars/Olympus", "Go on.").contains("time zone"));
    assert!(refused("0 0 * * *", "UTC", " ").contains("command"));
}

// Times that summer time leaves out or doubles run once.
#[test]
fn a_clock_that_is_set_runs_each_due_time_once() {
    let runs = |from: &str, until: &str| {
        let mut schedule = schedule("30 2 * * *", "Europe/Berlin", MissedRuns::Once, from);
        let mut runs = Vec::new();
        while schedule.next_at < at(until) {
            runs.push(schedule.next_at);
            schedule.next_at = schedule.decide(schedule.next_at, false).unwrap().next_at;
        }
        runs
    };
    // The clock goes from 2:00 to 3:00 on 2026-03-29: 2:30 is not there.
    let spring = runs("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
    assert_eq!(spring, [at("2026-03-29T01:00:00Z"), at("2026-03-30T00:30:00Z")]);
    // The clock goes from 3:00 to 2:00 on 2026-10-25: 2:30 is there twice.
    let autumn = runs("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(autumn, [at("2026-10-25T00:30:00Z"), at("2026-10-26T01:30:00Z")]);
}

#[test]
fn missed_due_times_are_one_run_or_none() {
    let hourly = |missed| schedule("0 * * * *", "UTC", missed, "2026-01-05T00:30:00Z");
    let decide = |missed, now: &str, is_busy| hourly(missed).decide(at(now), is_busy).unwrap();
    let (runs, rests) = (true, false);
    let decision = |runs, next: &str| ScheduleDecision { runs, next_at: at(next) };
    for missed in [MissedRuns::Once, MissedRuns::Skip] {
        assert_eq!(decide(missed, "2026-01-05T00:59:59Z", false), decision(rests, "2026-01-05T01:00:00Z"));
        assert_eq!(decide(missed, "2026-01-05T01:00:59Z", false), decision(runs, "2026-01-05T02:00:00Z"));
    }
    // The process was down for hours: one run, or none.
    let late = "2026-01-05T09:10:00Z";
    assert_eq!(decide(MissedRuns::Once, late, false), decision(runs, "2026-01-05T10:00:00Z"));
    assert_eq!(decide(MissedRuns::Skip, late, false), decision(rests, "2026-01-05T10:00:00Z"));
    // A cycle runs: no overlap. It is made up for behind the cycle, or left out.
    let due = "2026-01-05T01:00:00Z";
    assert_eq!(decide(MissedRuns::Once, due, true), decision(rests, due));
    assert_eq!(decide(MissedRuns::Skip, due, true), decision(rests, "2026-01-05T02:00:00Z"));
}

#[test]
fn five_fields_are_never_less_than_a_minute_apart() {
    let mut every = schedule("* * * * *", "UTC", MissedRuns::Once, "2026-01-05T00:00:30Z");
    for _ in 0..100 {
        let next = every.decide(every.next_at, false).unwrap().next_at;
        assert_eq!(next.duration_since(every.next_at), Duration::from_secs(60));
        every.next_at = next;
    }
}
