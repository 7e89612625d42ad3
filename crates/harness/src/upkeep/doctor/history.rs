//! A history that a provider accepts: each call has its result, each result its call (INV-6).

use std::collections::BTreeMap;

use singletree_durable::{StoredTurnStatus, StoredWaitStatus, TurnRow};
use singletree_llm::Role;

use super::chart::{CheckedMessage, SessionRowSet};
use super::finding::{DoctorFinding, FindingKind, RepairAction};

pub(super) fn check_history(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    // The calls of the last assistant message, and whether each is answered.
    let mut calls: BTreeMap<&str, bool> = BTreeMap::new();
    for (seq, said) in chart.said.iter().enumerate() {
        let (role, made, answers) = match said {
            CheckedMessage::Message { role, calls, answers } => (*role, calls, answers.as_deref()),
            CheckedMessage::Unreadable(why) => {
                let what = format!("message {seq} cannot be read: {why}");
                findings.push(chart.make_finding(FindingKind::MessageInvalid, what, None));
                continue;
            }
        };
        match role {
            Role::Tool => {
                let id = answers.unwrap_or_default();
                let wrong = match calls.get_mut(id) {
                    Some(answered) => std::mem::replace(answered, true).then_some(FindingKind::ResultDoubled),
                    None => Some(FindingKind::ResultOrphaned),
                };
                findings.extend(wrong.map(|symptom| {
                    chart.make_finding(symptom, format!("message {seq} is a result of call '{id}'"), None)
                }));
            }
            Role::User | Role::Assistant | Role::System => {
                let open = list_open_calls(&calls);
                if !open.is_empty() {
                    let what = format!("message {seq} comes before the results of {open}");
                    findings.push(chart.make_finding(FindingKind::CallOpen, what, None));
                }
                calls = made.iter().map(|item| (item.as_str(), false)).collect();
            }
        }
    }
    let open = list_open_calls(&calls);
    if !open.is_empty() && is_idle_after_failure(chart) {
        let what = format!("the last turn ended and left {open} without results");
        findings.push(chart.make_finding(FindingKind::CallLeftOpen, what, Some(RepairAction::CloseCalls)));
    }
}

fn list_open_calls(calls: &BTreeMap<&str, bool>) -> String {
    let open = calls.iter().filter(|(_, answered)| !**answered).map(|(id, _)| format!("'{id}'"));
    open.collect::<Vec<_>>().join(", ")
}

/// Checks whether the session is idle and its last turn failed: such a turn may leave calls open, which the next
/// message closes.
fn is_idle_after_failure(chart: &SessionRowSet) -> bool {
    let idle = chart.turns.iter().all(|turn| turn.status.is_ended())
        && chart.waits.values().all(|wait| wait.status != StoredWaitStatus::Pending);
    let last = chart.turns.iter().max_by_key(|turn| (turn.ended_at, turn.no));
    let failed = last.filter(|last| last.status == StoredTurnStatus::Errored);
    // A turn that failed without having committed anything left no calls open.
    let made = |turn: &TurnRow| {
        turn.ordinal > 0 || chart.items.values().any(|item| item.placed && item.turn == turn.no)
    };
    idle && failed.is_some_and(made)
}
