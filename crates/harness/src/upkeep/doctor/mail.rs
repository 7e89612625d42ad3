//! An early signal can be taken, and is, once something waits for it (INV-8, D2).

use serde_json::{Map, Value};
use singletree_durable::StoredWaitStatus;

use super::chart::SessionRowSet;
use super::finding::{DoctorFinding, FindingKind, RepairAction};

pub(super) fn check_early_signals(chart: &SessionRowSet, findings: &mut Vec<DoctorFinding>) {
    for mail in &chart.mail {
        if let Err(error) = mail.payload.decode::<Map<String, Value>>() {
            let what = format!("the early signal '{}' cannot be read: {error}", mail.signal);
            let mend = RepairAction::DropMail { signal: mail.signal.clone() };
            findings.push(chart.make_finding(FindingKind::MailDamaged, what, Some(mend)));
            continue;
        }
        let waits =
            |status| chart.waits.values().find(|wait| wait.status == status && wait.signal == mail.signal);
        if let Some(wait) = waits(StoredWaitStatus::Pending) {
            let what =
                format!("the early signal '{}' is kept, and wait {} waits for it", mail.signal, wait.no);
            // The signal is neither dropped nor delivered here: sending it again ends the wait.
            findings.push(chart.make_finding(FindingKind::MailUntaken, what, None));
        }
    }
}
