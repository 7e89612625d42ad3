//! When nothing runs any more, nothing may be under way, except behind a wait (INV-2, INV-8).

use std::collections::BTreeMap;

use super::view::AuditedSession;
use crate::end::AuditedOutcome;
use crate::rule::AuditRule;
use crate::stored::{AuditedTurnKind, AuditedWaitState, StoredTurn};

pub(super) fn check_open_work(view: &mut AuditedSession<'_>) {
    let mut found = Vec::new();
    let parked =
        |it: &StoredTurn| it.end.is_none() && it.sort == AuditedTurnKind::Message && view.has_pending_wait();
    let mut last: BTreeMap<&str, &StoredTurn> = BTreeMap::new();
    for turn in &view.stored.turns {
        if turn.end.is_none() && !parked(turn) {
            found.push(format!("turn {} has no outcome, and nothing holds it", turn.id));
        }
        last.insert(&turn.invocation, turn);
    }
    for (invocation, turn) in last {
        let ours = view.stored.waits.iter().filter(|wait| wait.invocation == invocation);
        let pending = ours.filter(|our| our.state == AuditedWaitState::Pending).count();
        let suspended = matches!(turn.end, Some(AuditedOutcome::Suspended { .. }));
        if suspended && pending != 1 {
            found.push(format!("turn {} is suspended, and {pending} waits are pending for it", turn.id));
        }
        if !suspended && turn.end.is_some() && pending > 0 {
            found.push(format!("turn {} has ended, and a wait is pending for it", turn.id));
        }
    }
    for (number, call) in view.calls.iter().filter(|(_, it)| it.over.is_none() && !it.gone) {
        let held = call.accepted_turn().and_then(|turn| view.stored_turn(turn)).is_some_and(parked);
        if !held {
            found.push(format!("call {number} was never answered"));
        }
    }
    for why in found {
        view.add_violation(AuditRule::Stuck, why);
    }
}
