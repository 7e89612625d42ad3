//! A tool has its effect once, and once more at most for each time the process died meanwhile (D7).

use std::collections::BTreeMap;

use super::view::AuditedSession;
use crate::history::HistoryEvent;
use crate::rule::AuditRule;

pub(super) fn check_effect_counts(view: &mut AuditedSession<'_>) {
    let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for record in view.records {
        if let HistoryEvent::Effect { key } = &record.what {
            times.entry(key).or_default().push(record.at);
        }
    }
    for (key, at) in times {
        let (first, last) = (at.iter().min().copied(), at.iter().max().copied());
        let between = |it: &&u64| Some(**it) > first && Some(**it) < last;
        let deaths = view.deaths.iter().filter(between).count();
        if at.len() > 1 + deaths {
            let times = at.len();
            view.add_violation(
                AuditRule::Repeated,
                format!("effect '{key}' happened {times} times, with {deaths} deaths between"),
            );
        }
    }
}
