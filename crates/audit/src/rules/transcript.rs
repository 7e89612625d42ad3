//! The history is the messages of the turns, one after the other, each reply behind its message (INV-1, INV-6, D11).

use std::collections::{BTreeMap, BTreeSet};

use singletree_llm::Role;

use super::view::AuditedSession;
use crate::end::AuditedOutcome;
use crate::rule::AuditRule;
use crate::stored::{AuditedTurnKind, StoredMessage, StoredTurn};

pub(super) fn check_history(view: &mut AuditedSession<'_>) {
    let mut found = Vec::new();
    let stored = view.stored;
    let own: BTreeMap<u64, Vec<usize>> = stored.messages.iter().enumerate().filter(|(_, it)| it.own).fold(
        BTreeMap::new(),
        |mut own, (at, it)| {
            own.entry(it.turn.unwrap_or_default()).or_insert_with(Vec::new).push(at);
            own
        },
    );
    for turn in stored.turns.iter().filter(|turn| turn.sort == AuditedTurnKind::Message && !turn.over_history)
    {
        message_stands_once(turn, own.get(&turn.no).map_or(0, Vec::len), &mut found);
    }
    // A retry over the history answers a message of an earlier turn.
    let over_history: BTreeSet<&str> =
        stored.turns.iter().filter(|turn| turn.over_history).map(|turn| turn.invocation.as_str()).collect();
    let begins: BTreeMap<&str, usize> = stored
        .turns
        .iter()
        .filter_map(|turn| Some((turn.invocation.as_str(), *own.get(&turn.no)?.first()?)))
        .collect();
    for (at, message) in
        stored.messages.iter().enumerate().skip(usize::try_from(stored.inherited).unwrap_or(0))
    {
        let turn = message.turn.and_then(|no| stored.turn_by_number(no));
        if !turn.is_some_and(|turn| over_history.contains(turn.invocation.as_str())) {
            reply_has_its_message(at, message, turn, &begins, &mut found);
        }
    }
    for turn in &stored.turns {
        check_outcome_messages(
            turn,
            &stored.messages,
            own.get(&turn.no).and_then(|it| it.first()),
            &mut found,
        );
    }
    check_message_order(view, &mut found);
    ends_with_its_taker(view, &mut found);
    check_tool_results(view, &mut found);
    for (rule, why) in found {
        view.add_violation(rule, why);
    }
}

type FoundViolations = Vec<(AuditRule, String)>;

fn message_stands_once(turn: &StoredTurn, times: usize, found: &mut FoundViolations) {
    let (id, text) = (&turn.id, turn.text.as_deref().unwrap_or_default());
    match (&turn.end, times) {
        (_, 2..) => found
            .push((AuditRule::Doubled, format!("'{text}' of turn {id} stands {times} times in the history"))),
        (Some(AuditedOutcome::Completed { .. } | AuditedOutcome::Suspended { .. }), 0) => {
            found.push((AuditRule::Lost, format!("'{text}' of turn {id} is not in the history")));
        }
        // A turn that failed adds its message only where it had been committed, or was cancelled (D10, D11).
        (Some(_) | None, _) => {}
    }
}

fn reply_has_its_message(
    at: usize,
    message: &StoredMessage,
    turn: Option<&StoredTurn>,
    begins: &BTreeMap<&str, usize>,
    found: &mut FoundViolations,
) {
    let brief = &message.brief;
    let Some(turn) = turn else {
        found.push((AuditRule::Orphaned, format!("message {at} ({brief}) is of no turn that is stored")));
        return;
    };
    let id = &turn.id;
    if message.own {
        let text = brief.split_once(':').map(|(_, text)| text);
        if text != turn.text.as_deref() {
            found.push((
                AuditRule::Contradicted,
                format!("message {at} ({brief}) is not the one that turn {id} answers"),
            ));
        }
        return;
    }
    // Results that close an earlier turn's calls stand before the message of the turn that writes them (D8).
    let closes = message.role == Role::Tool && turn.sort == AuditedTurnKind::Message;
    let begin = begins.get(turn.invocation.as_str());
    if begin.is_none_or(|begin| at < *begin && !closes) {
        found.push((
            AuditRule::Orphaned,
            format!("message {at} ({brief}) of turn {id} has no message that it answers"),
        ));
    }
}

/// The messages that an outcome names are those that the turn added to the history.
fn check_outcome_messages(
    turn: &StoredTurn,
    messages: &[StoredMessage],
    own: Option<&usize>,
    found: &mut FoundViolations,
) {
    let Some(said) = turn.end.as_ref().and_then(AuditedOutcome::turn_messages) else { return };
    // A message that was taken is answered by the turn that took it, with the replies that follow it.
    let taker = own.and_then(|own| messages[*own].taken_by);
    let (by, from) = (Some(taker.unwrap_or(turn.no)), own.map_or(0, |own| own + 1));
    let ours = messages
        .iter()
        .skip(from)
        .filter(|message| (message.turn == by && !message.own) || message.taken_by == by);
    let kept: Vec<&str> = ours.map(|it| it.brief.as_str()).collect();
    if kept != said {
        let why = format!("turn {} says that it added {said:?}, and the history has {kept:?}", turn.id);
        found.push((AuditRule::Contradicted, why));
    }
}

/// Messages stand in the order of their turns' numbers, and the messages of one invocation stand together.
fn check_message_order(view: &AuditedSession<'_>, found: &mut FoundViolations) {
    let stored = view.stored;
    let (mut last, mut current, mut ended) = (None::<&StoredTurn>, None::<&str>, BTreeSet::new());
    for (at, message) in stored.messages.iter().enumerate() {
        let Some(turn) = message.turn.and_then(|no| stored.turn_by_number(no)) else { continue };
        if message.own {
            if let Some(before) = last.filter(|last| last.no > turn.no) {
                let (after, before) = (&turn.id, &before.id);
                let why = format!(
                    "the message of turn {after} was accepted before that of {before}, and stands behind it"
                );
                found.push((AuditRule::Reordered, why));
            }
            last = Some(turn);
        }
        // A message that was taken stands among the messages of the turn that took it.
        let among = message.taken_by.and_then(|no| stored.turn_by_number(no)).unwrap_or(turn);
        let invocation = among.invocation.as_str();
        if current != Some(invocation) {
            if !ended.insert(invocation) {
                let why = format!("message {at} ({}) stands inside another turn's", message.brief);
                found.push((AuditRule::Reordered, why));
            }
            current = Some(invocation);
        }
    }
}

/// The turn of a message that was taken ends as the one that took it: completed also where that one waits.
fn ends_with_its_taker(view: &AuditedSession<'_>, found: &mut FoundViolations) {
    let stored = view.stored;
    let turn = |no: Option<u64>| no.and_then(|it| stored.turn_by_number(it));
    for message in stored.messages.iter().filter(|message| message.own) {
        let (Some(taken), Some(taker)) = (turn(message.turn), turn(message.taken_by)) else { continue };
        let same = match (&taken.end, &taker.end) {
            (
                Some(AuditedOutcome::Completed { .. }),
                Some(AuditedOutcome::Completed { .. } | AuditedOutcome::Suspended { .. }),
            ) => true,
            (
                Some(AuditedOutcome::Errored { category: one, .. }),
                Some(AuditedOutcome::Errored { category: other, .. }),
            ) => one == other,
            (None, None) => true,
            (Some(_) | None, Some(_) | None) => false,
        };
        if !same {
            let (taken, taker) = (&taken.id, &taker.id);
            let why = format!("turn {taken} was taken by turn {taker}, and does not end as that one");
            found.push((AuditRule::Contradicted, why));
        }
    }
}

/// Every tool call is answered once, before any other message; only the calls of a pending wait may be open.
fn check_tool_results(view: &AuditedSession<'_>, found: &mut FoundViolations) {
    let (mut open, mut opened) = (Vec::<&str>::new(), 0);
    for (at, message) in view.stored.messages.iter().enumerate() {
        if let Some(call) = &message.answers {
            match open.iter().position(|item| item == call) {
                Some(place) => drop(open.remove(place)),
                None => found.push((
                    AuditRule::Orphaned,
                    format!("message {at} answers tool call {call}, which is not open"),
                )),
            }
            continue;
        }
        if !open.is_empty() {
            found.push((
                AuditRule::Orphaned,
                format!("tool calls {open:?} are open before message {at} ({})", message.brief),
            ));
        }
        (open, opened) = (message.calls.iter().map(String::as_str).collect(), at as u64);
    }
    // The next turn closes calls that were open in an import.
    let came = opened < view.stored.inherited;
    let still = came || view.has_pending_wait() || view.stored.turns.iter().any(|turn| turn.end.is_none());
    if !open.is_empty() && !still {
        found.push((AuditRule::Orphaned, format!("tool calls {open:?} are open at the end")));
    }
}
