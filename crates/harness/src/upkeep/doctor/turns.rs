//! Every accepted message has exactly one outcome, or a turn that will give it one (INV-2).

use std::collections::BTreeMap;

use singletree_durable::{JsonDocument, StoredTurnKind, StoredTurnStatus, TurnRow};
use singletree_session::{HISTORY, OutcomeRecord, ReplyRange, StoredOutcome};

use super::chart::SessionRowSet;
use super::finding::{DoctorFinding, FindingKind, RepairAction};

pub(super) fn check_turns(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    for turn in &chart.turns {
        findings.extend(check_outcome(chart, turn));
        findings.extend(check_message(chart, turn));
        if let Some(wait) = turn.wait.filter(|wait| !chart.waits.contains_key(wait)) {
            let what = format!("wait {wait}, which turn {} answers, is missing", turn.no);
            findings.push(chart.make_finding(FindingKind::WaitMissing, what, None));
        }
        if turn.status == StoredTurnStatus::Accepted && turn.fence > chart.fence {
            let (no, fence, ours) = (turn.no, turn.fence.0, chart.fence.0);
            let what = format!("turn {no} was accepted under fence {fence}, and the store's is {ours}");
            let mend = RepairAction::GiveUp { turn: no };
            findings.push(chart.make_finding(FindingKind::TurnUnclaimable, what, Some(mend)));
        }
    }
    findings.extend(check_usage(chart));
    for turns in chart.turns_by_invocation().into_values() {
        let broken = turns.iter().rev().skip(1).find(|turn| turn.status != StoredTurnStatus::Suspended);
        if let Some(turn) = broken {
            let what = format!("turn {} did not suspend, and a turn of its invocation follows it", turn.no);
            findings.push(chart.make_finding(FindingKind::InvocationBroken, what, None));
        }
    }
}

/// Checks that the recorded usage of the turns does not exceed the usage of the session; retention removes turns only.
fn check_usage(chart: &SessionRowSet) -> Vec<DoctorFinding> {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for ended in chart.turns.iter().filter_map(|turn| turn.outcome.as_ref()?.decode::<StoredOutcome>().ok()) {
        for row in ended.used.to_usage_rows() {
            *used.entry(row.model).or_default() += row.calls;
        }
    }
    let low =
        used.into_iter().filter(|(model, calls)| chart.calls.get(model).is_none_or(|said| said < calls));
    low.map(|(model, calls)| {
        let said = chart.calls.get(&model).copied().unwrap_or_default();
        let what =
            format!("turns called model '{model}' {calls} times, and the session is said to have {said}");
        chart.make_finding(FindingKind::UsageLow, what, None)
    })
    .collect()
}

fn check_outcome(chart: &SessionRowSet, turn: &TurnRow) -> Option<DoctorFinding> {
    let (no, is_ended) = (turn.no, turn.status.is_ended());
    let Some(json) = &turn.outcome else {
        let what = format!("turn {no} is marked as ended and has no outcome");
        return is_ended.then(|| chart.make_finding(FindingKind::OutcomeMissing, what, None));
    };
    let recorded = match json.decode::<StoredOutcome>() {
        Ok(ended) => ended.recorded,
        Err(error) => {
            let what = format!("the outcome of turn {no} cannot be read: {error}");
            return Some(chart.make_finding(FindingKind::OutcomeUnreadable, what, None));
        }
    };
    let status = status_of_outcome(&recorded);
    if !is_ended {
        let what = format!("turn {no} has an outcome and is not marked as ended");
        let mend = RepairAction::MarkEnded { turn: no, status };
        return Some(chart.make_finding(FindingKind::EndUnmarked, what, Some(mend)));
    }
    if status != turn.status {
        let what = format!("turn {no} is {:?} and its outcome is {status:?}", turn.status);
        return Some(chart.make_finding(FindingKind::OutcomeContradicts, what, None));
    }
    reply_range_of_outcome(&recorded).and_then(|tail| check_replies(chart, turn, tail))
}

fn status_of_outcome(recorded: &OutcomeRecord) -> StoredTurnStatus {
    match recorded {
        OutcomeRecord::Completed(_) => StoredTurnStatus::Completed,
        OutcomeRecord::Suspended { .. } => StoredTurnStatus::Suspended,
        OutcomeRecord::Errored { .. } => StoredTurnStatus::Errored,
    }
}

/// Returns the messages that a turn's outcome names, if it can be read and names some.
pub(super) fn reply_range_of_turn(turn: &TurnRow) -> Option<ReplyRange> {
    turn.outcome
        .as_ref()
        .and_then(|outcome| outcome.decode::<StoredOutcome>().ok())
        .and_then(|it| reply_range_of_outcome(&it.recorded))
}

fn reply_range_of_outcome(recorded: &OutcomeRecord) -> Option<ReplyRange> {
    match recorded {
        OutcomeRecord::Completed(tail) | OutcomeRecord::Suspended { tail, .. } => Some(*tail),
        OutcomeRecord::Errored { .. } => None,
    }
}

/// Checks the messages that a finished turn added to the history: the user's message, then the replies (D6).
fn check_replies(chart: &SessionRowSet, turn: &TurnRow, tail: ReplyRange) -> Option<DoctorFinding> {
    chart.find_history_list()?;
    let places = chart.places.get(&(HISTORY.to_owned(), tail.generation));
    let at = |seq: u64| places.and_then(|it| it.get(&seq)).and_then(|no| chart.items.get(no));
    if let Some(gone) = (tail.from..tail.to).find(|seq| at(*seq).is_none()) {
        let what = format!("turn {} replied with message {gone}, which is missing", turn.no);
        return Some(chart.make_finding(FindingKind::RepliesMissing, what, None));
    }
    let own = turn.message.and_then(|message| chart.items.get(&message))?;
    let kept = tail.from.checked_sub(1).and_then(at);
    // In a list that was rewritten a copy stands in its place.
    kept.is_none_or(|kept| kept.digest != own.digest).then(|| {
        let what = format!("the message of turn {} does not stand before its replies", turn.no);
        chart.make_finding(FindingKind::MessageNotHistory, what, None)
    })
}

fn check_message(chart: &SessionRowSet, turn: &TurnRow) -> Option<DoctorFinding> {
    if turn.kind != StoredTurnKind::Message
        || turn.message.is_some_and(|message| chart.items.contains_key(&message))
    {
        return None;
    }
    // A retry over the history says nothing again.
    if turn.message.is_none() && turn.retries.is_some() {
        return None;
    }
    // One that errored says so itself; a repair ends a turn like that.
    if turn.status == StoredTurnStatus::Errored {
        return None;
    }
    let what = match turn.message {
        Some(item) => format!("item {item}, the message of turn {}, is missing", turn.no),
        None => format!("turn {} answers to no message", turn.no),
    };
    let open = turn.status == StoredTurnStatus::Accepted
        && turn.outcome.as_ref().map(JsonDocument::as_str).is_none();
    let mend = open.then(|| RepairAction::CloseTurn { turn: turn.no, what: what.clone() });
    Some(chart.make_finding(FindingKind::MessageMissing, what, mend))
}
