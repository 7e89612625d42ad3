//! Each accepted message is one turn, and each turn of a message was asked for (INV-2, D3).

use std::collections::{BTreeMap, BTreeSet};

use super::view::AuditedSession;
use crate::history::ClientOperation;
use crate::rule::AuditRule;
use crate::stored::{AuditedTurnKind, StoredTurn};

/// One call that sends: its text, its key, and the known facts about its turn.
#[derive(Debug, Clone, Copy)]
struct SendOperation<'a> {
    text: &'a str,
    key: Option<&'a str>,
    turn: Option<&'a str>,
    unknown: bool,
}

pub(super) fn check_sent_messages(view: &mut AuditedSession<'_>) {
    for call in view.calls.values().map(|call| (call.deed, call.given, call.begun)).collect::<Vec<_>>() {
        let (ClientOperation::Send { text, .. }, Some((turn, at)), begun) = call else { continue };
        match view.stored_turn(turn) {
            None if view.may_be_deleted(begun) => {}
            None => view.add_violation(
                AuditRule::Lost,
                format!("turn {turn} of '{text}' was accepted and is not stored"),
            ),
            Some(_) if view.is_deleted(at) => {
                view.add_violation(
                    AuditRule::Invented,
                    format!("turn {turn} of '{text}' is stored after its deletion"),
                );
            }
            // A retry over the history answers the message of the failed turn.
            Some(stored) if stored.over_history => {}
            Some(stored) if stored.text.as_deref() != Some(text) => {
                let found = stored.text.as_deref().unwrap_or("no message");
                view.add_violation(
                    AuditRule::Contradicted,
                    format!("turn {turn} was given for '{text}', and answers '{found}'"),
                );
            }
            Some(_) => {}
        }
    }
    turns_are_unique(view);
    let sends: Vec<SendOperation<'_>> = view
        .calls
        .values()
        .filter_map(|call| match call.deed {
            ClientOperation::Send { text, key } => {
                let (turn, unknown) = (call.accepted_turn(), call.is_unknown());
                Some(SendOperation { text, key: key.as_deref(), turn, unknown })
            }
            ClientOperation::Answer { .. } | ClientOperation::Cancel { .. } | ClientOperation::Delete => None,
        })
        .collect();
    messages_were_sent(view, &sends);
    keys_have_one_turn(view, &sends);
}

fn turns_are_unique(view: &mut AuditedSession<'_>) {
    let (mut ids, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for turn in &view.stored.turns {
        if !ids.insert(&turn.id) || !numbers.insert(turn.no) {
            view.add_violation(
                AuditRule::Doubled,
                format!("turn {} (number {}) is stored twice", turn.id, turn.no),
            );
        }
    }
}

/// A stored turn that no call was given must be of a call whose answer is not known.
fn messages_were_sent(view: &mut AuditedSession<'_>, sends: &[SendOperation<'_>]) {
    let mut by_text: BTreeMap<&str, Vec<SendOperation<'_>>> = BTreeMap::new();
    for send in sends {
        by_text.entry(send.text).or_default().push(*send);
    }
    let given: BTreeSet<&str> = sends.iter().filter_map(|send| send.turn).collect();
    let mut unclaimed: BTreeMap<&str, Vec<&StoredTurn>> = BTreeMap::new();
    // A retry over the history has no message of its own.
    let ours = |it: &&StoredTurn| {
        it.sort == AuditedTurnKind::Message && !it.over_history && !given.contains(it.id.as_str())
    };
    for turn in view.stored.turns.iter().filter(ours) {
        unclaimed.entry(turn.text.as_deref().unwrap_or_default()).or_default().push(turn);
    }
    for (text, turns) in unclaimed {
        let sends = by_text.get(text).map(Vec::as_slice).unwrap_or_default();
        let unknown: Vec<_> = sends.iter().filter(|send| send.unknown).collect();
        let keys: BTreeSet<_> = unknown.iter().filter_map(|it| it.key).collect();
        let taken = |key: &&str| sends.iter().any(|send| send.key == Some(*key) && holds_key(view, send));
        let free_keys = keys.iter().filter(|key| !taken(key)).count();
        let finals = turns.iter().filter(|turn| turn.end.as_ref().is_none_or(|end| !end.frees_key())).count();
        let plain = unknown.iter().filter(|it| it.key.is_none()).count();
        if turns.len() <= unknown.len() && finals <= plain + free_keys {
            continue;
        }
        let rule = if sends.iter().any(|send| send.turn.is_some() || send.unknown) {
            AuditRule::Doubled
        } else {
            AuditRule::Invented
        };
        let (times, calls) = (turns.len(), unknown.len());
        let why =
            format!("{times} turns of '{text}' are stored that nobody was given, for {calls} open calls");
        view.add_violation(rule, why);
    }
}

/// Tells whether the turn of a send is stored and still holds its key.
fn holds_key(view: &AuditedSession<'_>, send: &SendOperation<'_>) -> bool {
    let stored = send.turn.and_then(|turn| view.stored_turn(turn));
    stored.is_some_and(|stored| stored.end.as_ref().is_none_or(|end| !end.frees_key()))
}

fn keys_have_one_turn(view: &mut AuditedSession<'_>, sends: &[SendOperation<'_>]) {
    let mut by_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for send in sends.iter().filter(|send| holds_key(view, send)) {
        if let (Some(key), Some(turn)) = (send.key, send.turn) {
            by_key.entry(key).or_default().insert(turn);
        }
    }
    for (key, turns) in by_key.into_iter().filter(|(_, turns)| turns.len() > 1) {
        view.add_violation(AuditRule::Doubled, format!("key '{key}' has {} turns: {turns:?}", turns.len()));
    }
}
