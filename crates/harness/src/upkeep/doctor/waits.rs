//! Checks that unfinished turns and invocations can go on, and that ended ones have left nothing behind (INV-8).

use std::collections::BTreeSet;

use singletree_durable::{PositionRow, StoredTurnKind, StoredTurnStatus, StoredWaitStatus, TurnRow, WaitRow};
use singletree_session::{EncodedField, StoredPosition};

use super::chart::SessionRowSet;
use super::finding::{DoctorFinding, FindingKind, RepairAction};

pub(super) fn check_waits(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    let mut awaited = BTreeSet::new();
    for (invocation, turns) in chart.turns_by_invocation() {
        let Some(last) = turns.last() else { continue };
        let position = chart.positions.get(invocation);
        match last.status {
            StoredTurnStatus::Suspended => {
                findings.extend(check_suspended_turn(chart, last, position, &mut awaited))
            }
            StoredTurnStatus::Accepted => findings.extend(check_open_turn(chart, last, position)),
            StoredTurnStatus::Completed | StoredTurnStatus::Errored => {
                findings.extend(position.map(|_| {
                    let what =
                        format!("a position is kept of turn {}'s invocation, which has ended", last.no);
                    let mend = RepairAction::DropPosition { invocation: last.invocation.clone() };
                    chart.make_finding(FindingKind::PositionOrphaned, what, Some(mend))
                }));
            }
        }
    }
    let told: BTreeSet<_> = chart.turns.iter().map(|turn| &turn.invocation).collect();
    for position in chart.positions.values().filter(|position| !told.contains(&position.invocation)) {
        let what =
            format!("a position is kept of invocation {}, of which there is no turn", position.invocation);
        let mend = RepairAction::DropPosition { invocation: position.invocation.clone() };
        findings.push(chart.make_finding(FindingKind::PositionOrphaned, what, Some(mend)));
    }
    let pending = || chart.waits.values().filter(|wait| wait.status == StoredWaitStatus::Pending);
    for wait in pending().filter(|pending| !awaited.contains(&pending.no)) {
        let what =
            format!("wait {} ('{}') is pending, and turn {} does not wait", wait.no, wait.signal, wait.turn);
        findings.push(chart.make_finding(
            FindingKind::WaitOrphaned,
            what,
            Some(RepairAction::CancelWait { wait: wait.no }),
        ));
    }
    if awaited.len() > 1 {
        let waits: Vec<String> = awaited.iter().map(u64::to_string).collect();
        let what = format!("waits {} are pending at once", waits.join(", "));
        findings.push(chart.make_finding(FindingKind::WaitsDoubled, what, None));
    }
    let ended = |no: &&u64| chart.find_turn(**no).is_none_or(|turn| turn.status.is_ended());
    for turn in chart.recorded.iter().filter(ended) {
        let what = format!("records are kept of turn {turn}, which has ended");
        findings.push(chart.make_finding(
            FindingKind::RecordOrphaned,
            what,
            Some(RepairAction::DropRecords { turn: *turn }),
        ));
    }
}

/// Looks at an invocation whose last turn is suspended; notes the wait that it waits in.
fn check_suspended_turn(
    chart: &SessionRowSet,
    last: &TurnRow,
    position: Option<&PositionRow>,
    awaited: &mut BTreeSet<u64>,
) -> Option<DoctorFinding> {
    let is_ours = |it: &&WaitRow| it.status == StoredWaitStatus::Pending && it.turn == last.no;
    let Some(wait) = chart.waits.values().find(is_ours) else {
        let what = format!("turn {} is suspended, and nothing waits for it", last.no);
        return Some(chart.make_finding(
            FindingKind::SuspendedWithoutWait,
            what.clone(),
            Some(end_invocation_action(last, what)),
        ));
    };
    awaited.insert(wait.no);
    let problem = match position {
        None => "is not known".to_owned(),
        Some(position) => describe_damage(chart, position)?,
    };
    let what = format!("where turn {} was suspended {problem}", last.no);
    Some(chart.make_finding(
        FindingKind::PositionDamaged,
        what.clone(),
        Some(end_invocation_action(last, what)),
    ))
}

fn end_invocation_action(last: &TurnRow, what: String) -> RepairAction {
    RepairAction::EndInvocation { turn: last.no, what }
}

/// Looks at a turn without outcome: can it go on when its place comes?
fn check_open_turn(
    chart: &SessionRowSet,
    turn: &TurnRow,
    position: Option<&PositionRow>,
) -> Option<DoctorFinding> {
    if turn.outcome.is_some() {
        // It only lacks the mark.
        return None;
    }
    let closing = |symptom, what: String| {
        let mend = RepairAction::CloseTurn { turn: turn.no, what: what.clone() };
        Some(chart.make_finding(symptom, what, Some(mend)))
    };
    match turn.kind {
        StoredTurnKind::Close => {
            closing(FindingKind::CloseUnfinished, format!("turn {} closes a wait and has not ended", turn.no))
        }
        StoredTurnKind::Resume => {
            let wait = turn.wait.and_then(|wait| chart.waits.get(&wait));
            let leads_here = wait.is_some_and(|wait| {
                wait.ended_by == Some(turn.no)
                    && matches!(wait.status, StoredWaitStatus::Consumed | StoredWaitStatus::Expired)
            });
            if !leads_here {
                let what = format!("turn {} resumes from a wait that does not lead to it", turn.no);
                return closing(FindingKind::ResumeUnable, what);
            }
            if position.is_none() {
                let what = format!("turn {} resumes from a place that is not known", turn.no);
                return closing(FindingKind::ResumeUnable, what);
            }
            let problem = describe_damage(chart, position?)?;
            closing(FindingKind::PositionDamaged, format!("where turn {} stands {problem}", turn.no))
        }
        StoredTurnKind::Message => {
            let problem = describe_damage(chart, position.filter(|position| position.turn == turn.no)?)?;
            closing(FindingKind::PositionDamaged, format!("where turn {} stands {problem}", turn.no))
        }
    }
}

/// Describes the damage of a position, if there is any.
fn describe_damage(chart: &SessionRowSet, position: &PositionRow) -> Option<String> {
    let decoded = match position.body.decode::<StoredPosition>() {
        Ok(decoded) => decoded,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    for encoded in decoded.frames.iter().flat_map(|frame| frame.values()) {
        let EncodedField::List { base, items } = encoded else { continue };
        if let Some((field, generation, len)) = base {
            let places = chart.places.get(&(field.clone(), *generation));
            let found = places.map_or(0, |places| places.range(..*len).count() as u64);
            if found != *len {
                return Some(format!("needs {len} items of list '{field}', of which {found} are there"));
            }
        }
        let mut numbers = items.iter().flat_map(|(from, to)| *from..*to);
        if let Some(gone) = numbers.find(|number| !chart.items.contains_key(number)) {
            return Some(format!("needs item {gone}, which is missing"));
        }
    }
    None
}
