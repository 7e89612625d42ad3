//! A wait is answered once, by an answer that somebody gave (INV-7).

use std::collections::BTreeMap;

use super::view::View;
use crate::history::Deed;
use crate::rule::Rule;
use crate::stored::{TurnSort, WaitState};

pub(super) fn check(view: &mut View<'_>) {
    let mut found = Vec::new();
    let mut enders: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for turn in &view.stored.turns {
        if let Some(wait) = turn.wait {
            enders.entry(wait).or_default().push(&turn.id);
        }
    }
    for (wait, turns) in enders.iter().filter(|(_, turns)| turns.len() > 1) {
        found.push((Rule::Doubled, format!("wait {wait} was ended by {} turns: {turns:?}", turns.len())));
    }
    for wait in &view.stored.waits {
        let ender = wait.ended_by.and_then(|no| view.stored.turn(no));
        let no = wait.no;
        match (wait.state, ender) {
            (WaitState::Pending, _) if enders.contains_key(&no) || wait.ended_by.is_some() => {
                found.push((Rule::Contradicted, format!("wait {no} is pending, and a turn has ended it")));
            }
            (WaitState::Pending, _) => {}
            (_, None) => found.push((Rule::Lost, format!("wait {no} has ended, and no turn has ended it"))),
            (WaitState::Consumed, Some(turn)) if turn.sort != TurnSort::Resume => {
                found.push((
                    Rule::Contradicted,
                    format!("wait {no} was answered, and turn {} does not resume", turn.id),
                ));
            }
            (WaitState::Consumed | WaitState::Cancelled | WaitState::Expired, Some(_)) => {}
        }
        let given = view.calls.values().any(|call| match call.deed {
            Deed::Answer { signal, payload } => {
                *signal == wait.signal && Some(payload) == wait.answer.as_ref()
            }
            Deed::Send { .. } | Deed::Cancel { .. } | Deed::Delete => false,
        });
        if wait.state == WaitState::Consumed && !given {
            found.push((Rule::Invented, format!("nobody gave the answer that ended wait {no}")));
        }
    }
    answers_took_effect(view, &mut found);
    for (rule, why) in found {
        view.find(rule, why);
    }
}

/// An answer that was given a turn is the one that this turn goes on with.
fn answers_took_effect(view: &View<'_>, found: &mut Vec<(Rule, String)>) {
    for (number, call) in &view.calls {
        let (Deed::Answer { payload, .. }, Some(id)) = (call.deed, call.turn()) else { continue };
        let Some(turn) = view.stored_turn(id) else {
            if call.told.is_none() && !view.may_be_deleted(call.begun) {
                found.push((Rule::Lost, format!("answer {number} was given turn {id}, which is not stored")));
            }
            continue;
        };
        let wait = turn.wait.and_then(|no| view.stored.waits.iter().find(|wait| wait.no == no));
        let took = wait
            .is_some_and(|wait| wait.state == WaitState::Consumed && wait.answer.as_ref() == Some(payload));
        if !took {
            let why = format!("answer {number} was given turn {id}, which does not go on with {payload}");
            found.push((Rule::Contradicted, why));
        }
    }
}
