//! The durable log tells every end once, and events that were seen stay in it (INV-2, INV-3, D9).

use std::collections::{BTreeMap, BTreeSet};

use super::view::AuditedSession;
use crate::end::AuditedOutcome;
use crate::history::HistoryEvent;
use crate::rule::AuditRule;

pub(super) fn check_event_log(view: &mut AuditedSession<'_>) {
    let mut found = Vec::new();
    let stored = view.stored;
    let by_seq: BTreeMap<u64, _> = stored.events.iter().map(|event| (event.seq, event)).collect();
    // Retention may have removed the oldest.
    let oldest = by_seq.keys().next().copied();
    if stored.events.windows(2).any(|window| window[0].seq >= window[1].seq) {
        found.push((AuditRule::Reordered, "the events are not in the order of their numbers".to_owned()));
    }
    for record in view.records {
        let HistoryEvent::Event { seq, turn, kind } = &record.what else { continue };
        let same = by_seq.get(seq).map(|it| {
            let name = stored.turn_by_number(it.turn).map(|turn| turn.id.as_str());
            it.kind == *kind && name == Some(turn.as_str())
        });
        match same {
            Some(true) => {}
            _ if view.may_be_deleted(record.at) => {}
            Some(false) => found
                .push((AuditRule::Contradicted, format!("event {seq} was {kind} of {turn}, and is another"))),
            None if oldest.is_some_and(|oldest| *seq < oldest) => {}
            None => found.push((
                AuditRule::Lost,
                format!("event {seq} ({kind} of {turn}) was seen and is not stored"),
            )),
        }
    }
    let mut ends: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for event in stored.events.iter().filter(|event| ENDS.contains(&event.kind.as_str())) {
        ends.entry(event.turn).or_default().push(&event.kind);
    }
    let whole = oldest == Some(0);
    let known: BTreeSet<u64> = stored.turns.iter().map(|turn| turn.no).collect();
    for turn in &stored.turns {
        let (id, told) = (&turn.id, ends.remove(&turn.no).unwrap_or_default());
        let kind = turn.end.as_ref().map(ending_event_kind);
        match (kind, told.as_slice()) {
            (_, [_, _, ..]) => {
                found.push((AuditRule::Doubled, format!("the log ends turn {id} {} times", told.len())))
            }
            (Some(kind), [told]) if kind == *told => {}
            (None, []) => {}
            (Some(_), []) if !whole => {}
            (Some(kind), []) => {
                found.push((AuditRule::Lost, format!("the log does not tell the end of turn {id} ({kind})")))
            }
            (kind, [told]) => {
                let kind = kind.unwrap_or("under way");
                found.push((
                    AuditRule::Contradicted,
                    format!("the log ends turn {id} as {told}, and it is {kind}"),
                ));
            }
        }
    }
    for no in ends.keys().filter(|it| !known.contains(it)) {
        found.push((AuditRule::Orphaned, format!("the log ends turn number {no}, which is not stored")));
    }
    for (rule, why) in found {
        view.add_violation(rule, why);
    }
}

const ENDS: [&str; 3] = ["turn.completed", "turn.suspended", "turn.errored"];

fn ending_event_kind(end: &AuditedOutcome) -> &'static str {
    match end {
        AuditedOutcome::Completed { .. } => ENDS[0],
        AuditedOutcome::Suspended { .. } => ENDS[1],
        AuditedOutcome::Errored { .. } => ENDS[2],
    }
}
