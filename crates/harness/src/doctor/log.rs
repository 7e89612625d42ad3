//! The event log tells of every turn what the turn's row says, and numbers are never used twice (INV-2, INV-4).
//!
//! A number that is missing among the events is no harm by itself: a commit that was refused keeps its numbers, and
//! retention takes the oldest. What must not be missing is the end of a turn whose beginning is there, since whatever
//! retention takes, it takes from the front.

use std::collections::BTreeMap;

use singletree_durable::{Counters, TurnStatus};

use super::chart::Chart;
use super::finding::{Finding, Mend, Symptom};
use crate::event::kind;

/// Checks that the next free numbers are free.
pub(super) fn counters(chart: &Chart, findings: &mut Vec<Finding>) {
    let (stored, used) = (chart.row.counters, used(chart));
    let pairs = [
        ("turn", stored.turns, used.turns),
        ("item", stored.items, used.items),
        ("event", stored.events, used.events),
        ("wait", stored.waits, used.waits),
    ];
    let low: Vec<String> = pairs
        .into_iter()
        .filter(|(_, stored, used)| stored < used)
        .map(|(name, stored, used)| format!("{name} {stored} (in use up to {})", used - 1))
        .collect();
    if !low.is_empty() {
        let what = format!("next free numbers are in use: {}", low.join(", "));
        findings.push(chart.finding(Symptom::CountersLow, what, Some(Mend::Counters)));
    }
}

/// Returns the lowest next numbers that are above all numbers in use.
pub(super) fn used(chart: &Chart) -> Counters {
    let past = |last: Option<u64>| last.map_or(0, |it| it + 1);
    Counters {
        turns: past(chart.turns.last().map(|it| it.no)),
        items: past(chart.items.last_key_value().map(|(no, _)| *no)),
        events: past(chart.events.last().map(|it| it.seq)),
        waits: past(chart.waits.last_key_value().map(|(no, _)| *no)),
    }
}

/// What the log tells of a turn.
#[derive(Default)]
struct Told {
    begun: bool,
    ends: Vec<TurnStatus>,
}

pub(super) fn look(chart: &Chart, findings: &mut Vec<Finding>) {
    let mut told: BTreeMap<u64, Told> = BTreeMap::new();
    for event in &chart.events {
        let of = told.entry(event.turn).or_default();
        match event.kind.as_str() {
            kind::ACCEPTED | kind::SIGNAL => of.begun = true,
            kind::COMPLETED => of.ends.push(TurnStatus::Completed),
            kind::SUSPENDED => of.ends.push(TurnStatus::Suspended),
            kind::ERRORED => of.ends.push(TurnStatus::Errored),
            _ => {}
        }
    }
    for (no, told) in told {
        let Some(turn) = chart.turn(no) else {
            // Retention takes a turn only when none of its events is left.
            if told.begun {
                let what = format!("the log tells of turn {no}, which is missing");
                findings.push(chart.finding(Symptom::TurnLost, what, None));
            }
            continue;
        };
        let (symptom, what) = match told.ends.as_slice() {
            [] if told.begun && turn.status.is_ended() => {
                (Symptom::EndUntold, format!("turn {no} has ended, and the log does not tell it"))
            }
            [] => continue,
            [end] if *end == turn.status => continue,
            [end] => (
                Symptom::EndContradicts,
                format!("turn {no} is {:?}, and the log tells that it ended {end:?}", turn.status),
            ),
            ends => (Symptom::EndContradicts, format!("the log tells {} ends of turn {no}", ends.len())),
        };
        // A turn that has its outcome and lacks the mark is told once, by the turn.
        if turn.status.is_ended() || turn.outcome.is_none() {
            findings.push(chart.finding(symptom, what, None));
        }
    }
}
