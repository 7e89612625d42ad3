//! Checks that each body is stored once and that references to bodies are valid (INV-4).

use std::collections::BTreeSet;

use singletree_durable::FieldValue;
use singletree_session::HISTORY;

use super::chart::SessionRowSet;
use super::finding::{DoctorFinding, FindingKind, RepairAction};
use super::turns;

pub(super) fn check_lists(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    for field in &chart.row.fields {
        if let FieldValue::List { generation, len, .. } = field.value {
            findings.extend(check_list_items(chart, &field.name, generation, len));
        }
    }
    findings.extend(find_orphaned_items(chart));
    for event in &chart.events {
        if let Some(item) = event.item.filter(|item| !chart.items.contains_key(item)) {
            let what = format!("event {} tells of item {item}, which is missing", event.seq);
            findings.push(chart.make_finding(FindingKind::EventItemMissing, what, None));
        }
    }
}

fn check_list_items(chart: &SessionRowSet, name: &str, generation: u64, len: u64) -> Option<DoctorFinding> {
    let places = chart.places.get(&(name.to_owned(), generation));
    let found = places.map_or(0, |places| places.len() as u64);
    let end = places.and_then(|it| it.last_key_value()).map_or(0, |(last, _)| last + 1);
    if end != found {
        let what = format!("list '{name}' has {found} items in places up to {end}");
        return Some(chart.make_finding(FindingKind::ListGap, what, None));
    }
    if found < len && has_missing_items(chart, name, generation, found) {
        let what = format!("list '{name}' has {found} of {len} items");
        return Some(chart.make_finding(FindingKind::ListGap, what, None));
    }
    (found != len).then(|| {
        let what = format!("list '{name}' has {found} items and is said to have {len}");
        let mend = RepairAction::Length { field: name.to_owned(), generation, len: found };
        chart.make_finding(FindingKind::ListLength, what, Some(mend))
    })
}

/// Checks whether events or outcomes name items behind the existing ones: then items are missing and the length is
/// right.
fn has_missing_items(chart: &SessionRowSet, name: &str, generation: u64, found: u64) -> bool {
    let event =
        chart.events.iter().filter_map(|event| event.item).any(|event| !chart.items.contains_key(&event));
    let tails = chart.turns.iter().filter_map(turns::reply_range_of_turn);
    let outcome = || tails.filter(|tail| tail.generation == generation).any(|tail| tail.to > found);
    name == HISTORY && (event || outcome())
}

/// Finds items that have neither a place nor a turn that they are kept for.
fn find_orphaned_items(chart: &SessionRowSet) -> Option<DoctorFinding> {
    let messages: BTreeSet<u64> = chart.turns.iter().filter_map(|turn| turn.message).collect();
    let orphaned = |no: &u64, turn| chart.find_turn(turn).is_none() && !messages.contains(no);
    let items = chart.items.iter().filter(|(no, it)| !it.placed && orphaned(no, it.turn));
    let items: Vec<String> = items.map(|(no, _)| no.to_string()).collect();
    (!items.is_empty()).then(|| {
        let what = format!("items {} belong to no list and no turn", items.join(", "));
        chart.make_finding(FindingKind::ItemOrphaned, what, None)
    })
}
