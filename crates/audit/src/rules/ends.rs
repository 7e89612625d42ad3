//! Every told outcome is the stored outcome (INV-3).

use super::view::AuditedSession;
use crate::end::AuditedOutcome;
use crate::history::ClientOperation;
use crate::rule::AuditRule;

pub(super) fn check_told_outcomes(view: &mut AuditedSession<'_>) {
    let mut found = Vec::new();
    for (number, call) in &view.calls {
        let Some((Some(turn), told)) = call.told else { continue };
        // The client was told that this outcome could not be recorded; only the store knows how the turn ended (D20).
        if matches!(told, AuditedOutcome::Errored { recorded: false, .. }) {
            continue;
        }
        match view.stored_turn(turn).map(|stored_turn| stored_turn.end.as_ref()) {
            // A message that is not stored is told of with the sends.
            None if matches!(call.deed, ClientOperation::Send { .. }) || view.may_be_deleted(call.begun) => {}
            None => found.push((
                AuditRule::Lost,
                format!("call {number} was told of turn {turn}, which is not stored"),
            )),
            Some(None) => {
                let why = format!("turn {turn} was told as {told}, and has no outcome that is stored");
                found.push((AuditRule::Contradicted, why));
            }
            Some(Some(stored)) if stored != told => {
                found.push((
                    AuditRule::Contradicted,
                    format!("turn {turn} was told as {told}, and is stored as {stored}"),
                ));
            }
            Some(Some(_)) => {}
        }
    }
    for (rule, why) in found {
        view.add_violation(rule, why);
    }
}
