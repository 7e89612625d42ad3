//! Real time is respected: a turn that was answered before a later call was made comes before that call's turn
//! (INV-1).

use std::collections::BTreeMap;

use super::view::AuditedSession;
use crate::history::ClientOperation;
use crate::rule::AuditRule;

/// When a turn can have been accepted, as its clients know it.
#[derive(Debug, Clone, Copy)]
struct AcceptanceWindow<'a> {
    id: &'a str,
    no: u64,
    begun: u64,
    given: u64,
}

pub(super) fn check_turn_order(view: &mut AuditedSession<'_>) {
    let mut spans: BTreeMap<&str, AcceptanceWindow<'_>> = BTreeMap::new();
    for call in view.calls.values() {
        // A cancel is told of a turn that others have begun.
        let (Some((id, given)), ClientOperation::Send { .. } | ClientOperation::Answer { .. }) =
            (call.given, call.deed)
        else {
            continue;
        };
        let Some(turn) = view.stored_turn(id) else { continue };
        let begun = first_begun(view, call.deed, call.begun);
        let span = spans.entry(id).or_insert(AcceptanceWindow { id, no: turn.no, begun, given });
        span.begun = span.begun.min(begun);
        span.given = span.given.min(given);
    }
    let mut by_given: Vec<AcceptanceWindow<'_>> = spans.into_values().collect();
    let mut by_begun = by_given.clone();
    by_given.sort_by_key(|it| it.given);
    by_begun.sort_by_key(|it| it.begun);
    // The highest number among turns that were given before the one that is looked at began.
    let (mut highest, mut earlier) = (None::<AcceptanceWindow<'_>>, by_given.into_iter().peekable());
    for span in by_begun {
        while let Some(it) = earlier.next_if(|earlier| earlier.given < span.begun) {
            highest = Some(highest.filter(|high| high.no > it.no).unwrap_or(it));
        }
        if let Some(high) = highest.filter(|highest| highest.no > span.no) {
            let (first, second) = (high.id, span.id);
            let (before, after) = (high.no, span.no);
            view.add_violation(
                AuditRule::Overtaken,
                format!(
                    "turn {first} was given before {second} was asked for, and is number {before} of {after}"
                ),
            );
        }
    }
}

/// The same send under the same key, or the same answer, may have been made before: the turn can be that one's.
fn first_begun(view: &AuditedSession<'_>, deed: &ClientOperation, begun: u64) -> u64 {
    match deed {
        ClientOperation::Send { key: None, .. }
        | ClientOperation::Cancel { .. }
        | ClientOperation::Delete => begun,
        ClientOperation::Send { key: Some(_), .. } | ClientOperation::Answer { .. } => {
            let same = view.calls.values().filter(|call| call.deed == deed).map(|call| call.begun);
            same.min().unwrap_or(begun)
        }
    }
}
