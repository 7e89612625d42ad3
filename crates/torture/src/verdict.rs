//! The final state after all kills, and the judgement of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use singletree_audit::{
    AuditReport, AuditRule, ClientOperation, HistoryEvent, HistoryRecord, RuleViolation, StoredSession,
};
use singletree_durable::{InvocationId, Journal, SessionKey, StoredWaitStatus, WaitRowQuery};
use singletree_harness::Examination;

use crate::child::LoggedEffect;
use crate::mix::LoadComposition;
use crate::nodes::NodeFaults;
use crate::phase::BatchPurpose;

/// Where the kills landed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KillStatistics {
    /// How many there were.
    pub total: u64,
    /// How many of them found a turn running.
    pub running: u64,
    /// How many found a commit of this kind under way.
    pub landed: BTreeMap<BatchPurpose, u64>,
}

/// The result of a torture run.
#[derive(Debug, Clone, PartialEq)]
pub struct TortureVerdict {
    /// The seed of the load.
    pub seed: u64,
    /// Where the kills landed.
    pub kills: KillStatistics,
    /// The faults beside kills, where there were several nodes.
    pub nodes: Option<NodeFaults>,
    /// The composition of the load.
    pub mix: LoadComposition,
    /// The audit of the logs against the stored data, with the violations that were found before a kill.
    pub report: AuditReport,
    /// The findings of the doctor.
    pub examination: Examination,
}

impl TortureVerdict {
    /// Counts broken promises under the names of the report: lost, doubled, orphaned, contradicted, stuck.
    #[must_use]
    pub fn count_broken_promises(&self) -> [(&'static str, usize); 5] {
        let count =
            |rules: &[AuditRule]| rules.iter().map(|rule| self.report.count_violations(*rule)).sum::<usize>();
        let findings = |of: fn(u32) -> bool| {
            self.examination.findings.iter().filter(|finding| of(finding.symptom.invariant())).count()
        };
        [
            ("lost", count(&[AuditRule::Lost]) + findings(|it| it == 2)),
            ("doubled", count(&[AuditRule::Doubled, AuditRule::Repeated])),
            (
                "orphaned",
                count(&[AuditRule::Orphaned, AuditRule::Invented]) + findings(|it| it == 4 || it == 6),
            ),
            ("contradicted", count(&[AuditRule::Contradicted, AuditRule::Reordered, AuditRule::Overtaken])),
            ("stuck", count(&[AuditRule::Stuck]) + findings(|it| it == 8) + self.examination.busy.len()),
        ]
    }

    /// Tells whether every promise was kept.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.examination.is_sound()
    }
}

impl fmt::Display for TortureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KillStatistics { total, running, landed } = &self.kills;
        write!(f, "seed {}: {total} kills, {running} of them in a running turn", self.seed)?;
        for (phase, count) in landed {
            write!(f, ", {count} in {}", phase.as_str())?;
        }
        if let Some(faults) = &self.nodes {
            let NodeFaults {
                pauses,
                stalls,
                delays,
                cuts,
                restarts,
                moved,
                takeovers,
                slowest_takeover_millis,
            } = faults;
            write!(
                f,
                "\n{pauses} pauses, {stalls} times all writes waited, {delays} times a node's came late, {cuts} cut connections, "
            )?;
            write!(f, "{restarts} restarts of the database, ")?;
            write!(f, "{moved} requests sent to another node, ")?;
            write!(f, "{takeovers} takeovers within {slowest_takeover_millis} ms")?;
        }
        let AuditReport { sessions, calls, given, told, stored, effects, .. } = &self.report;
        write!(f, "\n{sessions} sessions, {calls} calls, {given} turns given, {told} outcomes told, ")?;
        write!(f, "{stored} turns stored, {effects} effects")?;
        let LoadComposition {
            forks,
            edits,
            late_answers,
            double_answers,
            disconnects,
            releases,
            commit_faults,
            ..
        } = &self.mix;
        write!(
            f,
            "\n{forks} forks, {edits} edits, {late_answers} late and {double_answers} double answers, "
        )?;
        write!(f, "{disconnects} disconnects, {} cancels beside ", self.mix.cancels_beside_deletions)?;
        write!(f, "deletions, {releases} releases, {commit_faults} processes with failing commits, ")?;
        write!(f, "{} % of the outcomes say that the session waits", self.mix.suspended_share())?;
        let counts = self.count_broken_promises().map(|(name, count)| format!("{count} {name}"));
        write!(f, "\n{}", counts.join(", "))?;
        self.report.violations.iter().try_for_each(|violation| write!(f, "\n{violation}"))?;
        self.examination.findings.iter().try_for_each(|finding| {
            write!(f, "\n{} in {}: {}", finding.symptom.code(), finding.session.session, finding.what)
        })
    }
}

/// Compares the log of effects with the stored data: each effect happened once, for a stored message, and each effect
/// that a tool result names did happen (D7). None of the load's tools is run again by itself.
pub(crate) fn check_effects(
    effects: &[(Option<String>, LoggedEffect)],
    records: &[HistoryRecord],
    stored: &[StoredSession],
) -> Vec<RuleViolation> {
    let mut found = Vec::new();
    let mut find =
        |rule, session: &str, why| found.push(RuleViolation { rule, session: session.to_owned(), why });
    // The expected content of a deleted session is unknown.
    let deleted = records
        .iter()
        .filter(|record| matches!(record.what, HistoryEvent::Call { deed: ClientOperation::Delete, .. }));
    let deleted: BTreeSet<&str> = deleted.map(|deleted| deleted.session.as_str()).collect();
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for (session, happened) in effects {
        let (text, key) = (&happened.text, &happened.key);
        let count = times.entry(key).or_default();
        *count += 1;
        let session = session.as_deref().unwrap_or_default();
        if *count == 2 {
            find(AuditRule::Doubled, session, format!("the effect of '{text}' happened again"));
        }
        let asked = stored.iter().filter(|item| item.session == session);
        let asked = asked.flat_map(|it| &it.turns).any(|it| it.text.as_deref() == Some(text));
        if !asked && !deleted.contains(session) {
            find(
                AuditRule::Orphaned,
                session,
                format!("there was an effect of '{text}', which is not stored"),
            );
        }
    }
    for session in stored {
        for message in &session.messages {
            let done = message.brief.strip_prefix("tool:did ").and_then(|brief| brief.split(' ').next());
            if let Some(key) = done.filter(|done| !times.contains_key(done)) {
                let why = format!("the effect {key} is told of, and did not happen");
                find(AuditRule::Lost, &session.session, why);
            }
        }
    }
    found
}

/// Finds waits that were answered at or after their deadline (D37).
pub(crate) async fn answered_too_late(
    journal: &dyn Journal,
    key: &SessionKey,
    stored: &StoredSession,
) -> singletree_durable::Result<Vec<RuleViolation>> {
    let mut found = Vec::new();
    let invocations: BTreeSet<&str> = stored.waits.iter().map(|wait| wait.invocation.as_str()).collect();
    for invocation in invocations {
        let Ok(invocation) = InvocationId::parse(invocation) else { continue };
        let waits = journal.read_waits(&WaitRowQuery::Invocation(key.tenant.clone(), invocation)).await?;
        for (_, wait) in
            waits.into_iter().filter(|(of, it)| of == key && it.status == StoredWaitStatus::Consumed)
        {
            let (Some(deadline), Some(ended)) = (wait.deadline, wait.ended_at) else { continue };
            if ended >= deadline {
                let late = ended.duration_since(deadline).as_millis();
                let why = format!("wait {} was answered {late} ms after its deadline", wait.no);
                found.push(RuleViolation {
                    rule: AuditRule::Contradicted,
                    session: stored.session.clone(),
                    why,
                });
            }
        }
    }
    Ok(found)
}
