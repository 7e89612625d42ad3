//! Checks that the event log agrees with the rows of the turns, and that numbers are never used twice (INV-2, INV-4).
//!
//! A missing event number alone is no damage: a refused commit keeps its numbers, and retention removes the oldest
//! events. A turn whose first event is present must also have its last event, since retention removes events from the
//! oldest on.

use std::collections::{BTreeMap, BTreeSet};

use singletree_durable::{Counters, StoredTurnKind, StoredTurnStatus, TurnRow};
use singletree_session::{HISTORY, event_kinds};

use super::chart::SessionRowSet;
use super::finding::{DoctorFinding, FindingKind, RepairAction};
use super::turns;

/// Checks that the next free numbers are free.
pub(super) fn check_counters(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    let (stored, used) = (chart.row.counters, lowest_free_numbers(chart));
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
        findings.push(chart.make_finding(FindingKind::CountersLow, what, Some(RepairAction::Counters)));
    }
}

/// Returns the lowest next numbers that are above all numbers in use.
pub(super) fn lowest_free_numbers(chart: &SessionRowSet) -> Counters {
    let past = |last: Option<u64>| last.map_or(0, |last| last + 1);
    Counters {
        turns: past(chart.turns.last().map(|turn| turn.no)),
        items: past(chart.items.last_key_value().map(|(no, _)| *no)),
        events: past(chart.events.last().map(|event| event.seq)),
        waits: past(chart.waits.last_key_value().map(|(no, _)| *no)),
    }
}

/// The events of a turn in the log.
#[derive(Default)]
struct TurnLogEvents {
    begun: bool,
    ends: Vec<StoredTurnStatus>,
}

/// Looks for messages that the log must tell and does not: those of turns whose beginning it tells, since retention
/// takes from the front.
fn check_untold_messages(
    chart: &SessionRowSet,
    told: &BTreeMap<u64, TurnLogEvents>,
    findings: &mut Vec<DoctorFinding>,
) {
    let is_begun = |turn: &TurnRow| told.get(&turn.no).is_some_and(|told| told.begun);
    let is_whole = chart.events.first().is_some_and(|event| event.seq == 0);
    let ran =
        |turn: &&TurnRow| turn.kind == StoredTurnKind::Message && turns::reply_range_of_turn(turn).is_some();
    for turn in chart.turns.iter().filter(ran).filter(|turn| is_whole && !is_begun(turn)) {
        let what = format!("the log does not tell that turn {} was accepted", turn.no);
        findings.push(chart.make_finding(FindingKind::AcceptUntold, what, None));
    }
    let appended = chart.events.iter().filter(|event| event.kind == event_kinds::APPENDED);
    let items: BTreeSet<u64> = appended.filter_map(|event| event.item).collect();
    // In a list that was rewritten, a copy replaces the item that the event names.
    let digest = |no: &u64| chart.items.get(no).map(|item| item.digest);
    let digests: BTreeSet<u64> = items.iter().filter_map(digest).collect();
    for turn in chart.turns.iter().filter(|turn| is_begun(turn)) {
        let Some(tail) = turns::reply_range_of_turn(turn) else { continue };
        let Some(places) = chart.places.get(&(HISTORY.to_owned(), tail.generation)) else { continue };
        let is_told = |no: &u64| {
            items.contains(no)
                || (tail.generation > 0 && digest(no).is_some_and(|digest| digests.contains(&digest)))
        };
        if let Some((seq, _)) = places.range(tail.from..tail.to).find(|(_, no)| !is_told(no)) {
            let what = format!("the log does not tell message {seq} of turn {}", turn.no);
            findings.push(chart.make_finding(FindingKind::MessageUntold, what, None));
        }
    }
}

pub(super) fn check_event_log(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    let mut told: BTreeMap<u64, TurnLogEvents> = BTreeMap::new();
    for event in &chart.events {
        let of = told.entry(event.turn).or_default();
        match event.kind.as_str() {
            event_kinds::ACCEPTED | event_kinds::SIGNAL => of.begun = true,
            event_kinds::COMPLETED => of.ends.push(StoredTurnStatus::Completed),
            event_kinds::SUSPENDED => of.ends.push(StoredTurnStatus::Suspended),
            event_kinds::ERRORED => of.ends.push(StoredTurnStatus::Errored),
            _ => {}
        }
    }
    check_untold_messages(chart, &told, findings);
    for (no, told) in told {
        let Some(turn) = chart.find_turn(no) else {
            // Retention takes a turn only when none of its events is left.
            if told.begun {
                let what = format!("the log tells of turn {no}, which is missing");
                findings.push(chart.make_finding(FindingKind::TurnLost, what, None));
            }
            continue;
        };
        let (symptom, what) = match told.ends.as_slice() {
            [] if told.begun && turn.status.is_ended() => {
                (FindingKind::EndUntold, format!("turn {no} has ended, and the log does not tell it"))
            }
            [] => continue,
            [end] if *end == turn.status => continue,
            [end] => (
                FindingKind::EndContradicts,
                format!("turn {no} is {:?}, and the log tells that it ended {end:?}", turn.status),
            ),
            ends => (FindingKind::EndContradicts, format!("the log tells {} ends of turn {no}", ends.len())),
        };
        // A turn that has its outcome and lacks the mark is told once, by the turn.
        if turn.status.is_ended() || turn.outcome.is_none() {
            findings.push(chart.make_finding(symptom, what, None));
        }
    }
}
