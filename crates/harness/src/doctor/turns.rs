//! Every accepted message has exactly one outcome, or a turn that will give it one (INV-2).

use std::collections::BTreeMap;

use singletree_durable::{Json, TurnKind, TurnRow, TurnStatus};

use super::chart::Chart;
use super::finding::{Finding, Mend, Symptom};
use crate::history::HISTORY;
use crate::record::{Ended, Recorded, Tail};

pub(super) fn look(chart: &Chart, findings: &mut Vec<Finding>) {
    for turn in &chart.turns {
        findings.extend(outcome(chart, turn));
        findings.extend(message(chart, turn));
        if let Some(wait) = turn.wait.filter(|wait| !chart.waits.contains_key(wait)) {
            let what = format!("wait {wait}, which turn {} answers, is missing", turn.no);
            findings.push(chart.finding(Symptom::WaitMissing, what, None));
        }
        if turn.status == TurnStatus::Accepted && turn.fence > chart.fence {
            let (no, fence, ours) = (turn.no, turn.fence.0, chart.fence.0);
            let what = format!("turn {no} was accepted under fence {fence}, and the store's is {ours}");
            let mend = Mend::GiveUp { turn: no };
            findings.push(chart.finding(Symptom::TurnUnclaimable, what, Some(mend)));
        }
    }
    findings.extend(usage(chart));
    for turns in chart.invocations().into_values() {
        let broken = turns.iter().rev().skip(1).find(|turn| turn.status != TurnStatus::Suspended);
        if let Some(turn) = broken {
            let what = format!("turn {} did not suspend, and a turn of its invocation follows it", turn.no);
            findings.push(chart.finding(Symptom::InvocationBroken, what, None));
        }
    }
}

/// Checks that the recorded usage of the turns does not exceed the usage of the session; retention removes turns only.
fn usage(chart: &Chart) -> Vec<Finding> {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for ended in chart.turns.iter().filter_map(|turn| turn.outcome.as_ref()?.decode::<Ended>().ok()) {
        for row in ended.used.rows() {
            *used.entry(row.model).or_default() += row.calls;
        }
    }
    let low =
        used.into_iter().filter(|(model, calls)| chart.calls.get(model).is_none_or(|said| said < calls));
    low.map(|(model, calls)| {
        let said = chart.calls.get(&model).copied().unwrap_or_default();
        let what =
            format!("turns called model '{model}' {calls} times, and the session is said to have {said}");
        chart.finding(Symptom::UsageLow, what, None)
    })
    .collect()
}

fn outcome(chart: &Chart, turn: &TurnRow) -> Option<Finding> {
    let (no, is_ended) = (turn.no, turn.status.is_ended());
    let Some(json) = &turn.outcome else {
        let what = format!("turn {no} is marked as ended and has no outcome");
        return is_ended.then(|| chart.finding(Symptom::OutcomeMissing, what, None));
    };
    let recorded = match json.decode::<Ended>() {
        Ok(ended) => ended.recorded,
        Err(error) => {
            let what = format!("the outcome of turn {no} cannot be read: {error}");
            return Some(chart.finding(Symptom::OutcomeUnreadable, what, None));
        }
    };
    let status = status(&recorded);
    if !is_ended {
        let what = format!("turn {no} has an outcome and is not marked as ended");
        let mend = Mend::MarkEnded { turn: no, status };
        return Some(chart.finding(Symptom::EndUnmarked, what, Some(mend)));
    }
    if status != turn.status {
        let what = format!("turn {no} is {:?} and its outcome is {status:?}", turn.status);
        return Some(chart.finding(Symptom::OutcomeContradicts, what, None));
    }
    tail(&recorded).and_then(|tail| replies(chart, turn, tail))
}

fn status(recorded: &Recorded) -> TurnStatus {
    match recorded {
        Recorded::Completed(_) => TurnStatus::Completed,
        Recorded::Suspended { .. } => TurnStatus::Suspended,
        Recorded::Errored { .. } => TurnStatus::Errored,
    }
}

/// Returns the messages that a turn's outcome names, if it can be read and names some.
pub(super) fn tail_of(turn: &TurnRow) -> Option<Tail> {
    turn.outcome.as_ref().and_then(|outcome| outcome.decode::<Ended>().ok()).and_then(|it| tail(&it.recorded))
}

fn tail(recorded: &Recorded) -> Option<Tail> {
    match recorded {
        Recorded::Completed(tail) | Recorded::Suspended { tail, .. } => Some(*tail),
        Recorded::Errored { .. } => None,
    }
}

/// Checks the messages that a finished turn added to the history: the user's message, then the replies (D6).
fn replies(chart: &Chart, turn: &TurnRow, tail: Tail) -> Option<Finding> {
    chart.history()?;
    let places = chart.places.get(&(HISTORY.to_owned(), tail.generation));
    let at = |seq: u64| places.and_then(|it| it.get(&seq)).and_then(|no| chart.items.get(no));
    if let Some(gone) = (tail.from..tail.to).find(|seq| at(*seq).is_none()) {
        let what = format!("turn {} replied with message {gone}, which is missing", turn.no);
        return Some(chart.finding(Symptom::RepliesMissing, what, None));
    }
    let own = turn.message.and_then(|message| chart.items.get(&message))?;
    let kept = tail.from.checked_sub(1).and_then(at);
    // In a list that was rewritten a copy stands in its place.
    kept.is_none_or(|kept| kept.digest != own.digest).then(|| {
        let what = format!("the message of turn {} does not stand before its replies", turn.no);
        chart.finding(Symptom::MessageNotHistory, what, None)
    })
}

fn message(chart: &Chart, turn: &TurnRow) -> Option<Finding> {
    if turn.kind != TurnKind::Message
        || turn.message.is_some_and(|message| chart.items.contains_key(&message))
    {
        return None;
    }
    // A retry over the history says nothing again.
    if turn.message.is_none() && turn.retries.is_some() {
        return None;
    }
    // One that errored says so itself; a repair ends a turn like that.
    if turn.status == TurnStatus::Errored {
        return None;
    }
    let what = match turn.message {
        Some(item) => format!("item {item}, the message of turn {}, is missing", turn.no),
        None => format!("turn {} answers to no message", turn.no),
    };
    let open = turn.status == TurnStatus::Accepted && turn.outcome.as_ref().map(Json::as_str).is_none();
    let mend = open.then(|| Mend::CloseTurn { turn: turn.no, what: what.clone() });
    Some(chart.finding(Symptom::MessageMissing, what, mend))
}
