//! A wait is answered once, by an answer that somebody gave (INV-7).

use std::collections::BTreeMap;

use super::view::AuditedSession;
use crate::history::ClientOperation;
use crate::rule::AuditRule;
use crate::stored::{AuditedTurnKind, AuditedWaitState};

pub(super) fn check_wait_answers(view: &mut AuditedSession<'_>) {
    let mut found = Vec::new();
    let mut enders: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for turn in &view.stored.turns {
        if let Some(wait) = turn.wait {
            enders.entry(wait).or_default().push(&turn.id);
        }
    }
    for (wait, turns) in enders.iter().filter(|(_, turns)| turns.len() > 1) {
        found
            .push((AuditRule::Doubled, format!("wait {wait} was ended by {} turns: {turns:?}", turns.len())));
    }
    for wait in &view.stored.waits {
        let ender = wait.ended_by.and_then(|no| view.stored.turn_by_number(no));
        let no = wait.no;
        match (wait.state, ender) {
            (AuditedWaitState::Pending, _) if enders.contains_key(&no) || wait.ended_by.is_some() => {
                found.push((
                    AuditRule::Contradicted,
                    format!("wait {no} is pending, and a turn has ended it"),
                ));
            }
            (AuditedWaitState::Pending, _) => {}
            (_, None) => {
                found.push((AuditRule::Lost, format!("wait {no} has ended, and no turn has ended it")))
            }
            (AuditedWaitState::Consumed, Some(turn)) if turn.sort != AuditedTurnKind::Resume => {
                found.push((
                    AuditRule::Contradicted,
                    format!("wait {no} was answered, and turn {} does not resume", turn.id),
                ));
            }
            (
                AuditedWaitState::Consumed | AuditedWaitState::Cancelled | AuditedWaitState::Expired,
                Some(_),
            ) => {}
        }
        let given = view.calls.values().any(|call| match call.deed {
            ClientOperation::Answer { signal, payload } => {
                *signal == wait.signal && Some(payload) == wait.answer.as_ref()
            }
            ClientOperation::Send { .. } | ClientOperation::Cancel { .. } | ClientOperation::Delete => false,
        });
        if wait.state == AuditedWaitState::Consumed && !given {
            found.push((AuditRule::Invented, format!("nobody gave the answer that ended wait {no}")));
        }
    }
    answers_took_effect(view, &mut found);
    for (rule, why) in found {
        view.add_violation(rule, why);
    }
}

/// An answer that was given a turn is the one that this turn goes on with.
fn answers_took_effect(view: &AuditedSession<'_>, found: &mut Vec<(AuditRule, String)>) {
    for (number, call) in &view.calls {
        let (ClientOperation::Answer { payload, .. }, Some(id)) = (call.deed, call.accepted_turn()) else {
            continue;
        };
        let Some(turn) = view.stored_turn(id) else {
            if call.told.is_none() && !view.may_be_deleted(call.begun) {
                found.push((
                    AuditRule::Lost,
                    format!("answer {number} was given turn {id}, which is not stored"),
                ));
            }
            continue;
        };
        let wait = turn.wait.and_then(|no| view.stored.waits.iter().find(|wait| wait.no == no));
        let took = wait.is_some_and(|wait| {
            wait.state == AuditedWaitState::Consumed && wait.answer.as_ref() == Some(payload)
        });
        if !took {
            let why = format!("answer {number} was given turn {id}, which does not go on with {payload}");
            found.push((AuditRule::Contradicted, why));
        }
    }
}
