//! Compares the clients' log with the stored data, session by session.

mod answers;
mod effects;
mod ends;
mod events;
mod order;
mod quiet;
mod sends;
mod transcript;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{HistoryEvent, HistoryRecord};
use crate::report::AuditReport;
use crate::stored::StoredSession;
use view::AuditedSession;

/// Compares the clients' log with the data that is stored when nothing runs any more.
///
/// The log may hold many sessions; a session that is not among the stored ones counts as empty. Turns carry the
/// number of their acceptance: the only order that can explain the stored data is known, and has only to be checked.
#[must_use]
pub fn audit_sessions(log: &[HistoryRecord], stored: &[StoredSession]) -> AuditReport {
    let mut records: BTreeMap<&str, Vec<&HistoryRecord>> = BTreeMap::new();
    let deaths: Vec<u64> =
        log.iter().filter(|entry| entry.what == HistoryEvent::Died).map(|entry| entry.at).collect();
    for record in log.iter().filter(|entry| entry.what != HistoryEvent::Died) {
        records.entry(&record.session).or_default().push(record);
    }
    let named: BTreeMap<&str, &StoredSession> =
        stored.iter().map(|item| (item.session.as_str(), item)).collect();
    let sessions: BTreeSet<&str> = records.keys().chain(named.keys()).copied().collect();
    let mut report = AuditReport::default();
    for session in sessions {
        let none = StoredSession::default();
        let records = records.remove(session).unwrap_or_default();
        let mut view =
            AuditedSession::new(session, &records, named.get(session).copied().unwrap_or(&none), &deaths);
        for rule in RULES {
            rule(&mut view);
        }
        report.merge_report(view.into_report());
    }
    report
}

const RULES: [fn(&mut AuditedSession<'_>); 8] = [
    sends::check_sent_messages,
    ends::check_told_outcomes,
    answers::check_wait_answers,
    order::check_turn_order,
    transcript::check_history,
    quiet::check_open_work,
    events::check_event_log,
    effects::check_effect_counts,
];
