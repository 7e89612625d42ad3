//! An early signal can be taken, and is, once something waits for it (INV-8, D2).

use serde_json::{Map, Value};
use singletree_durable::WaitStatus;

use super::chart::Chart;
use super::finding::{Finding, Mend, Symptom};

pub(super) fn look(chart: &Chart, findings: &mut Vec<Finding>) {
    for mail in &chart.mail {
        if let Err(error) = mail.payload.decode::<Map<String, Value>>() {
            let what = format!("the early signal '{}' cannot be read: {error}", mail.signal);
            let mend = Mend::DropMail { signal: mail.signal.clone() };
            findings.push(chart.finding(Symptom::MailDamaged, what, Some(mend)));
            continue;
        }
        let waits =
            |status| chart.waits.values().find(|wait| wait.status == status && wait.signal == mail.signal);
        if let Some(wait) = waits(WaitStatus::Pending) {
            let what =
                format!("the early signal '{}' is kept, and wait {} waits for it", mail.signal, wait.no);
            // The signal is neither dropped nor delivered here: sending it again ends the wait.
            findings.push(chart.finding(Symptom::MailUntaken, what, None));
        }
    }
}
